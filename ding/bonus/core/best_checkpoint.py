"""Selection of the checkpoint from which an agent is loaded."""

from collections.abc import Callable, Mapping
from pathlib import Path

from ding.bonus.common import ExperimentNotFoundError
from ding.data.roles import StateDict
from ding.entry.view.experiment import best_checkpoint
from ding.utils.checkpoint import only_acts


def best_checkpoint_of(exp_dir: str) -> str:
    """Return the path of the best checkpoint of an experiment folder.

    Raises:
        ExperimentNotFoundError: The folder does not exist, or contains no checkpoint.
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
    """Return the state for a learner from a checkpoint.

    A checkpoint that is only for acting is completed with the learner's current state, and with target networks equal
    to its networks.

    Args:
        found: The checkpoint.
        current: Returns the current state of the learner.
    """
    if not only_acts(found):
        return dict(found)
    state = current()
    model, target = found["model"], state.get("target_model")
    follows = isinstance(model, Mapping) and isinstance(target, Mapping) and set(target) == set(model)
    return {**state, **found, **({"target_model": model} if follows else {})}
