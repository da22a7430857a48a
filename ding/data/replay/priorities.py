"""Which slots a sample gets: drawn uniformly, or in proportion to priorities."""

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ding.data.sum_tree import SumTree
from ding.utils import did_you_mean

#: Smallest priority that counts: a weight of 0 would make a row unreachable.
EPS = 1e-5
# Weights are kept below this, so that the sum of many huge ones stays finite.
_LARGEST_WEIGHT = 1e280


class Draws:
    """A random generator and the draws that a buffer makes with it. Not thread-safe.

    The generator is seeded from numpy's global one when it is first used, so that ``set_pkg_seed`` makes runs
    repeatable.
    """

    def __init__(self) -> None:
        self._strata = np.zeros(0)

    @functools.cached_property
    def generator(self) -> np.random.Generator:
        """The generator."""
        seed = np.random.randint(0, 2**32, size=4, dtype=np.uint32)
        return np.random.Generator(np.random.PCG64(seed.tolist()))

    def uniform(self, count: int, size: int, replace: bool = False) -> np.ndarray:
        """int64 ``[size]`` out of ``[0, count)``, where ``size <= count`` or ``replace``.

        Without replacement it is a uniformly distributed sequence of distinct numbers.
        """
        return self.generator.integers(count, size=size) if replace else self.generator.choice(count, size, False)

    def stratified(self, size: int) -> np.ndarray:
        """float64 ``[size]``: point i is uniform in ``[i, i + 1)``."""
        if len(self._strata) != size:
            self._strata = np.arange(size, dtype=np.float64)
        return self.generator.random(size) + self._strata

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the generator, in plain Python values."""
        return dict(self.generator.bit_generator.state)

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Go on from a state; ``None``: from a new seed.

        Raises:
            ValueError: the state belongs to another kind of generator.
        """
        if state is None:
            self.__dict__.pop("generator", None)
            return
        bits = np.random.PCG64(0)
        name = type(bits).__name__
        if state.get("bit_generator") != name:
            hint = did_you_mean(str(state.get("bit_generator")), [name])
            raise ValueError(f"cannot restore a {name} from a state.{hint}")
        bits.state = dict(state)  # type: ignore[assignment]
        self.generator = np.random.Generator(bits)


class Priorities:
    """Draws slots in proportion to ``max(priority, EPS) ** alpha``, after Schaul et al., "Prioritized Experience
    Replay" (arXiv:1511.05952). Not thread-safe.

    Args:
        size: number of slots.
        alpha: exponent of the priorities.
        beta: exponent of the importance weights at first.
        anneal_step: number of batches drawn until beta is 1; 0: beta stays.
    """

    def __init__(self, size: int, alpha: float, beta: float, anneal_step: float) -> None:
        self.alpha = alpha
        self.beta = beta
        self.anneal_step = anneal_step
        self._beta_step = (1 - beta) / anneal_step if anneal_step else 0.0
        #: float64 ``[size]``, 0 in empty slots. Do not write.
        self.values = np.zeros(size)
        self._tree = SumTree(size)
        # While the priorities were all 1 and in the first slots, their number: draws need no sums then. Else None.
        self._ones: int | None = 0
        #: The priority of rows that come without one.
        self.largest = 1.0

    @property
    def tree(self) -> SumTree:
        """Sums of the weights ``max(priority, EPS) ** alpha``, made when they are first needed."""
        if self._ones is not None:
            self._tree.set_range(0, self._ones, 1.0)
            self._ones = None
        return self._tree

    def weights(self, priority: np.ndarray) -> np.ndarray:
        """float64 ``[N]`` weights of priorities ``[N]``."""
        values: np.ndarray = np.minimum(np.maximum(priority, EPS) ** self.alpha, _LARGEST_WEIGHT)
        return values

    def fill(self, start: int, count: int, priority: "float | np.ndarray") -> None:
        """Set the priorities (one for all, or ``[count]``) of the slots of a ring from ``start`` on."""
        stop = start + count
        if stop > len(self.values):
            until = len(self.values) - start
            given = isinstance(priority, np.ndarray)
            self.fill(start, until, priority[:until] if given else priority)  # type: ignore[index]
            self.fill(0, count - until, priority[until:] if given else priority)  # type: ignore[index]
            return
        self.values[start:stop] = priority
        if isinstance(priority, np.ndarray):
            self.tree.set_range(start, stop, self.weights(priority))
        elif self._ones is not None and priority == 1 and start <= self._ones:
            self._ones = max(self._ones, stop)
        else:
            self.tree.set_range(start, stop, min(max(priority, EPS) ** self.alpha, _LARGEST_WEIGHT))

    def put(self, slots: np.ndarray, priority: np.ndarray, drawn_by: "np.ndarray | None" = None) -> None:
        """Set the priorities (float64 ``[N]``) of slots (int64 ``[N]``).

        ``drawn_by``, float64 ``[N]``, are what the weights are made of where these are not the priorities themselves.
        """
        self.values[slots] = priority
        self.tree.set(slots, self.weights(priority if drawn_by is None else drawn_by))

    def remove(self, slots: np.ndarray) -> None:
        """Empty these slots."""
        self.values[slots] = 0.0
        self.tree.set(slots, 0.0)

    def clear(self) -> None:
        """Empty all slots and forget the largest priority; beta stays."""
        self.values.fill(0.0)
        self._tree.clear()
        self._ones = 0
        self.largest = 1.0

    def draw(self, points: np.ndarray, parts: int, among: "np.ndarray | None" = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the slots in which points of the cumulative sum of the weights lie.

        Args:
            points: float64 ``[N]``, N > 0, in ``[0, parts)``.
            parts: stands for the sum of all weights.
            among: int64 ``[K]`` slots to draw from; ``None``: all.

        Returns:
            int64 ``[N]`` slots and float64 ``[N]``, their weights.

        Raises:
            ValueError: no slot has a weight.
        """
        if among is None:
            if not self._ones:
                return self.tree.draw(points, parts)
            # Rounding may lead to the end itself, which lies in no slot.
            return np.minimum((points * (self._ones / parts)).astype(np.int64), self._ones - 1), np.ones(len(points))
        weights = self.tree.leaves.take(among)
        ends = weights.cumsum()
        picked = np.minimum(ends.searchsorted(points * (ends[-1] / parts), "right"), len(ends) - 1)
        return among.take(picked), weights.take(picked)

    def next_betas(self, num_batches: int) -> list[float]:
        """Return the exponents of the importance weights of the next batches; beta is a step closer to 1 after each."""
        betas = []
        for _ in range(num_batches):
            betas.append(self.beta)
            self.beta = min(1.0, self.beta + self._beta_step)
        return betas

    def importance(self, weights: np.ndarray, num_batches: int = 1) -> np.ndarray:
        """``(N * P(i)) ** -beta`` of rows with these weights, divided by the largest such value: float64 ``[N]``.

        Beta is a step closer to 1 after each of the ``num_batches`` of one size that the rows are.
        """
        betas = self.next_betas(num_batches)
        # (N * P(i)) ** -beta / (N * P_min) ** -beta = (w_min / w_i) ** beta
        if self._ones is not None:
            return weights  # all 1, and so are the results
        return (self.tree.smallest() / weights) ** (
            betas[0] if num_batches == 1 else np.repeat(betas, len(weights) // num_batches)
        )

    def state_dict(self) -> dict[str, Any]:
        """Copies of the priorities and of the tree of weights."""
        ones, tree = self._ones, self.tree.state_dict()
        self._ones = ones
        return {"priority": self.values.copy(), "alpha": self.alpha, "tree": tree}

    def load_state_dict(self, state: Mapping[str, Any], held: np.ndarray, largest: float, beta: float) -> None:
        """Take over a ``state_dict`` for the slots ``held``; weights are made anew when it has another ``alpha``.

        Raises:
            ValueError: an array has not the size of this one, or a number is none.
        """
        self.values[:] = state["priority"]
        if state["alpha"] == self.alpha:
            self.tree.load_state_dict(state["tree"])
        else:
            self.tree.clear()
            self.tree.set(held, self.weights(self.values[held]))
        if len(held) == held.max(initial=-1) + 1 and (self.values[held] == 1).all():
            self._ones = len(held)
        if math.isnan(largest) or math.isnan(beta):
            raise ValueError("neither the largest priority nor beta can be NaN")
        self.largest, self.beta = largest, beta
