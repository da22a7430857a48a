"""Random positions for uniform sampling."""

from typing import Any

import numpy as np

from ding.utils import did_you_mean

# Draws are prepared in blocks of up to so many positions, as long as the same question comes again.
_BLOCK = 16384


def new_generator() -> np.random.Generator:
    """A generator that is seeded from numpy's global one, so that ``set_pkg_seed`` makes runs repeatable."""
    return np.random.Generator(np.random.PCG64(np.random.randint(0, 2**32, size=4, dtype=np.uint32).tolist()))


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """The state of a generator, in plain Python values."""
    return dict(generator.bit_generator.state)


def restore_generator(generator: np.random.Generator, state: dict[str, Any]) -> None:
    """Set a generator to a state of :func:`generator_state`.

    Raises:
        ValueError: the state belongs to another kind of generator.
    """
    name = type(generator.bit_generator).__name__
    if state.get("bit_generator") != name:
        raise ValueError(f"cannot restore a {name} from a state.{did_you_mean(state.get('bit_generator'), [name])}")
    generator.bit_generator.state = state


class UniformDraw:
    """Draws of ``size`` positions out of ``[0, count)``, with or without replacement.

    A draw without replacement is a uniformly distributed subset; the order within it is arbitrary. Blocks of draws are
    made at once while ``count`` and ``size`` stay the same: then a draw costs a slice. Not thread-safe.
    """

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._key: tuple[int, int, bool] | None = None
        self._block = np.zeros((0, 0), dtype=np.int64)
        self._next = 0
        self._rows = 1
        self._order = np.zeros(0, dtype=np.int64)
        # For each position the number of the draw that gave it last; what was there before does not matter.
        self._stamps = np.zeros(0, dtype=np.int32)
        self._numbers = np.zeros(0, dtype=np.int32)

    def __call__(self, count: int, size: int, replace: bool) -> np.ndarray:
        """int64 ``[size]``; the caller has checked that ``size <= count`` or ``replace``."""
        key = (count, size, replace)
        if key != self._key:
            self._key, self._rows = key, 1
            self._fill(count, size, replace)
        elif self._next == len(self._block):
            self._rows = min(2 * self._rows, max(1, _BLOCK // size))
            self._fill(count, size, replace)
        drawn = self._block[self._next]
        self._next += 1
        return drawn

    def _fill(self, count: int, size: int, replace: bool) -> None:
        self._next = 0
        generator, rows = self._generator, self._rows
        if not replace and 4 * size > count:
            self._block = np.stack([generator.permutation(count)[:size] for _ in range(rows)])
            return
        if not replace and size * size > 2 * count:
            # Most rows would hold repeats, and be sorted several times.
            self._block = np.stack([self._distinct(count, size) for _ in range(rows)])
            return
        block = _integers(generator, count, rows * size).reshape(rows, size)
        if not replace and size > 1:
            self._separate(block, count)
            # Not in the order of the slots: halves of a batch should not differ in age.
            if rows > 1 or len(self._order) != size:
                self._order = generator.permutation(size)
            block = block.take(self._order, axis=1)
        self._block = block

    def _distinct(self, count: int, size: int) -> np.ndarray:
        """int64 ``[size]``: seen from the end, the first distinct ones of independent draws, in their order."""
        if len(self._stamps) < count:
            self._stamps = np.empty(2 * count, dtype=np.int32)
        # About size^2 / 2 count of them are repeats.
        drawn = _integers(self._generator, count, size + size * size // count + 16)
        while True:
            if len(self._numbers) != len(drawn):
                self._numbers = np.arange(len(drawn), dtype=np.int32)
            # Of what is written to one place the last stays.
            self._stamps[drawn] = self._numbers
            distinct = drawn[self._stamps.take(drawn) == self._numbers]
            if len(distinct) >= size:
                return distinct[-size:]
            drawn = np.concatenate([_integers(self._generator, count, size), drawn])

    def _separate(self, block: np.ndarray, count: int) -> None:
        """Redraw what repeats within a row until nothing does; sorts the rows.

        Keeping the distinct values of independent draws and redrawing the others treats all values alike, so the
        subset stays uniformly distributed.
        """
        block.sort(axis=1)
        repeats = np.flatnonzero((block[:, 1:] == block[:, :-1]).any(axis=1))
        while len(repeats):
            part = block[repeats]
            again = np.zeros(part.shape, dtype=np.bool_)
            np.equal(part[:, 1:], part[:, :-1], out=again[:, 1:])
            part[again] = _integers(self._generator, count, int(np.count_nonzero(again)))
            part.sort(axis=1)
            block[repeats] = part
            repeats = repeats[(part[:, 1:] == part[:, :-1]).any(axis=1)]

    def forget(self) -> None:
        """Drop what is prepared: after the generator was set to another state."""
        self._key, self._rows = None, 1
        self._block, self._next = np.zeros((0, 0), dtype=np.int64), 0
        self._order = np.zeros(0, dtype=np.int64)

    def state_dict(self) -> dict[str, Any]:
        """The draws that are prepared and not used yet."""
        return {
            "key": None if self._key is None else list(self._key),
            "block": self._block[self._next :].copy(),
            "rows": self._rows,
            "order": self._order.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a ``state_dict`` was taken.

        Raises:
            ValueError: what was prepared is not what its question asks for.
        """
        key = None if state["key"] is None else (int(state["key"][0]), int(state["key"][1]), bool(state["key"][2]))
        count, size = key[:2] if key else (0, 0)
        block = np.array(state["block"], dtype=np.int64)
        if block.ndim != 2 or block.shape[1] != size or (block.size and not 0 <= block.min() <= block.max() < count):
            raise ValueError(f"prepared draws of shape {block.shape} are none of {size} out of {count}")
        self._order = np.array(state["order"], dtype=np.int64)
        self._rows, self._next = int(state["rows"]), 0
        self._key, self._block = key, block


def _integers(generator: np.random.Generator, count: int, size: int) -> np.ndarray:
    """Uniform int64 ``[size]`` in ``[0, count)``: several times cheaper than ``integers`` for small sizes.

    The bias of a 53-bit fraction is below 1e-8 for any count that fits in memory.
    """
    return (generator.random(size) * count).astype(np.int64)
