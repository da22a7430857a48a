"""The quick way to write a batch into records."""

from typing import Any

import numpy as np
import torch

from ding.data.storage._schema import TENSOR, Field

# Batches of more rows are bound by copying, not by the number of calls.
_MAX_ROWS = 1024

_TORCH_TYPES = {np.dtype(np.float32): torch.float32, np.dtype(np.int64): torch.int64}


class _Group:
    """Neighbouring tensor fields of one dtype whose rows are vectors: joined by torch, written by one assignment."""

    def __init__(self, target: np.ndarray, keys: list[str], widths: list[int], dtype: torch.dtype) -> None:
        self.target = target
        self.keys = keys
        self.widths = widths
        self.dtype = dtype
        self.shapes: list[tuple[int, int]] = []
        self.stage = torch.zeros(0)
        self.stage_array = np.zeros(0)

    def resize(self, count: int) -> None:
        """Get ready for batches of ``count`` rows."""
        self.shapes = [(count, width) for width in self.widths]
        self.stage = torch.zeros(count, sum(self.widths), dtype=self.dtype)
        self.stage_array = self.stage.numpy()


class RecordWriter:
    """Writes batches that fit exactly; for any other it does nothing and says so.

    Most of the time of a small write goes into the calls, not the bytes. Several tensor fields of one dtype are
    therefore joined in a staging tensor, which saves a conversion and an assignment for each.

    Args:
        records: the record array.
        fields: the schema: flat, all fields in the records.
        keys: names of the fields in the records.
    """

    def __init__(self, records: Any, fields: tuple[Field, ...], keys: list[str]) -> None:
        grouped = _find_groups(records, fields, keys)
        self._groups = [_make_group(records, [fields[i] for i in numbers], keys[numbers[0]]) for numbers in grouped]
        inside = {number for numbers in grouped for number in numbers}
        self._singles = [
            (field.path[0], field.kind == TENSOR, field.dtype, field.shape, records[key])
            for number, (field, key) in enumerate(zip(fields, keys))
            if number not in inside
        ]
        self._num_fields = len(fields)
        self._count = -1
        self._plan: list[tuple[str, bool, Any, tuple[int, ...], np.ndarray]] = []

    def _resize(self, count: int) -> None:
        self._count = count
        self._plan = [(key, tensor, dtype, (count, *shape), to) for key, tensor, dtype, shape, to in self._singles]
        for group in self._groups:
            group.resize(count)

    def write(self, start: int, rows: dict[str, Any], count: int) -> bool:
        """Write ``count`` rows to ``start, start + 1, ...``, which must not pass the end. False: nothing was done."""
        if count != self._count:
            if count > _MAX_ROWS:
                return False
            self._resize(count)
        if len(rows) != self._num_fields:
            return False
        leaves = []
        try:
            for key, tensor, dtype, shape, _ in self._plan:
                leaf = rows[key]
                if tensor:
                    leaf = leaf.numpy()
                if leaf.dtype != dtype or leaf.shape != shape:
                    return False
                leaves.append(leaf)
            for group in self._groups:
                parts = [rows[key] for key in group.keys]
                expected = group.dtype
                for part, size in zip(parts, group.shapes):
                    if part.dtype is not expected or part.shape != size:
                        return False
                torch.cat(parts, 1, out=group.stage)
        except (KeyError, AttributeError, RuntimeError, TypeError):
            # A missing field, a tensor that needs a gradient or is on a device, an array among tensors: the careful
            # way says what it is.
            return False
        stop = start + count
        for plan, leaf in zip(self._plan, leaves):
            plan[4][start:stop] = leaf
        for group in self._groups:
            group.target[start:stop] = group.stage_array
        return True


def _find_groups(records: np.ndarray, fields: tuple[Field, ...], keys: list[str]) -> list[list[int]]:
    """Runs of at least two fields that a group can take, by their place in the record."""
    offsets = {number: records.dtype.fields[key][1] for number, key in enumerate(keys)}  # type: ignore[index]
    runs: list[list[int]] = []
    for number in sorted(offsets, key=offsets.__getitem__):
        field = fields[number]
        if field.kind != TENSOR or field.dtype not in _TORCH_TYPES or len(field.shape) != 1:
            continue
        last = runs[-1][-1] if runs else None
        if last is not None and fields[last].dtype == field.dtype and _end(offsets, fields, last) == offsets[number]:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [run for run in runs if len(run) > 1]


def _end(offsets: dict[int, int], fields: tuple[Field, ...], number: int) -> int:
    return offsets[number] + fields[number].row_bytes


def _make_group(records: np.ndarray, fields: list[Field], first_key: str) -> _Group:
    offset = records.dtype.fields[first_key][1]  # type: ignore[index]
    dtype = fields[0].stored_dtype
    widths = [field.shape[0] for field in fields]
    target = np.ndarray((len(records), sum(widths)), dtype, records, offset, (records.dtype.itemsize, dtype.itemsize))
    return _Group(target, [field.path[0] for field in fields], widths, _TORCH_TYPES[dtype])
