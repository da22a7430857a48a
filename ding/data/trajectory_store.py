"""The store in which a collector gathers the trajectory pieces of its environments."""

from typing import Any, NamedTuple

import numpy as np
import torch

from ding.data._step_plan import StepPlan, as_array, plan_of, quick_arrays
from ding.data.columns import SchemaError, describe_leaf
from ding.data.transition_batch import TransitionBatch

# Steps to reserve where nobody knows how long a piece will be.
FIRST_CAPACITY = 64
_TENSOR, _ARRAY, _OBJECTS = "tensor", "array", "objects"


class _Pieces(NamedTuple):
    """Pieces that ended together: of the environment ``env_ids[i]`` the ``lengths[i]`` rows that lie in the log at or
    behind row ``firsts[i]`` and before row ``end``.
    """

    env_ids: np.ndarray
    firsts: np.ndarray
    lengths: np.ndarray
    end: int


class TrajectoryStore:
    """One growing trajectory piece per environment, and the finished ones until they are taken.

    The steps of all environments lie in one log of rows in the order in which they came, so that a vector step costs
    one copy per field. Only when pieces are taken out, which is best done with many at a time, their rows are picked
    from the log. The schema (fields, dtypes, row shapes) is that of the first step and may change when the store is
    empty.

    Args:
        env_num: number of environments; their ids are ``0 .. env_num - 1``.
        capacity: steps to reserve per environment; the store grows when what it holds needs more.
        rows_as_tensors: arrays with a row shape leave as tensors (float64 as float32); scalar columns stay arrays.
    """

    def __init__(self, env_num: int, capacity: int = FIRST_CAPACITY, rows_as_tensors: bool = False) -> None:
        if env_num < 1 or capacity < 1:
            raise ValueError(f"env_num and capacity must be positive, found {env_num} and {capacity}")
        self._env_num = env_num
        self._capacity = env_num * capacity  # rows
        self._rows_as_tensors = rows_as_tensors
        self._fields: list[_Field] | None = None
        self._plan: StepPlan = []
        self._num_rows = 0
        self._counts = np.zeros(env_num, dtype=np.int64)
        # Rows of the log from which on the growing pieces lie.
        self._firsts = np.zeros(env_num, dtype=np.int64)
        self._finished: list[_Pieces] = []
        self._finished_steps = 0
        # The environment of each row; None while every step was one of all environments in order.
        self._row_envs: np.ndarray | None = None
        self._known_ids: np.ndarray | None = None
        self._known_all = False

    @property
    def counts(self) -> np.ndarray:
        """int64 ``[env_num]``: steps of the growing piece of each environment. Do not write."""
        return self._counts

    @property
    def finished_steps(self) -> int:
        """Steps of the pieces that :meth:`take_finished` would give."""
        return self._finished_steps

    def append(self, env_ids: np.ndarray, columns: dict[str, Any]) -> None:
        """Write one step of the environments ``env_ids`` (int64 ``[N]``, distinct) from columns with N rows each.

        Raises:
            SchemaError: a field is missing or extra, or its leaf type, dtype or row shape is not that of the steps
                before. Nothing was written then.
        """
        arrays = self._fitting(columns)
        size = len(env_ids)
        if self._num_rows + size > self._capacity:
            self._make_room(size)
        start = self._num_rows
        self._num_rows = stop = start + size
        if self._is_all(env_ids):
            self._counts += 1
        else:
            self._counts[env_ids] += 1
            if self._row_envs is None:
                self._row_envs = np.arange(self._capacity, dtype=np.int64) % self._env_num
        if self._row_envs is not None:
            self._row_envs[start:stop] = env_ids
        for field, array in zip(self._fields, arrays):  # type: ignore[arg-type]
            field.array[start:stop] = array

    def finish(self, env_ids: np.ndarray) -> None:
        """End the growing pieces of these environments: they wait, in this order, for :meth:`take_finished`."""
        pieces = self._cut(env_ids)
        self._finished.append(pieces)
        self._finished_steps += int(np.add.reduce(pieces.lengths))

    def take_finished(self) -> TransitionBatch:
        """Take the finished pieces out, concatenated in the order in which they were finished, with their ``lengths``;
        empty pieces are left out.
        """
        finished, self._finished, self._finished_steps = self._finished, [], 0
        return self._taken(finished)

    def pop(self, env_ids: np.ndarray) -> TransitionBatch:
        """Take the growing pieces of these environments out, concatenated in the given order, with their ``lengths``;
        empty pieces are left out.
        """
        return self._taken([self._cut(env_ids)])

    def clear(self, env_ids: "np.ndarray | None" = None) -> None:
        """Forget the growing pieces of these environments (``None``: everything, finished pieces too)."""
        if env_ids is None:
            self._finished, self._finished_steps = [], 0
            self._counts[:] = 0
            self._fields = None
            self._forget_rows()
        else:
            self._cut(env_ids)

    # ------------------------------------------------------------------ pieces

    def _cut(self, env_ids: np.ndarray) -> _Pieces:
        """The growing pieces of these environments, which begin new ones."""
        pieces = _Pieces(env_ids, self._firsts[env_ids], self._counts[env_ids], self._num_rows)
        self._counts[env_ids] = 0
        self._firsts[env_ids] = self._num_rows
        return pieces

    def _taken(self, parts: list[_Pieces]) -> TransitionBatch:
        lengths = np.concatenate([_NO_LENGTHS, *(part.lengths for part in parts)])
        total = int(lengths.sum())
        if not total or self._fields is None:
            return TransitionBatch.from_rows([])
        rows = self._rows_of(parts, lengths, total)
        batch = self._read(rows, lengths[lengths > 0])
        if not self._finished and not np.count_nonzero(self._counts):
            self._forget_rows()
        return batch

    def _rows_of(self, parts: list[_Pieces], lengths: np.ndarray, total: int) -> np.ndarray:
        """The log rows of pieces, int64 ``[total]``."""
        if self._row_envs is not None:
            return np.concatenate(
                [
                    first + np.flatnonzero(self._row_envs[first : part.end] == env_id)
                    for part in parts
                    for env_id, first in zip(part.env_ids.tolist(), part.firsts.tolist())
                ]
            )
        # Each step took env_num rows: a piece is every env_num-th row from its first on.
        first_rows = np.concatenate([part.firsts + part.env_ids for part in parts])
        before = np.cumsum(lengths) - lengths
        return np.arange(total) * self._env_num + (first_rows - before * self._env_num).repeat(lengths)

    # ------------------------------------------------------------------ room

    def _forget_rows(self) -> None:
        """The log is empty again."""
        self._num_rows = 0
        self._firsts[:] = 0
        self._row_envs = None

    def _make_room(self, size: int) -> None:
        """Drop the rows before the oldest that is needed; where that does not give half of the room, grow, too."""
        first = self._oldest_row()
        kept = self._num_rows - first
        while kept + size > self._capacity or 2 * kept > self._capacity:
            self._capacity *= 2
        row_envs = self._row_envs
        old = [field.array for field in self._fields or ()]
        if old and len(old[0]) != self._capacity:
            self._allocate()
        for field, array in zip(self._fields or (), old):
            field.array[:kept] = array[first : self._num_rows]
        if row_envs is not None:
            self._row_envs = np.empty(self._capacity, dtype=np.int64)
            self._row_envs[:kept] = row_envs[first : self._num_rows]
        self._num_rows = kept
        # Of an environment without a piece the row may have been dropped, and with it all of its rows.
        np.maximum(self._firsts - first, 0, out=self._firsts)
        self._finished = [
            pieces._replace(firsts=pieces.firsts - first, end=pieces.end - first) for pieces in self._finished
        ]

    def _oldest_row(self) -> int:
        growing = self._firsts[self._counts > 0]
        rows = np.concatenate([growing, *(pieces.firsts for pieces in self._finished)])
        return int(rows.min()) if len(rows) else self._num_rows

    def _is_all(self, env_ids: np.ndarray) -> bool:
        """Whether these are all environments in order. The same array comes again and again."""
        if env_ids is not self._known_ids:
            self._known_ids = env_ids
            everyone = len(env_ids) == self._env_num
            self._known_all = everyone and bool((env_ids == np.arange(self._env_num)).all())
        return self._known_all

    # ------------------------------------------------------------------ fields

    def _fitting(self, columns: dict[str, Any]) -> list[np.ndarray]:
        """The arrays of a step, in the order of the fields."""
        if self._fields is not None:
            quick = quick_arrays(columns, self._plan)
            if quick is not None:
                return quick
            try:
                return _arrays_of(columns, self._fields)
            except SchemaError:
                if self._finished or np.count_nonzero(self._counts):
                    raise
            self._forget_rows()
        self._fields = [_Field(path, leaf, self._rows_as_tensors) for path, leaf in _leaves(columns)]
        self._plan = plan_of(columns)
        self._allocate()
        return _arrays_of(columns, self._fields)

    def _allocate(self) -> None:
        for field in self._fields or ():
            field.array = np.empty((self._capacity, *field.shape), dtype=field.stored_dtype)

    def _read(self, rows: np.ndarray, lengths: np.ndarray) -> TransitionBatch:
        columns = self._nest([field.given(field.array.take(rows, axis=0)) for field in self._fields or ()])
        return TransitionBatch.unchecked(columns, len(rows), lengths)

    def _nest(self, leaves: list[Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for field, leaf in zip(self._fields or (), leaves):
            inner = result
            for key in field.path[:-1]:
                inner = inner.setdefault(key, {})
            inner[field.path[-1]] = leaf
        return result


_NO_LENGTHS = np.zeros(0, dtype=np.int64)


class _Field:
    """One leaf of the steps: its place, what it is, and the rows stored of it."""

    __slots__ = ("array", "dtype", "kind", "path", "shape", "stored_dtype", "tensor_out")

    array: np.ndarray

    def __init__(self, path: tuple[str, ...], leaf: Any, rows_as_tensors: bool) -> None:
        array = as_array(leaf)
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
            array = as_array(leaf)
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


def _kind(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return _TENSOR
    return _ARRAY if isinstance(leaf, np.ndarray) else _OBJECTS
