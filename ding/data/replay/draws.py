"""Random positions."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ding.utils import did_you_mean


class Draws:
    """A random generator and the draws that a buffer makes with it. Not thread-safe.

    The generator is seeded from numpy's global one when it is first used, so that ``set_pkg_seed`` makes runs
    repeatable.
    """

    def __init__(self) -> None:
        # For each position the number of the draw that gave it last; what was there before does not matter.
        self._stamps = np.zeros(0, dtype=np.int32)
        self._numbers = np.zeros(0, dtype=np.int32)
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
        if replace:
            return self._integers(count, size)
        if 4 * size >= count:
            return self.generator.permutation(count)[:size]
        if len(self._stamps) < count:
            self._stamps = np.empty(2 * count, dtype=np.int32)
        # About size^2 / 2 count of them are repeats.
        drawn = self._integers(count, size + size * size // count)
        while True:
            if len(self._numbers) != len(drawn):
                self._numbers = np.arange(len(drawn), dtype=np.int32)
            # Of what is written to one place the last stays: seen from the end, these are the first distinct ones.
            self._stamps[drawn] = self._numbers
            first = self._stamps.take(drawn) == self._numbers
            distinct = drawn if first.all() else drawn[first]
            if len(distinct) >= size:
                return distinct[-size:]
            drawn = np.concatenate([self._integers(count, size), drawn])

    def _integers(self, count: int, size: int) -> np.ndarray:
        """Independent ones. A 53-bit fraction is several times cheaper than ``integers``; its bias is below 1e-8."""
        return (self.generator.random(size) * count).astype(np.int64)

    def stratified(self, size: int) -> np.ndarray:
        """float64 ``[size]``: point i is uniform in ``[i, i + 1)``."""
        if len(self._strata) != size:
            self._strata = np.arange(size, dtype=np.float64)
        return self.generator.random(size) + self._strata

    def state_dict(self) -> dict[str, Any]:
        """The state of the generator, in plain Python values."""
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
