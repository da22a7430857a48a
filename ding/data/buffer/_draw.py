"""Random generators that follow ``set_pkg_seed``."""

from typing import Any

import numpy as np


class LazyGenerator:
    """A numpy generator, seeded from numpy's global one when it is first used."""

    def __init__(self) -> None:
        self._generator: np.random.Generator | None = None

    def __call__(self) -> np.random.Generator:
        if self._generator is None:
            seed = np.random.randint(0, 2**32, size=4, dtype=np.uint32)
            self._generator = np.random.Generator(np.random.PCG64(seed.tolist()))
        return self._generator

    def state(self) -> dict[str, Any] | None:
        """The state, in plain Python values; ``None`` before the first use."""
        return None if self._generator is None else dict(self._generator.bit_generator.state)

    def set_state(self, state: dict[str, Any] | None) -> None:
        """Go on from a :meth:`state`."""
        if state is None:
            self._generator = None
        else:
            self._generator = np.random.Generator(np.random.PCG64(0))
            self._generator.bit_generator.state = state
