"""Observations and their spaces in the form of workers; for actions see :mod:`ding.envs.env.actions`."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from ding.utils.nested import Tree
from ding.utils.seed import SeedTree

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
        with np.errstate(over="ignore"):  # a bound of float64 beyond float32 is none
            return spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
    return space


def seed_spaces(env: object, seed: int) -> None:
    """Seed the spaces of an env and of the envs that it wraps, for envs that draw from them by ``sample()``.

    ``reset(seed=...)`` of gymnasium seeds only the generator of the env. A space that is an attribute of the class is
    copied to the env first, so that envs of one class do not share its generator.

    Args:
        env: an env of gymnasium or of the old gym API.
        seed: the seed of the env; each space gets one that follows from it and from its position.
    """
    tree = SeedTree(seed % 2**64)
    for index, space in enumerate(_spaces_of(env)):
        space.seed(tree.derived("env", index=index, purpose="spaces"))


def _spaces_of(env: object) -> Iterator[AnySpace]:
    seen = set()
    while hasattr(type(env), "step"):  # not of a mock, which has another env inside without end
        for name in ("observation_space", "action_space"):
            space: Any = getattr(env, name, None)
            if not hasattr(type(space), "sample") or not hasattr(type(space), "seed"):  # those of old gym have them too
                continue
            if getattr(type(env), name, None) is space:
                space = deepcopy(space)
                setattr(env, name, space)
            if id(space) not in seen:
                seen.add(id(space))
                yield space
        env = getattr(env, "env", None)
