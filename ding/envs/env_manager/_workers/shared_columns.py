"""Columns in anonymous shared memory: one row per env, written in place by the process that runs the env.

Concurrency contract: a row has one writer. Who may read it, and when, is agreed by messages beside the memory (see
``engine``); nothing here locks. The memory has no name: it is a file descriptor that is handed to the other
processes, so that nothing stays behind however they end.
"""

import mmap
import os
import tempfile
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

from ding.data.columns import Columns

# Rows of different leaves start on cache lines of their own.
ALIGNMENT = 64


Path: TypeAlias = tuple[Hashable, ...]


class LeafSpec(NamedTuple):
    """One leaf of a row.

    Attributes:
        path: keys from the row to the leaf; empty for a bare leaf.
        kind: what the row holds: ``array``, ``tensor``, or ``scalar`` (a Python bool, int or float).
        dtype: numpy dtype string.
        shape: shape of one row of the leaf.
    """

    path: Path
    kind: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """The path as text."""
        return ".".join(map(str, self.path)) or "<value>"


class RowSchema(NamedTuple):
    """The leaves of one row, in order."""

    leaves: tuple[LeafSpec, ...]

    @classmethod
    def of(cls, row: object, keep_tensors: bool = True) -> "RowSchema | None":
        """The schema of a row, ``None`` when a part of it has no fixed array form.

        Args:
            row: nested dicts of arrays, tensors and numbers.
            keep_tensors: whether a tensor is read as a tensor again, else as an array.
        """
        leaves: list[LeafSpec] = []
        return cls(tuple(leaves)) if _describe(row, (), keep_tensors, leaves) else None

    def prefixed(self, key: str) -> "RowSchema":
        """The schema of ``{key: row}``."""
        return RowSchema(tuple(leaf._replace(path=(key, *leaf.path)) for leaf in self.leaves))

    def joined(self, *others: "RowSchema") -> "RowSchema":
        """The leaves of several schemas in one row."""
        return RowSchema(sum((other.leaves for other in others), self.leaves))


def _describe(value: object, path: Path, keep_tensors: bool, leaves: list[LeafSpec]) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(_describe(v, (*path, key), keep_tensors, leaves) for key, v in value.items())
    is_tensor = isinstance(value, torch.Tensor)
    if isinstance(value, torch.Tensor):
        array = value.detach().cpu().numpy()
    elif isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        array = np.asarray(value)
    elif isinstance(value, np.ndarray) and value.ndim > 0:
        array = value
    else:
        return False
    if array.dtype.hasobject or array.dtype.kind not in "biufc":
        return False
    kind = "tensor" if is_tensor and keep_tensors else "array" if array.ndim else "scalar"
    leaves.append(LeafSpec(path, kind, array.dtype.str, array.shape))
    return True


class SharedColumns:
    """``num_rows`` rows of one schema in shared memory.

    Args:
        schema: the leaves of a row.
        num_rows: number of rows.
        fd: descriptor of the memory of another instance with the same schema and size; ``None`` makes new memory.
            The instance owns the descriptor.
    """

    def __init__(self, schema: RowSchema, num_rows: int, fd: int | None = None) -> None:
        self.schema = schema
        self.num_rows = num_rows
        offsets, size = self._layout()
        self._fd: int | None = _anonymous_file(size) if fd is None else fd
        self._memory = mmap.mmap(self.fd, size)
        self._arrays = [self._view(leaf, offset) for leaf, offset in zip(schema.leaves, offsets)]

    def _layout(self) -> tuple[list[int], int]:
        offsets, size = [], 0
        for leaf in self.schema.leaves:
            offsets.append(size)
            num_bytes = self.num_rows * int(np.prod(leaf.shape, dtype=np.int64)) * np.dtype(leaf.dtype).itemsize
            size += -(-num_bytes // ALIGNMENT) * ALIGNMENT
        return offsets, max(size, ALIGNMENT)

    def _view(self, leaf: LeafSpec, offset: int) -> np.ndarray:
        return np.ndarray((self.num_rows, *leaf.shape), leaf.dtype, self._memory, offset)

    @property
    def fd(self) -> int:
        """Descriptor of the memory, to be handed to another process."""
        if self._fd is None:
            raise ValueError("the shared columns are closed")
        return self._fd

    @property
    def arrays(self) -> list[np.ndarray]:
        """The arrays ``[num_rows, ...]`` of all leaves, in the order of the schema; they share the memory."""
        return self._arrays

    def array(self, *path: Hashable) -> np.ndarray:
        """The array ``[num_rows, ...]`` of one leaf; shares the memory."""
        for leaf, array in zip(self.schema.leaves, self._arrays):
            if leaf.path == path:
                return array
        raise KeyError(f"no leaf {path!r}; leaves are {[leaf.name for leaf in self.schema.leaves]}")

    def columns(self, key: str) -> Columns:
        """The (nested) columns below ``key``; tensors where the rows held tensors. Shares the memory."""
        nested: Any = {}
        for leaf, array in zip(self.schema.leaves, self._arrays):
            if leaf.path[0] == key:
                column = torch.from_numpy(array) if leaf.kind == "tensor" else array
                if len(leaf.path) == 1:
                    return column
                _put(nested, leaf.path[1:], column)
        return nested

    def writer(self, key: str) -> "RowWriter":
        """Writes rows of the columns below ``key``."""
        pairs = [
            (leaf._replace(path=leaf.path[1:]), array)
            for leaf, array in zip(self.schema.leaves, self._arrays)
            if leaf.path[0] == key
        ]
        return RowWriter(pairs)

    def close(self) -> None:
        """Give the descriptor back. The memory goes when the last array over it does."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class RowWriter:
    """Writes and reads single rows of some leaves."""

    def __init__(self, pairs: list[tuple[LeafSpec, np.ndarray]]) -> None:
        self._pairs = pairs
        self._bare = len(pairs) == 1 and not pairs[0][0].path
        self._array = pairs[0][1]
        self._shape = pairs[0][0].shape
        self._dtype = np.dtype(pairs[0][0].dtype)

    def write(self, row: int, value: object) -> str | None:
        """Put ``value`` into a row. Returns ``None``, or what does not fit (then some leaves may be written)."""
        if self._bare and type(value) is np.ndarray and value.shape == self._shape and value.dtype == self._dtype:
            self._array[row] = value
            return None
        for leaf, array in self._pairs:
            problem = _write_leaf(leaf, array, row, value)
            if problem is not None:
                return problem
        return self._unknown_field(value)

    def _unknown_field(self, value: object) -> str | None:
        if self._bare:
            return None
        found = count_leaves(value)
        if found != len(self._pairs):
            return f"there are {found} fields instead of {len(self._pairs)}: {[leaf.name for leaf, _ in self._pairs]}"
        return None

    def read(self, row: int) -> Any:
        """A copy of a row, in the form that it was described with."""
        if self._bare:
            return _read_leaf(self._pairs[0][0], self._array, row)
        nested: dict[Hashable, Any] = {}
        for leaf, array in self._pairs:
            _put(nested, leaf.path, _read_leaf(leaf, array, row))
        return nested


def count_leaves(value: object) -> int:
    """Number of leaves of a nested mapping."""
    return sum(map(count_leaves, value.values())) if isinstance(value, Mapping) else 1


def _read_leaf(leaf: LeafSpec, array: np.ndarray, row: int) -> Any:
    if leaf.kind == "scalar":
        return array[row].item()
    value = array[row].copy() if leaf.shape else array[row : row + 1].copy().reshape(())
    return torch.from_numpy(value) if leaf.kind == "tensor" else value


def _write_leaf(leaf: LeafSpec, array: np.ndarray, row: int, value: object) -> str | None:
    for key in leaf.path:
        if not isinstance(value, Mapping) or key not in value:
            return f"field {leaf.name!r} is missing"
        value = value[key]
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if not isinstance(value, (np.ndarray, np.generic, bool, int, float)):
        return f"field {leaf.name!r} is {type(value).__name__}, expected {leaf.kind}"
    value = np.asarray(value)
    if value.shape != leaf.shape:
        return f"field {leaf.name!r} has shape {value.shape}, expected {leaf.shape}"
    if not np.can_cast(value.dtype, array.dtype, "same_kind"):
        return f"field {leaf.name!r} has dtype {value.dtype}, expected {array.dtype}"
    array[row] = value
    return None


def _put(nested: dict[Hashable, Any], path: Path, value: object) -> None:
    for key in path[:-1]:
        nested = nested.setdefault(key, {})
    nested[path[-1]] = value


def _anonymous_file(size: int) -> int:
    """Descriptor of ``size`` zero bytes that no path leads to."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("ding-env-manager")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd
