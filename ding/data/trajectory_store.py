"""The store in which a collector gathers the trajectory pieces of its environments."""

from typing import Any

import numpy as np
import torch

from ding.data.columns import Columns, SchemaError, describe_leaf
from ding.data.transition_batch import TransitionBatch

_FIRST_CAPACITY = 64


class TrajectoryStore:
    """One growing trajectory piece per environment, kept as arrays ``[env_num, capacity, ...]``.

    A whole vector step is written at once; a finished piece leaves as a slice. The schema (fields, dtypes, row shapes)
    is that of the first step and is forgotten when the store is empty.

    Args:
        env_num: number of environments; their ids are ``0 .. env_num - 1``.
        capacity: steps to reserve per environment; the store doubles when a piece outgrows it.
    """

    def __init__(self, env_num: int, capacity: int = _FIRST_CAPACITY) -> None:
        if env_num < 1 or capacity < 1:
            raise ValueError(f"env_num and capacity must be positive, found {env_num} and {capacity}")
        self._env_num = env_num
        self._capacity = capacity
        self._columns: dict[str, Any] | None = None
        self._counts = np.zeros(env_num, dtype=np.int64)

    @property
    def counts(self) -> np.ndarray:
        """int64 ``[env_num]``: steps stored per environment. Do not write."""
        return self._counts

    def append(self, env_ids: np.ndarray, columns: dict[str, Any]) -> None:
        """Write one step of the environments ``env_ids`` (int64 ``[N]``, distinct) from columns with N rows each.

        Raises:
            SchemaError: a field is missing or extra, or its leaf type, dtype or row shape is not that of the steps
                before.
        """
        counts = self._counts[env_ids]
        first = int(counts[0])
        if self._columns is None or not self._counts.any():
            self._columns = _allocate(columns, self._env_num, self._capacity)
        longest = int(counts.max())
        if longest >= self._capacity:
            self._grow()
        if len(env_ids) == self._env_num and longest == first and int(counts.min()) == first and _is_range(env_ids):
            _write(self._columns, columns, (slice(None), first))
        else:
            _write(self._columns, columns, (env_ids, counts))
        self._counts[env_ids] += 1

    def pop(self, env_ids: np.ndarray) -> TransitionBatch:
        """Take the pieces of these environments out, concatenated in the given order, with their ``lengths``; empty
        pieces are left out.
        """
        lengths = self._counts[env_ids]
        env_ids, lengths = env_ids[lengths > 0], lengths[lengths > 0]
        total = int(lengths.sum())
        if total == 0 or self._columns is None:
            return TransitionBatch.from_rows([])
        self._counts[env_ids] = 0
        longest = int(lengths[0])
        if len(env_ids) == self._env_num and _is_range(env_ids) and bool((lengths == longest).all()):
            # The whole store leaves: hand the arrays over instead of copying them.
            store, self._columns = self._columns, None
            columns = _read(store, lambda leaf: leaf[:, :longest].reshape(total, *leaf.shape[2:]))
        else:
            rows = np.repeat(env_ids, lengths)
            steps = np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            columns = _read(self._columns, lambda leaf: leaf[rows, steps])
        return TransitionBatch.trusted(columns, total, lengths)

    def clear(self, env_ids: "np.ndarray | None" = None) -> None:
        """Forget the pieces of these environments (``None``: all)."""
        if env_ids is None:
            self._counts[:] = 0
            self._columns = None
        else:
            self._counts[env_ids] = 0

    def _grow(self) -> None:
        old, self._capacity = self._capacity, self._capacity * 2
        assert self._columns is not None
        self._columns = _enlarge(self._columns, old, self._capacity)


class _Stored:
    """One field: its array ``[env_num, capacity, ...]`` and whether rows of it are tensors or plain objects."""

    __slots__ = ("array", "kind")

    def __init__(self, array: np.ndarray, kind: str) -> None:
        self.array = array
        self.kind = kind


def _is_range(env_ids: np.ndarray) -> bool:
    return bool(env_ids[0] == 0 and env_ids[-1] == len(env_ids) - 1 and (env_ids[1:] > env_ids[:-1]).all())


def _kind(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return "tensor"
    return "array" if isinstance(leaf, np.ndarray) else "objects"


def _as_array(leaf: Any) -> np.ndarray:
    """The leaf as an array ``[N, ...]``; objects become an object array ``[N]``."""
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().cpu().numpy()
    if isinstance(leaf, np.ndarray):
        return leaf
    array = np.empty(len(leaf), dtype=object)
    for i, item in enumerate(leaf):
        array[i] = item
    return array


def _allocate(columns: Columns, env_num: int, capacity: int) -> Any:
    if isinstance(columns, dict):
        return {key: _allocate(value, env_num, capacity) for key, value in columns.items()}
    array = _as_array(columns)
    return _Stored(np.empty((env_num, capacity, *array.shape[1:]), dtype=array.dtype), _kind(columns))


def _enlarge(stored: Any, old: int, new: int) -> Any:
    if isinstance(stored, dict):
        return {key: _enlarge(value, old, new) for key, value in stored.items()}
    array = np.empty((stored.array.shape[0], new, *stored.array.shape[2:]), dtype=stored.array.dtype)
    array[:, :old] = stored.array
    return _Stored(array, stored.kind)


def _write(stored: Any, columns: Columns, where: tuple, path: str = "") -> None:
    if isinstance(stored, dict):
        if not isinstance(columns, dict) or columns.keys() != stored.keys():
            found = sorted(map(str, columns)) if isinstance(columns, dict) else type(columns).__name__
            known = sorted(map(str, stored))
            where_text = path or "the top level"
            raise SchemaError(f"a step at {where_text!r} has fields {found}, the steps before had {known}")
        for key, value in columns.items():
            _write(stored[key], value, where, f"{path}.{key}" if path else str(key))
        return
    array = _as_array(columns) if not isinstance(columns, dict) else None
    expected = stored.array
    if (
        array is None
        or array.dtype != expected.dtype
        or array.shape[1:] != expected.shape[2:]
        or _kind(columns) != stored.kind
    ):
        raise SchemaError(
            f"field {path!r} of a step is {describe_leaf(columns)}, "
            f"the steps before had {stored.kind} {expected.dtype}{list(expected.shape[2:])}"
        )
    expected[where] = array


def _read(stored: Any, pick: Any) -> Any:
    if isinstance(stored, dict):
        return {key: _read(value, pick) for key, value in stored.items()}
    array = pick(stored.array)
    if stored.kind == "tensor":
        return torch.from_numpy(array)
    return array.tolist() if stored.kind == "objects" else array
