"""Uniform actions for many environments at once, for the spaces of gymnasium and of the old gym.

Spaces are distinguished by class name, so that neither package has to be imported here.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch

from ding.policy.errors import PolicyDataError
from ding.torch_utils.math_helper import usable_mask


class SingleSpace(Protocol):
    """A space of gymnasium or the old gym, as far as all have the same."""

    def seed(self, seed: Any = None) -> Any:
        """Seed the generator of the space."""

    def sample(self) -> Any:
        """Draw one action."""


Space: TypeAlias = SingleSpace | Sequence[Any]
"""A space, or one space per agent."""


def is_space(space: object, name: str) -> bool:
    """Whether ``space`` is of the class ``name`` of gymnasium or gym, or of a subclass."""
    return any(cls.__name__ == name for cls in type(space).__mro__)


class ActionSampler:
    """Draws actions of one space for ``n`` environments, in the form of a policy: discrete ones count from 0.

    Args:
        space: an action space, a list of spaces (one per agent) or a dict space.
        rng: where all randomness comes from; the space's own generator is left alone.
    """

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self.space = space
        self._rng = rng
        self._draw = self._drawer(space)

    def sample(self, n: int) -> Any:
        """``n`` actions as a column.

        ``Discrete`` int64 ``[n, 1]``; ``MultiDiscrete`` a list of n lists of int64 ``(1,)`` tensors; ``Box`` its dtype
        (float32 for float64) ``[n, *shape]``; a hybrid of ``action_type`` and ``action_args`` a dict of both; several
        spaces of one shape ``[n, spaces, ...]``; ``Tuple`` a list of n tuples.
        """
        return self._draw(n)

    def sample_masked(self, mask: torch.Tensor) -> torch.Tensor:
        """int64 actions ``[...]``, uniform among those that ``mask`` ``[..., N]`` allows (all, if it allows none)."""
        allowed = usable_mask(mask) > 0
        scores = torch.from_numpy(self._rng.random(tuple(mask.shape)))
        return scores.masked_fill_(~allowed, -1.0).argmax(-1)

    def _drawer(self, space: Any) -> Callable[[int], Any]:
        if isinstance(space, (list, tuple)):
            return self._stack([self._drawer(part) for part in space])
        if is_space(space, "Dict") and set(space.spaces) == {"action_type", "action_args"}:
            drawn = {key: self._drawer(part) for key, part in space.spaces.items()}
            return lambda n: {key: drawer(n) for key, drawer in drawn.items()}
        if is_space(space, "Dict"):
            return self._stack([self._drawer(part) for part in space.spaces.values()])
        if is_space(space, "Tuple"):
            drawers = [self._drawer(part) for part in space.spaces]
            return lambda n: list(zip(*[drawer(n) for drawer in drawers]))
        if is_space(space, "Discrete"):
            return lambda n: torch.from_numpy(self._rng.integers(0, int(space.n), size=(n, 1)))
        if is_space(space, "MultiDiscrete"):
            return self._multi_discrete(space)
        if is_space(space, "Box"):
            return lambda n: self._box(space, n)
        return self._one_by_one(space)

    def _stack(self, drawers: list[Callable[[int], Any]]) -> Callable[[int], Any]:
        """One column ``[n, spaces, ...]`` of several spaces; a dim of one action is dropped."""

        def draw(n: int) -> torch.Tensor:
            parts = [drawer(n) for drawer in drawers]
            if len({tuple(part.shape) for part in parts}) != 1:
                shapes = [tuple(part.shape[1:]) for part in parts]
                raise PolicyDataError(f"random actions of several spaces need one shape, found {shapes}")
            if parts[0].shape[1:] == (1,):
                return torch.cat(parts, dim=1)
            return torch.stack(parts, dim=1)

        return draw

    def _multi_discrete(self, space: Any) -> Callable[[int], list[list[torch.Tensor]]]:
        sizes = np.asarray(space.nvec).reshape(-1)

        def draw(n: int) -> list[list[torch.Tensor]]:
            values = torch.from_numpy(self._rng.integers(0, sizes, size=(n, len(sizes))))
            return [list(row.unsqueeze(-1).unbind(0)) for row in values]

        return draw

    def _box(self, space: Any, n: int) -> torch.Tensor:
        shape = (n, *space.shape)
        if np.issubdtype(space.dtype, np.integer):
            low, high = space.low.astype(np.int64), space.high.astype(np.int64)
            whole = self._rng.integers(low, high, size=shape, endpoint=True)
            return torch.from_numpy(whole.astype(space.dtype))
        below, above = np.isfinite(space.low), np.isfinite(space.high)
        if below.all() and above.all():
            values = self._rng.uniform(space.low, space.high, size=shape)
        else:
            values = _unbounded(self._rng, space, below, above, shape)
        return torch.from_numpy(values.astype(np.float32))

    def _one_by_one(self, space: SingleSpace) -> Callable[[int], torch.Tensor]:
        """For spaces without a rule above: their own ``sample``, on a copy seeded from our generator."""
        own = copy.deepcopy(space)
        own.seed(int(self._rng.integers(2**31)))
        return lambda n: torch.from_numpy(np.stack([np.asarray(own.sample()) for _ in range(n)]))


def _unbounded(
    rng: np.random.Generator, space: Any, below: np.ndarray, above: np.ndarray, shape: tuple[int, ...]
) -> np.ndarray:
    """As gymnasium does: normal without bounds, exponential from a single bound, uniform between two."""
    low = np.where(below, space.low, 0.0).astype(np.float64)
    high = np.where(above, space.high, 1.0).astype(np.float64)
    free = rng.standard_normal(shape)
    tail = rng.standard_exponential(shape)
    between = rng.uniform(np.minimum(low, high), high, size=shape)
    return np.where(below & above, between, np.where(below, low + tail, np.where(above, high - tail, free)))
