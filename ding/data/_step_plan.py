"""The quick check that a vector step has the form of the steps before."""

from typing import Any

import numpy as np
import torch

# Per field: its key, the type of its leaf, dtype and row shape.
StepPlan = list[tuple[str, Any, np.dtype, tuple[int, ...]]]


def plan_of(columns: dict[str, Any]) -> StepPlan:
    """What :func:`quick_arrays` compares a step with; empty when it cannot serve these columns."""
    plan: StepPlan = []
    for key, leaf in columns.items():
        if not isinstance(leaf, (torch.Tensor, np.ndarray)):
            return []
        array = as_array(leaf)
        plan.append((key, torch.Tensor if isinstance(leaf, torch.Tensor) else np.ndarray, array.dtype, array.shape[1:]))
    return plan


def quick_arrays(columns: dict[str, Any], plan: StepPlan) -> list[np.ndarray] | None:
    """The arrays of a flat step that is just like the steps before; None for any other, which goes the careful way.

    It runs once per vector step, where the careful way would cost as much as the copy.
    """
    if len(columns) != len(plan):
        return None
    arrays = []
    for key, leaf_type, dtype, shape in plan:
        leaf: Any = columns.get(key)
        if leaf.__class__ is not leaf_type:
            return None
        if leaf_type is torch.Tensor:
            if leaf.requires_grad or not leaf.is_cpu:
                return None
            leaf = leaf.numpy()
        if leaf.dtype != dtype or leaf.shape[1:] != shape:
            return None
        arrays.append(leaf)
    return arrays


def as_array(leaf: Any) -> np.ndarray:
    """The leaf as an array ``[N, ...]``; objects become an object array ``[N]``."""
    if isinstance(leaf, torch.Tensor):
        return leaf.numpy() if leaf.is_cpu and not leaf.requires_grad else leaf.detach().cpu().numpy()
    if isinstance(leaf, np.ndarray):
        return leaf
    array = np.empty(len(leaf), dtype=object)
    for i, item in enumerate(leaf):
        array[i] = item
    return array
