"""Where the episodes in a ring of rows end."""

import numpy as np


class EpisodeEnds:
    """Running numbers of the rows that end an episode, ascending.

    Old ones go in front, new ones come behind: both cost what is added or a bisection, not a look at all of them.
    """

    def __init__(self) -> None:
        self._array = np.empty(64, dtype=np.int64)
        self.clear()

    def clear(self) -> None:
        """Forget all ends."""
        self._begin = self._stop = 0

    def add(self, numbers: np.ndarray) -> None:
        """Add ascending int64 numbers above all others."""
        stop = self._stop + len(numbers)
        if stop > len(self._array):
            held = self._array[self._begin : self._stop]
            stop = len(held) + len(numbers)
            room = np.empty(2 * stop, dtype=np.int64)
            room[: len(held)] = held
            self._array, self._begin, self._stop = room, 0, len(held)
        self._array[self._stop : stop] = numbers
        self._stop = stop

    def drop_before(self, number: int) -> None:
        """Forget the ends below ``number``."""
        self._begin += int(self._array[self._begin : self._stop].searchsorted(number))

    def drop_from(self, number: int) -> None:
        """Forget ``number`` and the ends above."""
        self._stop = self._begin + int(self._array[self._begin : self._stop].searchsorted(number))

    def within(self, begin: int, stop: int) -> np.ndarray:
        """int64 ends from ``begin`` to below ``stop``, counted from ``begin``."""
        held = self._array[self._begin : self._stop]
        return held[held.searchsorted(begin) : held.searchsorted(stop)] - begin

    def piece_lengths(self, begin: int, stop: int) -> np.ndarray:
        """int64 lengths of the pieces into which the ends cut the rows from ``begin`` to below ``stop``."""
        cuts = self.within(begin, stop) + 1
        count = stop - begin
        if count and (len(cuts) == 0 or cuts[-1] != count):
            cuts = np.append(cuts, count)
        return np.diff(cuts, prepend=0)
