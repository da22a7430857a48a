"""Observations and observation spaces in the form of the workers; for actions see :mod:`ding.envs.env.actions`."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from ding.utils.nested import Tree
from ding.utils.seed import SeedTree

AnySpace: TypeAlias = spaces.Space[Any]


def tree_of(space: AnySpace, tuples: bool = True) -> Tree:
    """Return a space as nested dicts and tuples of its leaf spaces, for :mod:`ding.utils.nested`.

    Args:
        space: Any space; one that is neither a Dict nor a Tuple is a leaf.
        tuples: Descend into Tuples; otherwise they are leaves, too.
    """
    if isinstance(space, spaces.Dict):
        return {name: tree_of(part, tuples) for name, part in space.spaces.items()}
    if tuples and isinstance(space, spaces.Tuple):
        return tuple([tree_of(part) for part in space.spaces])
    return space


def map_space(fn: Callable[[AnySpace], AnySpace], space: AnySpace) -> AnySpace:
    """Apply ``fn`` to every leaf space and return the resulting space."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict([(name, map_space(fn, part)) for name, part in space.spaces.items()])
    if isinstance(space, (spaces.Tuple, spaces.OneOf)):
        return type(space)([map_space(fn, part) for part in space.spaces])
    if isinstance(space, spaces.Sequence):
        return spaces.Sequence(map_space(fn, space.feature_space), stack=space.stack)
    return fn(space)


def float32_space(space: AnySpace) -> AnySpace:
    """Return the space with float64 (and float16) boxes as float32."""
    return map_space(_float32_box, space)


def _float32_box(space: AnySpace) -> AnySpace:
    if isinstance(space, spaces.Box) and space.dtype.kind == "f" and space.dtype != np.float32:
        with np.errstate(over="ignore"):  # a float64 bound beyond float32 becomes infinite
            return spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
    return space


def seed_spaces(env: object, seed: int) -> None:
    """Seed the spaces of an env and of its inner envs, for envs that call ``sample()``.

    ``reset(seed=...)`` of Gymnasium seeds only the generator of the env. A space that is a class attribute is first
    copied to the env, so that envs of one class do not share its generator.

    Args:
        env: Env of Gymnasium or of the old gym API.
        seed: Seed of the env; each space gets a seed derived from it and from its position.
    """
    tree = SeedTree(seed % 2**64)
    for index, space in enumerate(_spaces_of(env)):
        space.seed(tree.derived("env", index=index, purpose="spaces"))


def _spaces_of(env: object) -> Iterator[AnySpace]:
    seen = set()
    while hasattr(type(env), "step"):  # excludes mocks, which have inner envs without end
        for name in ("observation_space", "action_space"):
            space: Any = getattr(env, name, None)
            if not hasattr(type(space), "sample") or not hasattr(type(space), "seed"):  # spaces of old gym qualify, too
                continue
            if getattr(type(env), name, None) is space:
                space = deepcopy(space)
                setattr(env, name, space)
            if id(space) not in seen:
                seen.add(id(space))
                yield space
        env = getattr(env, "env", None)
