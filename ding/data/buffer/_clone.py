"""Structural copies: containers and arrays are copied, everything else is shared."""

from typing import Any

import numpy as np
import torch

from ding.data.buffer.buffer import BufferedData
from ding.data.transition_batch import Row, TransitionBatch
from ding.utils.nested import Tree, map_leaves


def clone_structure(value: Any) -> Tree:
    """Return a copy of lists, dicts, tensors, arrays, batches and records (nested), decided by the exact type.

    Anything else (tuples, subclasses, other objects) is shared. A record keeps its index.
    """
    kind = type(value)
    if kind in (dict, Row):
        return kind((key, clone_structure(item)) for key, item in value.items())
    if kind is list:
        return [clone_structure(item) for item in value]
    if kind is torch.Tensor:
        return value.clone()
    if kind is np.ndarray:
        return value.copy()
    if kind is BufferedData:
        return BufferedData(clone_structure(value.data), value.index, clone_structure(value.meta))
    if kind is TransitionBatch:
        columns = map_leaves(clone_structure, value.columns)
        assert isinstance(columns, dict)
        return TransitionBatch.unchecked(columns, len(value), value.lengths)
    return value
