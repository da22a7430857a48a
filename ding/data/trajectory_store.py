"""The store in which a collector gathers the trajectory pieces of its environments."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ding.data.columns import SchemaError, describe_leaf
from ding.data.transition_batch import TransitionBatch

# Steps to reserve where nobody knows how long a piece will be.
FIRST_CAPACITY = 64
_TENSOR, _ARRAY, _OBJECTS = "tensor", "array", "objects"


class TrajectoryStore:
    """One growing trajectory piece per environment, kept as arrays of ``env_num * capacity`` rows.

    A whole vector step is written at once; a finished piece leaves as a slice. The schema (fields, dtypes, row shapes)
    is that of the first step and may change when the store is empty.

    Args:
        env_num: number of environments; their ids are ``0 .. env_num - 1``.
        capacity: steps to reserve per environment; the store doubles when a piece outgrows it.
        rows_as_tensors: arrays with a row shape leave as tensors (float64 as float32); scalar columns stay arrays.
    """

    def __init__(self, env_num: int, capacity: int = FIRST_CAPACITY, rows_as_tensors: bool = False) -> None:
        if env_num < 1 or capacity < 1:
            raise ValueError(f"env_num and capacity must be positive, found {env_num} and {capacity}")
        self._env_num = env_num
        self._capacity = capacity
        self._rows_as_tensors = rows_as_tensors
        self._fields: list[_Field] | None = None
        self._plan: _Plan = []
        # Pieces that leave together as a whole take their arrays along.
        self._allocated = False
        self._counts = np.zeros(env_num, dtype=np.int64)
        self._longest = 0  # of the counts, or more
        self._first_rows = np.arange(env_num, dtype=np.int64) * capacity
        self._known_ids: np.ndarray | None = None
        self._known_all = False

    @property
    def counts(self) -> np.ndarray:
        """int64 ``[env_num]``: steps stored per environment. Do not write."""
        return self._counts

    def append(self, env_ids: np.ndarray, columns: dict[str, Any]) -> None:
        """Write one step of the environments ``env_ids`` (int64 ``[N]``, distinct) from columns with N rows each.

        Raises:
            SchemaError: a field is missing or extra, or its leaf type, dtype or row shape is not that of the steps
                before. Nothing was written then.
        """
        arrays = self._fitting(columns)
        if self._longest >= self._capacity:
            self._longest = int(self._counts.max())
            if self._longest >= self._capacity:
                self._grow()
        if self._is_all(env_ids):
            rows = self._first_rows + self._counts
            self._counts += 1
        else:
            rows = self._first_rows[env_ids] + self._counts[env_ids]
            self._counts[env_ids] += 1
        self._longest += 1
        for field, array in zip(self._fields, arrays):  # type: ignore[arg-type]
            field.array[rows] = array

    def pop(self, env_ids: np.ndarray) -> TransitionBatch:
        """Take the pieces of these environments out, concatenated in the given order, with their ``lengths``; empty
        pieces are left out.
        """
        lengths = self._counts[env_ids]
        if np.count_nonzero(lengths) < len(lengths):
            env_ids, lengths = env_ids[lengths > 0], lengths[lengths > 0]
        if not len(lengths) or self._fields is None:
            return TransitionBatch.from_rows([])
        self._counts[env_ids] = 0
        total = int(lengths.sum())
        if total == self._env_num * self._capacity and self._is_all(env_ids):
            # The store is full and all of it leaves: hand the arrays over instead of copying them.
            self._allocated, self._longest = False, 0
            return TransitionBatch.trusted(self._read(lambda array: array), total, lengths)
        first_rows = self._first_rows[env_ids]
        if len(env_ids) == 1:
            start = int(first_rows[0])
            return TransitionBatch.trusted(
                self._read(lambda array: array[start : start + total].copy()), total, lengths
            )
        rows = np.arange(total) + np.repeat(first_rows - (np.cumsum(lengths) - lengths), lengths)
        return TransitionBatch.trusted(self._read(lambda array: array.take(rows, axis=0)), total, lengths)

    def clear(self, env_ids: "np.ndarray | None" = None) -> None:
        """Forget the pieces of these environments (``None``: all)."""
        if env_ids is None:
            self._counts[:] = 0
            self._fields, self._longest = None, 0
        else:
            self._counts[env_ids] = 0

    def _is_all(self, env_ids: np.ndarray) -> bool:
        """Whether these are all environments in order. The same array comes again and again."""
        if env_ids is not self._known_ids:
            self._known_ids = env_ids
            everyone = len(env_ids) == self._env_num
            self._known_all = everyone and bool((env_ids == np.arange(self._env_num)).all())
        return self._known_all

    def _fitting(self, columns: dict[str, Any]) -> list[np.ndarray]:
        """The arrays of a step, in the order of the fields."""
        if self._fields is not None:
            if self._allocated:
                quick = _quick_arrays(columns, self._plan)
                if quick is not None:
                    return quick
            try:
                arrays = _arrays_of(columns, self._fields)
            except SchemaError:
                if np.count_nonzero(self._counts):
                    raise
            else:
                if not self._allocated:
                    self._allocate()
                return arrays
        self._fields = [_Field(path, leaf, self._rows_as_tensors) for path, leaf in _leaves(columns)]
        self._plan = _plan_of(self._fields)
        self._allocate()
        return _arrays_of(columns, self._fields)

    def _allocate(self) -> None:
        for field in self._fields or ():
            field.array = np.empty((self._env_num * self._capacity, *field.shape), dtype=field.stored_dtype)
        self._allocated = True

    def _grow(self) -> None:
        old, self._capacity = self._capacity, self._capacity * 2
        self._first_rows = np.arange(self._env_num, dtype=np.int64) * self._capacity
        previous = [field.array for field in self._fields or ()]
        self._allocate()
        for field, array in zip(self._fields or (), previous):
            shape = field.array.shape[1:]
            field.array.reshape(self._env_num, -1, *shape)[:, :old] = array.reshape(self._env_num, old, *shape)

    def _read(self, pick: Callable[[np.ndarray], np.ndarray]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for field in self._fields or ():
            inner = result
            for key in field.path[:-1]:
                inner = inner.setdefault(key, {})
            inner[field.path[-1]] = field.given(pick(field.array))
        return result


class _Field:
    """One leaf of the steps: its place, what it is, and the rows stored of it."""

    __slots__ = ("array", "dtype", "kind", "path", "shape", "stored_dtype", "tensor_out")

    array: np.ndarray

    def __init__(self, path: tuple[str, ...], leaf: Any, rows_as_tensors: bool) -> None:
        array = _as_array(leaf)
        self.path = path
        self.kind = _kind(leaf)
        self.dtype = self.stored_dtype = array.dtype
        self.shape = array.shape[1:]
        becomes_tensor = rows_as_tensors and self.kind == _ARRAY and array.ndim > 1
        self.tensor_out = self.kind == _TENSOR or becomes_tensor
        if becomes_tensor and array.dtype == np.float64:
            self.stored_dtype = np.dtype(np.float32)

    def checked(self, leaf: Any) -> np.ndarray:
        """The leaf of a step as an array. Raises ``SchemaError`` when it does not fit."""
        kind = _kind(leaf)
        if kind == self.kind:
            array = _as_array(leaf)
            if array.dtype == self.dtype and array.shape[1:] == self.shape:
                return array
        raise SchemaError(
            f"field {'.'.join(map(str, self.path))!r} of a step is {describe_leaf(leaf)}, "
            f"the steps before had {self.kind} {self.dtype}{list(self.shape)}"
        )

    def given(self, array: np.ndarray) -> Any:
        """Stored rows as a column."""
        if self.tensor_out:
            return torch.from_numpy(array)
        return array.tolist() if self.kind == _OBJECTS else array


def _leaves(columns: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    found: list[tuple[tuple[str, ...], Any]] = []
    for key, value in columns.items():
        if isinstance(value, dict):
            found += _leaves(value, (*path, key))
        else:
            found.append(((*path, key), value))
    return found


def _arrays_of(columns: dict[str, Any], fields: list[_Field]) -> list[np.ndarray]:
    leaves = _leaves(columns)
    if [path for path, _ in leaves] == [field.path for field in fields]:
        return [field.checked(leaf) for field, (_, leaf) in zip(fields, leaves)]
    by_path = dict(leaves)
    if by_path.keys() != {field.path for field in fields}:
        found, known = ([".".join(map(str, path)) for path in paths] for paths in (by_path, [f.path for f in fields]))
        raise SchemaError(f"a step has the fields {sorted(found)}, the steps before had {sorted(known)}")
    return [field.checked(by_path[field.path]) for field in fields]


# Per field: its key, the type of its leaf, dtype and row shape.
_Plan = list[tuple[str, Any, np.dtype, tuple[int, ...]]]


def _plan_of(fields: list[_Field]) -> _Plan:
    """What :func:`_quick_arrays` compares a step with; empty when it cannot serve these fields."""
    if any(len(field.path) > 1 or field.kind == _OBJECTS for field in fields):
        return []
    types = {_TENSOR: torch.Tensor, _ARRAY: np.ndarray}
    return [(field.path[0], types[field.kind], field.dtype, field.shape) for field in fields]


def _quick_arrays(columns: dict[str, Any], plan: _Plan) -> list[np.ndarray] | None:
    """The arrays of a flat step that is just like the steps before; None for any other, which goes the careful way.

    It runs once per vector step, where the careful way would cost as much as the copy.
    """
    if len(columns) != len(plan):
        return None
    arrays = []
    for key, leaf_type, dtype, shape in plan:
        leaf: Any = columns.get(key)
        if leaf.__class__ is not leaf_type:
            return None
        if leaf_type is torch.Tensor:
            if leaf.requires_grad or not leaf.is_cpu:
                return None
            leaf = leaf.numpy()
        if leaf.dtype != dtype or leaf.shape[1:] != shape:
            return None
        arrays.append(leaf)
    return arrays


def _kind(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return _TENSOR
    return _ARRAY if isinstance(leaf, np.ndarray) else _OBJECTS


def _as_array(leaf: Any) -> np.ndarray:
    """The leaf as an array ``[N, ...]``; objects become an object array ``[N]``."""
    if isinstance(leaf, torch.Tensor):
        return leaf.numpy() if leaf.is_cpu and not leaf.requires_grad else leaf.detach().cpu().numpy()
    if isinstance(leaf, np.ndarray):
        return leaf
    array = np.empty(len(leaf), dtype=object)
    for i, item in enumerate(leaf):
        array[i] = item
    return array
