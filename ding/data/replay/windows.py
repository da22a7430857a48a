"""Episodes and windows of consecutive rows: where they end, and several of them as one batch ``[B, T, ...]``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ding.data.columns import Leaf, SchemaError
from ding.data.transition_batch import TransitionBatch
from ding.utils.nested import map_leaves


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
            space = np.empty(2 * stop, dtype=np.int64)
            space[: len(held)] = held
            self._array, self._begin, self._stop = space, 0, len(held)
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

    def segment_lengths(self, begin: int, stop: int) -> np.ndarray:
        """int64 lengths of the segments into which the ends cut the rows from ``begin`` to below ``stop``."""
        cuts = self.within(begin, stop) + 1
        count = stop - begin
        if count and (len(cuts) == 0 or cuts[-1] != count):
            cuts = np.append(cuts, count)
        return np.diff(cuts, prepend=0)


class Streams:
    """Running numbers of the rows of each stream, such as those of one environment among several."""

    def __init__(self) -> None:
        self._numbers: dict[int, EpisodeEnds] = {}

    def clear(self) -> None:
        """Forget all rows."""
        self._numbers.clear()

    def add(self, first: int, names: np.ndarray) -> None:
        """Add rows, whose numbers are ``first``, ``first + 1`` and so on, with the names of their streams (int64)."""
        for name in np.unique(names).tolist():
            self._numbers.setdefault(name, EpisodeEnds()).add(first + np.flatnonzero(names == name))

    def drop_before(self, number: int) -> None:
        """Forget the rows below ``number``."""
        for numbers in self._numbers.values():
            numbers.drop_before(number)

    def drop_from(self, number: int) -> None:
        """Forget the row ``number`` and the rows above."""
        for numbers in self._numbers.values():
            numbers.drop_from(number)

    def within(self, begin: int, stop: int) -> dict[int, np.ndarray]:
        """int64 numbers of the rows of each stream from ``begin`` to below ``stop``, counted from ``begin``."""
        found = {name: numbers.within(begin, stop) for name, numbers in self._numbers.items()}
        return {name: rows for name, rows in found.items() if len(rows)}

    def names(self, begin: int, stop: int) -> np.ndarray:
        """int64 names of the streams of the rows from ``begin`` to below ``stop``."""
        names = np.zeros(stop - begin, dtype=np.int64)
        for name, rows in self.within(begin, stop).items():
            names[rows] = name
        return names


def stack_segments(rows: TransitionBatch, lengths: np.ndarray, width: int) -> TransitionBatch:
    """B segments as B rows whose leaves have the shape ``[B, width, ...]``.

    Args:
        rows: the concatenation of the segments.
        lengths: int64 ``[B]``, at most ``width`` each.
        width: steps per segment. What a segment lacks is filled with zeros (``None`` in lists of objects) at its end.

    Returns:
        The batch, with a float32 tensor ``mask`` ``[B, width]`` (1: a step, 0: filling) and an int64 array ``length``
        ``[B]``.

    Raises:
        SchemaError: the rows have a field ``mask`` or ``length`` of their own, or have no common schema.
    """
    taken = {"mask", "length"} & rows.columns.keys()
    if taken:
        raise SchemaError(f"stacked segments get the field {sorted(taken)[0]!r}, which the rows have already")
    ends = np.cumsum(lengths)
    steps = np.arange(width)
    inside = steps < lengths[:, None]
    # Filling reads some row and is wiped out afterwards.
    index = np.where(inside, (ends - lengths)[:, None] + steps, 0)
    full = bool(inside.all())
    columns = map_leaves(lambda leaf: _stack_leaf(leaf, index, None if full else ~inside), rows.columns)
    assert isinstance(columns, dict)
    columns["mask"] = torch.from_numpy(inside.astype(np.float32))
    columns["length"] = np.asarray(lengths, dtype=np.int64)
    return TransitionBatch.unchecked(columns, len(lengths))


def _stack_leaf(leaf: Leaf, index: np.ndarray, filling: "np.ndarray | None") -> np.ndarray | torch.Tensor | list[Any]:
    if isinstance(leaf, list):
        hidden = np.zeros(index.shape, dtype=np.bool_) if filling is None else filling
        return [
            [None if empty else leaf[i] for i, empty in zip(positions, row)]
            for positions, row in zip(index.tolist(), hidden.tolist())
        ]
    if isinstance(leaf, torch.Tensor):
        stacked = leaf.index_select(0, torch.from_numpy(index.reshape(-1)).to(leaf.device))
        stacked = stacked.reshape(*index.shape, *leaf.shape[1:])
        if filling is not None:
            stacked[torch.from_numpy(filling).to(leaf.device)] = 0
        return stacked
    array = leaf.take(index, axis=0)
    if filling is not None:
        array[filling] = 0
    return array


def joined(segments: Sequence[Any]) -> TransitionBatch:
    """Return the rows of all segments (``TransitionBatch``es or lists of dicts) as one batch of columns.

    Raises:
        SchemaError: they have no common schema.
    """
    batch = TransitionBatch.concat([TransitionBatch.of(segment) for segment in segments])
    return TransitionBatch.unchecked(batch.columns, len(batch))
