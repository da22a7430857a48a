"""Columns from the observations, actions and infos of a ``gymnasium.vector`` env."""

from typing import Any, TypeAlias

import gymnasium
import numpy as np

from ding.data.columns import Columns

VectorObs: TypeAlias = np.ndarray | dict[str, Any] | tuple[Any, ...]
"""Observations of a vector env: an array ``[N, ...]``, or a dict or tuple of arrays."""


def replaced(column: np.ndarray, rows: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
    column = column.copy()
    column[rows] = np.stack(values)
    return column


def cast_columns(obs: VectorObs, space: gymnasium.Space[Any], copy: bool) -> Columns:
    if isinstance(obs, np.ndarray) and obs.dtype != object:
        if isinstance(space, gymnasium.spaces.Box) and obs.dtype != space.dtype:
            return obs.astype(space.dtype)
        return obs.copy() if copy else obs
    if isinstance(obs, dict) and isinstance(space, gymnasium.spaces.Dict):
        return {name: cast_columns(value, space.spaces[name], copy) for name, value in obs.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return part_rows(obs, space, copy)
    if hasattr(obs, "__array__") and not isinstance(obs, np.ndarray):
        return cast_columns(np.asarray(obs), space, copy)
    return list(obs)


def part_rows(part: Any, space: gymnasium.Space[Any], copy: bool = False) -> list[Any]:
    """Return the values of each env for a part of the observations of a vector env."""
    if isinstance(space, gymnasium.spaces.Tuple):
        return list(zip(*[part_rows(one, of, copy) for one, of in zip(part, space.spaces)]))
    if isinstance(space, gymnasium.spaces.Dict):
        columns = {key: part_rows(part[key], one, copy) for key, one in space.spaces.items()}
        return [dict(zip(columns, row)) for row in zip(*columns.values())]
    if isinstance(part, np.ndarray):
        dtype = space.dtype if isinstance(space, gymnasium.spaces.Box) else part.dtype
        return list(part.astype(dtype, copy=copy))
    return list(part)


def row_info(infos: dict[str, Any], row: int) -> dict[str, Any]:
    """Return the info of one env from the infos of a vector env, where ``_key`` masks the envs that have ``key``.

    Keys may have any type, and may start with ``_`` if they mask no other key.
    """
    found: dict[str, Any] = {}
    masks = {f"_{key}" for key in infos}
    for key, value in infos.items():
        if key in masks or key in ("final_obs", "final_info"):
            continue
        mask = infos.get(f"_{key}")
        if mask is not None and not mask[row]:
            continue
        found[key] = row_info(value, row) if isinstance(value, dict) else value[row]
    return found
