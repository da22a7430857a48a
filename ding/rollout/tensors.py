"""What an env or a policy gave, as tensors."""

import itertools
from typing import Any

import numpy as np
import torch

from ding.data.columns import Columns
from ding.data.roles import Transition
from ding.torch_utils import to_tensor


def to_tensor_transitions(data: list[Transition], shallow_copy_next_obs: bool = True) -> list[Transition]:
    """Turn the arrays of transitions into tensors (float64 into float32) and leave Python scalars alone.

    Args:
        data: consecutive transitions of one environment.
        shallow_copy_next_obs: make ``next_obs`` of each transition the very object that is ``obs`` of the next one.
            The last transition keeps its own.

    Returns:
        A new list of new dicts.
    """
    if not data:
        return []
    if "next_obs" not in data[0] or not shallow_copy_next_obs:
        return [to_tensor(transition, transform_scalar=False) for transition in data]
    last = len(data) - 1
    tensors = [
        {k: to_tensor(v, transform_scalar=False) for k, v in transition.items() if k != "next_obs" or i == last}
        for i, transition in enumerate(data)
    ]
    for current, following in itertools.pairwise(tensors):
        current["next_obs"] = following["obs"]
    return tensors


def as_tensors(columns: Columns) -> Any:
    """Arrays with a row shape become tensors that share memory (float64 is copied to float32), scalar columns stay.

    The column form of :func:`ding.rollout.to_tensor_transitions`.
    """
    if isinstance(columns, dict):
        return {key: as_tensors(value) for key, value in columns.items()}
    if not isinstance(columns, np.ndarray) or columns.ndim < 2:
        return columns
    return torch.from_numpy(columns.astype(np.float32) if columns.dtype == np.float64 else columns)
