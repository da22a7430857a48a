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
    if isinstance(space, (spaces.Tuple, spaces.OneOf)):
        return type(space)([float32_space(part) for part in space.spaces])
    if isinstance(space, spaces.Sequence):
        return spaces.Sequence(float32_space(space.feature_space), stack=space.stack)
    return space
