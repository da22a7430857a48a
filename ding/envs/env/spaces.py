"""Observations and their spaces in the form of workers; for actions see :mod:`ding.envs.env.actions`."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from ding.utils.nested import Tree

AnySpace: TypeAlias = spaces.Space[Any]


def tree_of(space: AnySpace, tuples: bool = True) -> Tree:
    """Return a space as nested dicts and tuples of the spaces in it, for the walks of :mod:`ding.utils.nested`.

    Args:
        space: any space; one that is neither a Dict nor a Tuple is a leaf.
        tuples: whether Tuples are entered; else they are leaves, too.
    """
    if isinstance(space, spaces.Dict):
        return {name: tree_of(part, tuples) for name, part in space.spaces.items()}
    if tuples and isinstance(space, spaces.Tuple):
        return tuple([tree_of(part) for part in space.spaces])
    return space


def map_space(fn: Callable[[AnySpace], AnySpace], space: AnySpace) -> AnySpace:
    """Return the space with ``fn`` of every space in it that holds no other."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict([(name, map_space(fn, part)) for name, part in space.spaces.items()])
    if isinstance(space, (spaces.Tuple, spaces.OneOf)):
        return type(space)([map_space(fn, part) for part in space.spaces])
    if isinstance(space, spaces.Sequence):
        return spaces.Sequence(map_space(fn, space.feature_space), stack=space.stack)
    return fn(space)


def float32_space(space: AnySpace) -> AnySpace:
    """Return the space with its float64 (and float16) boxes as float32."""
    return map_space(_float32_box, space)


def _float32_box(space: AnySpace) -> AnySpace:
    if isinstance(space, spaces.Box) and space.dtype.kind == "f" and space.dtype != np.float32:
        return spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
    return space
