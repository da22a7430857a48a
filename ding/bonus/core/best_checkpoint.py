"""The checkpoint from which an agent is loaded."""

from collections.abc import Callable, Mapping
from pathlib import Path

from ding.bonus.common import ExperimentNotFoundError
from ding.data.roles import StateDict
from ding.entry.view.experiment import best_checkpoint
from ding.utils.checkpoint import only_acts


def best_checkpoint_of(exp_dir: str) -> str:
    """Return the path of the best checkpoint of an experiment folder.

    Raises:
        ExperimentNotFoundError: there is no such folder, or no checkpoint in it.
    """
    folder = Path(exp_dir) / "ckpt"
    found = best_checkpoint(exp_dir)
    if found is not None:
        return str(found)
    if not folder.is_dir():
        raise ExperimentNotFoundError(f"{exp_dir} has no checkpoints: there is no folder {folder}")
    raise ExperimentNotFoundError(
        f"{folder} holds no checkpoint, only {sorted(path.name for path in folder.iterdir())}"
    )


def learner_state(found: StateDict, current: Callable[[], StateDict]) -> StateDict:
    """Return what a learner loads of a checkpoint.

    One that is for acting only gets the other parts of the learner as they are, and target networks that equal its own.

    Args:
        found: The checkpoint.
        current: Returns the state of the learner as it is.
    """
    if not only_acts(found):
        return dict(found)
    state = current()
    model, target = found["model"], state.get("target_model")
    follows = isinstance(model, Mapping) and isinstance(target, Mapping) and set(target) == set(model)
    return {**state, **found, **({"target_model": model} if follows else {})}
