"""Detect numbers that float32, the dtype of networks, cannot represent."""

from collections.abc import Iterable

import numpy as np
import torch

FLOAT32_MAX = float(np.finfo(np.float32).max)
_SURE = FLOAT32_MAX**2


def is_surely_finite(array: np.ndarray) -> bool:
    """Return whether the sum of squares shows that all numbers are finite and fit float32.

    The fastest check for a few numbers. False for NaN and for numbers so large that :func:`unfit_number` has to check
    each of them; dtypes other than floats contain neither.
    """
    return array.dtype.kind != "f" or float(np.vdot(array, array)) <= _SURE


def unfit_number(array: np.ndarray) -> tuple[int, float] | None:
    """Return row and value of a NaN, else of the largest number that float32 cannot represent.

    Args:
        array: ``[N, ...]``.

    Returns:
        None if all numbers fit.
    """
    if array.dtype.kind != "f" or not array.size:
        return None
    rows = array.reshape(len(array), -1)
    sizes = np.abs(rows)
    position = int(sizes.argmax())  # of the first NaN, if any
    if sizes.flat[position] <= FLOAT32_MAX:
        return None
    return position // rows.shape[1], float(rows.flat[position])


def unfit_leaf(leaves: Iterable[tuple[str, object]]) -> tuple[str, int, float] | None:
    """Return path, row and value of a number as :func:`unfit_number` does; NaN comes first.

    Args:
        leaves: Paths and arrays or tensors from :func:`ding.utils.nested.iter_leaves`; other leaves are skipped.
    """
    found: tuple[str, int, float] | None = None
    for path, leaf in leaves:
        array = leaf
        if isinstance(leaf, torch.Tensor):
            array = (leaf.float() if leaf.dtype is torch.bfloat16 else leaf.detach()).numpy(force=True)
        if isinstance(array, np.ndarray) and not is_surely_finite(array):
            number = unfit_number(np.atleast_1d(array))
            if number is not None and np.isnan(number[1]):
                return path, *number
            if number is not None and found is None:
                found = path, *number
    return found
