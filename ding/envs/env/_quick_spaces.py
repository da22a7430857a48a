"""Action spaces with a cheaper test of membership.

Many envs, CartPole among them, assert at each step that their action space contains the action. gymnasium's answer for
one int costs up to a third of a whole CartPole step. The classes here say yes to plain actions at once, where gymnasium
would say yes too, and leave every other question to it.
"""

from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces

Env = TypeVar("Env")


class QuickDiscrete(spaces.Discrete):
    """``Discrete``; see above."""

    _kinds: tuple[type, ...]
    _low: int
    _high: int

    @classmethod
    def of(cls, space: spaces.Discrete) -> "QuickDiscrete":
        """The same space, with the same random state."""
        quick = cls.__new__(cls)
        quick.__dict__.update(space.__dict__)
        quick._low, quick._high = int(space.start), int(space.start) + int(space.n) - 1
        quick._kinds = (int, np.int64) if space.dtype == np.int64 else (int,)
        return quick

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a member."""
        if type(x) in self._kinds and self._low <= x <= self._high:
            return True
        return super().contains(x)


class QuickMultiDiscrete(spaces.MultiDiscrete):
    """``MultiDiscrete`` whose components all have the same values; see above."""

    _low: int
    _high: int

    @classmethod
    def of(cls, space: spaces.MultiDiscrete) -> "QuickMultiDiscrete":
        """The same space, with the same random state."""
        quick = cls.__new__(cls)
        quick.__dict__.update(space.__dict__)
        start = int(space.start.flat[0])
        quick._low, quick._high = start, start + int(space.nvec.flat[0]) - 1
        return quick

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a member."""
        if type(x) is np.ndarray and x.shape == self.nvec.shape and x.dtype == self.dtype and x.dtype == np.int64:
            # From 0 on one bound does: what is negative becomes a huge number.
            steps = (x - self._low if self._low else x).view(np.uint64)
            if np.maximum.reduce(steps, axis=None) <= self._high - self._low:
                return True
        return super().contains(x)


def quicken_membership(env: Env) -> Env:
    """Give the innermost env a quick action space where there is one for its own. Returns ``env``."""
    inner: Any = getattr(env, "unwrapped", env)
    # Only a plain attribute: a property may be computed from anything.
    space = vars(inner).get("action_space")
    if type(space) is spaces.Discrete:
        inner.action_space = QuickDiscrete.of(space)
    elif type(space) is spaces.MultiDiscrete and space.nvec.size and _uniform(space):
        inner.action_space = QuickMultiDiscrete.of(space)
    return env


def _uniform(space: spaces.MultiDiscrete) -> bool:
    return bool((space.nvec == space.nvec.flat[0]).all() and (space.start == space.start.flat[0]).all())
