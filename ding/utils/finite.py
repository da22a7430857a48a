"""Numbers that float32, in which networks compute, cannot hold."""

from collections.abc import Iterable

import numpy as np
import torch

FLOAT32_MAX = float(np.finfo(np.float32).max)
_SURE = FLOAT32_MAX**2


def is_surely_finite(array: np.ndarray) -> bool:
    """Return whether one look at the sum of squares shows that all numbers are finite and fit float32.

    It is the fastest look at a few numbers. False for NaN, and for numbers so large that :func:`unfit_number` has to
    look at each of them; other dtypes than floats hold none of both.
    """
    return array.dtype.kind != "f" or float(np.vdot(array, array)) <= _SURE


def unfit_number(array: np.ndarray) -> tuple[int, float] | None:
    """Return the row and the value of a number that is NaN, else of the largest one that float32 cannot hold.

    Args:
        array: ``[N, ...]``.

    Returns:
        None where all numbers fit.
    """
    if array.dtype.kind != "f" or not array.size:
        return None
    rows = array.reshape(len(array), -1)
    sizes = np.abs(rows)
    position = int(sizes.argmax())  # of the first NaN, if there is one
    if sizes.flat[position] <= FLOAT32_MAX:
        return None
    return position // rows.shape[1], float(rows.flat[position])


def unfit_leaf(leaves: Iterable[tuple[str, object]]) -> tuple[str, int, float] | None:
    """Return path, row and value of a number as :func:`unfit_number`, of which NaN comes first.

    Args:
        leaves: paths and arrays or tensors, as :func:`ding.utils.nested.iter_leaves` gives them; others are passed by.
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
