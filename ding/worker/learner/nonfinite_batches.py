"""Batches of updates that gave NaN or infinity."""

import logging
import os

from ding.data import TransitionBatch
from ding.data.safe_file import SafeFileError, write_tree
from ding.utils.finite import FLOAT32_MAX, unfit_leaf
from ding.utils.nested import iter_paths

log = logging.getLogger(__name__)

# File prefix.
_FILE_KIND = "ding.batch"


def save_batch(folder: str, data: object, train_iter: int, mark: str = "") -> str:
    """Save ``data``, unless it is ``None``, as ``iteration_<n><mark>.safetensors`` in ``folder``; return the path.

    A batch that cannot be saved is logged.
    """
    path = os.path.join(folder, f"iteration_{train_iter}{mark}.safetensors")
    if data is None:
        return path
    columns = data.columns if isinstance(data, TransitionBatch) else data
    try:
        write_tree(path, columns, _FILE_KIND)
    except (SafeFileError, OSError) as error:
        log.warning("the batch of train iteration %d is not saved: %s", train_iter, error)
    return path


def cause_in(data: object) -> str:
    """Describe a batch value that float32 cannot hold, observations first; empty if all fit."""
    columns = data.columns if isinstance(data, TransitionBatch) else data
    leaves = [
        (".".join(key for key in keys if isinstance(key, str)), leaf)
        for keys, leaf in iter_paths(columns, sequences=(list, tuple))
    ]
    are_obs = [path.startswith(("obs", "next_obs")) for path, _ in leaves]
    for group in (True, False):
        found = unfit_leaf(leaf for leaf, is_obs in zip(leaves, are_obs) if is_obs is group)
        if found is not None:
            return f"{found[0]!r} of the batch holds {found[2]:g}, and float32 ends at {FLOAT32_MAX:.2g}; "
    return ""
