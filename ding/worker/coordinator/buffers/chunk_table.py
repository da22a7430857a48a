"""References to chunks, as collectors send them, and which chunks are still needed.

Words: a *chunk* is a file of many train samples in the data plane; a *row* is one of them.
"""

import numbers
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ding.parallel.planes import check_id

_REF_KEYS = ("chunk", "rows")
# No chunk comes near this; its rows take memory here, before anybody has seen the file.
_MAX_ROWS = 1 << 22


class ChunkTable:
    """Counts, per chunk, the rows that a buffer holds and the batches that are on their way to a learner.

    Not thread-safe.

    Args:
        release: called by :meth:`release_unused` with the refs of chunks of which both counts are 0.
        first_batch: running number of the first batch.
    """

    def __init__(self, release: Callable[[list[dict[str, Any]]], None], first_batch: int = 1) -> None:
        self._release = release
        self._refs: dict[int, dict[str, Any]] = {}
        self._rows: dict[int, int] = {}
        self._held: dict[int, int] = {}
        self._numbers: dict[str, int] = {}
        self._batches: deque[tuple[int, list[int]]] = deque()
        self._next_number = 0
        self._next_batch = first_batch
        self._unused: list[int] = []

    def __len__(self) -> int:
        return len(self._refs)

    def add(self, refs: Sequence[dict[str, Any]]) -> np.ndarray:
        """Number the chunks; all their rows are held. Returns int64 ``[len(refs)]``."""
        numbers = np.arange(self._next_number, self._next_number + len(refs))
        self._next_number += len(refs)
        for number, ref in zip(numbers.tolist(), refs):
            self._refs[number] = ref
            self._rows[number] = ref["rows"]
            self._numbers[ref["chunk"]] = number
        return numbers

    def __contains__(self, chunk: str) -> bool:
        return chunk in self._numbers

    def number_of(self, chunk: str) -> int | None:
        """Number of the chunk with this id."""
        return self._numbers.get(chunk)

    def drop_rows(self, chunks: np.ndarray) -> None:
        """One row less for each entry of ``chunks`` (int64, with repeats)."""
        if not len(chunks):
            return
        numbers, counts = np.unique(chunks, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist()):
            self._rows[number] -= count
            if self._rows[number] == 0 and not self._held.get(number):
                self._unused.append(number)

    def hold(self, numbers: np.ndarray, batches: int = 1) -> tuple[list[int], list[str]]:
        """Batches with rows of these (distinct) chunks are on their way: their running numbers, and the ids.

        All chunks are held until the last of the batches is let go.
        """
        taken, chunks = list(range(self._next_batch, self._next_batch + batches)), numbers.tolist()
        self._next_batch += batches
        for number in chunks:
            self._held[number] = self._held.get(number, 0) + 1
        self._batches.append((taken[-1], chunks))
        return taken, [self._refs[number]["chunk"] for number in chunks]

    def let_go(self, batch: int | None) -> None:
        """The batches up to this running number (``None``: all) have arrived or are lost."""
        while self._batches and (batch is None or self._batches[0][0] <= batch):
            for number in self._batches.popleft()[1]:
                self._held[number] -= 1
                if self._held[number] == 0:
                    del self._held[number]
                    if self._rows[number] == 0:
                        self._unused.append(number)

    def release_unused(self) -> None:
        """Hand over the chunks that nobody needs any more."""
        if not self._unused:
            return
        refs = []
        for number in dict.fromkeys(self._unused):
            if self._held.get(number):
                continue  # drawn for the last time by a batch that has set out since
            ref = self._refs.pop(number)
            del self._rows[number]
            if self._numbers.get(ref["chunk"]) == number:
                del self._numbers[ref["chunk"]]
            refs.append(ref)
        self._unused.clear()
        self._release(refs)


def checked_ref(ref: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a ref, as it comes from a worker: one that passes can be pushed, now and by a restarted coordinator.

    Raises:
        ValueError: it has no id that is a plain name, no positive number of rows (up to 4 million), or a train
            iteration or priority that cannot be one.
    """
    missing = [key for key in _REF_KEYS if key not in ref]
    if missing:
        raise ValueError(f"a chunk ref needs the keys {list(_REF_KEYS)}, found {sorted(ref)}")
    chunk, rows = ref["chunk"], ref["rows"]
    if not isinstance(chunk, str) or isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ValueError(
            f"a chunk ref needs a text 'chunk' and a positive int 'rows', found {_short(chunk)} and {_short(rows)}"
        )
    check_id(chunk, "the 'chunk' of a ref")
    if rows > _MAX_ROWS:
        raise ValueError(f"a chunk may have {_MAX_ROWS} rows at most, found {_short(rows)}")
    iters = ref.get("collect_iter", ref.get("policy_iter"))
    if iters is not None and not all(map(_is_iter, iters if isinstance(iters, (list, tuple)) else [iters])):
        raise ValueError(f"the train iteration of a chunk must be an int, or several, found {_short(iters)}")
    _check_priority(ref.get("priority"), rows)
    return dict(ref)


def _check_priority(priority: object, rows: int) -> None:
    if priority is None:
        return
    try:
        values = np.asarray(priority, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"the priority of a chunk must be a number or one per row, found {_short(priority)}"
        ) from error
    if values.shape not in ((), (rows,)):
        raise ValueError(f"the priority of a chunk of {rows} rows must be one number or {rows}, found {values.size}")
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError(f"the priority of a chunk must be finite and not negative, found {_short(priority)}")


def _is_iter(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and abs(int(value)) < 1 << 62


def _short(value: object) -> str:
    return repr(value)[:60] if isinstance(value, (str, float)) else f"a {type(value).__name__}"


def collect_iter_of(ref: Mapping[str, Any]) -> int:
    """Train iteration of the policy that collected a chunk, the oldest of several; very small when it is unknown."""
    value = ref.get("collect_iter", ref.get("policy_iter"))
    if isinstance(value, (list, tuple)):
        value = min(value, default=None)
    return int(np.iinfo(np.int64).min) if value is None else int(value)
