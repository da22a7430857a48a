"""The checkpoint from which an agent is loaded."""

from pathlib import Path

from ding.bonus.common import ExperimentNotFoundError
from ding.entry.view.experiment import best_checkpoint


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
