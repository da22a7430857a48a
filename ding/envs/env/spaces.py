"""Observations and their spaces in the form of workers; for actions see :mod:`ding.envs.env.actions`."""

from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

AnySpace: TypeAlias = spaces.Space[Any]


def float32_space(space: AnySpace) -> AnySpace:
    """The space with its float64 (and float16) boxes as float32."""
    if isinstance(space, spaces.Box) and space.dtype.kind == "f" and space.dtype != np.float32:
        return spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: float32_space(part) for name, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([float32_space(part) for part in space.spaces])
    return space


def cast_obs(obs: object, space: AnySpace | None) -> Any:
    """The observation as arrays, float32 where its space says so; dicts and tuples keep their form."""
    if isinstance(space, spaces.Box):
        array = np.asarray(obs)
        # What is no real number stays as it is, for the manager to complain about.
        return (
            array.astype(np.float32, copy=False) if space.dtype == np.float32 and array.dtype.kind in "fiub" else array
        )
    if isinstance(space, spaces.Dict) and isinstance(obs, dict):
        return {name: cast_obs(value, space.spaces.get(name)) for name, value in obs.items()}
    if isinstance(space, spaces.Tuple) and isinstance(obs, (tuple, list)):
        return tuple(cast_obs(value, part) for value, part in zip(obs, space.spaces))
    if isinstance(obs, (int, float, bool, np.number, np.bool_)):
        return np.asarray(obs)
    return obs
