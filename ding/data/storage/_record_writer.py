"""The quick way to write a batch into records."""

from typing import Any

import numpy as np
import torch

from ding.data.storage._packed import PackedRows, RecordLayout
from ding.data.storage._schema import TENSOR, Field

# Batches of more rows are bound by copying, not by the number of calls.
_MAX_ROWS = 1024

# What can be joined: dtypes of whole 4-byte words.
_WORD = torch.float32
_WORD_BYTES = 4
_TORCH_TYPES = {
    np.dtype(np.float32): torch.float32,
    np.dtype(np.int32): torch.int32,
    np.dtype(np.float64): torch.float64,
    np.dtype(np.int64): torch.int64,
}


class RecordWriter:
    """Writes batches that fit exactly; for any other it does nothing and says so.

    Packed rows are copied as they are. Of columns, most of the time of a small write goes into the calls, not the
    bytes. Tensor fields whose rows are vectors of 4-byte words (or of pairs of them) lie side by side in the records.
    Torch joins them in a staging tensor, as words, and one assignment writes them all, which saves a conversion to
    numpy and an assignment for each.

    Args:
        records: the record array.
        layout: of the records, which hold whole rows.
    """

    def __init__(self, records: np.ndarray, layout: RecordLayout) -> None:
        fields, keys = layout.fields, layout.keys
        self._layout = layout
        self._items = layout.items_of(records)
        joined = _find_joined(records, fields, keys)
        self._words = [_words(fields[i]) for i in joined]
        self._joined = [(fields[i].path[0], _TORCH_TYPES[fields[i].stored_dtype], fields[i].shape[0]) for i in joined]
        # What the records hold of the joined fields, or None when there are no such fields.
        self._target = _runs(records, _offset_of(records, keys[joined[0]]), sum(self._words)) if joined else None
        self._singles = [
            (field.path[0], field.kind == TENSOR, field.dtype, field.shape, records[key])
            for number, (field, key) in enumerate(zip(fields, keys))
            if number not in joined
        ]
        self._num_fields = len(fields)
        self._count = -1
        self._parts: list[tuple[str, torch.dtype, tuple[int, int]]] = []
        self._plan: list[tuple[str, bool, Any, tuple[int, ...], np.ndarray]] = []
        self._stage = torch.zeros(0)
        self._stage_runs = np.zeros(0)

    def _resize(self, count: int) -> None:
        """Get ready for batches of ``count`` rows."""
        self._count = count
        self._plan = [(key, tensor, dtype, (count, *shape), to) for key, tensor, dtype, shape, to in self._singles]
        self._parts = [(key, dtype, (count, width)) for key, dtype, width in self._joined]
        self._stage = torch.zeros(count, sum(self._words), dtype=_WORD)
        self._stage_runs = _runs(self._stage.numpy(), 0, sum(self._words))

    def write(self, start: int, rows: "PackedRows | dict[str, Any]", count: int) -> bool:
        """Write ``count`` rows to ``start, start + 1, ...``, which must not pass the end. False: nothing was done."""
        if isinstance(rows, PackedRows):
            if rows.layout is not self._layout:
                return False
            self._items[start : start + count] = rows.items
            return True
        if count != self._count:
            if count > _MAX_ROWS:
                return False
            self._resize(count)
        if len(rows) != self._num_fields:
            return False
        writes, parts = [], []
        try:
            for key, kind, size in self._parts:
                part = rows[key]
                if part.dtype is not kind or part.shape != size:
                    return False
                parts.append(part if kind is _WORD else part.view(_WORD))
            for key, tensor, dtype, shape, array in self._plan:
                leaf = rows[key]
                if tensor:
                    leaf = leaf.numpy()
                if leaf.dtype != dtype or leaf.shape != shape:
                    return False
                writes.append((array, leaf))
            if parts:
                torch.cat(parts, 1, out=self._stage)
        except (KeyError, AttributeError, RuntimeError, TypeError):
            # A missing field, a tensor that needs a gradient or is on a device, an array among tensors: the careful
            # way says what it is.
            return False
        stop = start + count
        if self._target is not None:
            self._target[start:stop] = self._stage_runs
        for array, leaf in writes:
            array[start:stop] = leaf
        return True


def _words(field: Field) -> int:
    return field.row_bytes // _WORD_BYTES


def _offset_of(records: np.ndarray, key: str) -> int:
    """First byte of a field within a record."""
    return int(records.dtype.fields[key][1])  # type: ignore[index]


def _find_joined(records: np.ndarray, fields: tuple[Field, ...], keys: tuple[str, ...]) -> list[int]:
    """The fields that can be joined, by their place in the record: the longest run without a gap, of at least two."""
    offsets = {number: _offset_of(records, key) for number, key in enumerate(keys)}
    runs: list[list[int]] = [[]]
    for number in sorted(offsets, key=offsets.__getitem__):
        field, last = fields[number], runs[-1][-1] if runs[-1] else None
        if field.kind != TENSOR or field.recast or field.dtype not in _TORCH_TYPES or len(field.shape) != 1:
            runs.append([])
        elif last is None or offsets[last] + fields[last].row_bytes == offsets[number]:
            runs[-1].append(number)
        else:
            runs.append([number])
    longest = max(runs, key=len)
    return longest if len(longest) > 1 else []


def _runs(rows: np.ndarray, offset: int, words: int) -> np.ndarray:
    """``[N]``: the words of each row from the byte ``offset`` on, as one item.

    Numpy copies each such item in one go. As rows of words it would loop over them, which takes twice the time.
    """
    dtype = np.dtype((np.void, words * _WORD_BYTES))
    return np.ndarray((len(rows),), dtype, rows, offset, (rows.strides[0],))
