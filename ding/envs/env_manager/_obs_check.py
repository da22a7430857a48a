"""Stacking the observations of many envs, and telling which env returned something else than it should."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from ding.data import SchemaError
from ding.data.columns import Columns, iter_leaves, stack_rows

# (env id, what is wrong) -> the exception to raise
Complaint = Callable[[int, str], Exception]
_SMALL = 4096


def has_nan(array: np.ndarray) -> bool:
    """Whether a float array holds NaN; infinities are no NaN. Other dtypes hold none."""
    if array.dtype.kind != "f":
        return False
    if array.size > _SMALL:
        # The maximum hands NaN through.
        number = np.maximum.reduce(array, axis=None)
    else:
        # A sum of squares is NaN only when one of them is. Half the price, but BLAS shares large ones among threads.
        number = np.vdot(array, array)
    return bool(number != number)


class ObsStacker:
    """Stack observations, one per env, into columns, with checks of shape, dtype and NaN.

    Where the space is a Box, its shape and dtype are the measure (dtypes that convert within their kind are converted).
    For other spaces with arrays the envs are compared with the first observation seen. What is no array, or has a space
    that says nothing about shapes, becomes a ``list`` column if it does not stack.

    Args:
        space: observation space of one env.
        trust_space: whether a Box space is the measure; else the first observation is.
        check: whether to look for NaN.
        complain: makes the exception for a bad observation.
    """

    def __init__(self, space: Any, trust_space: bool, check: bool, complain: Complaint) -> None:
        self._check = check
        self._complain = complain
        self._may_be_ragged = not isinstance(space, (spaces.Box, spaces.Dict))
        self._shape: tuple[int, ...] | None = None
        self._dtype: np.dtype[Any] | None = None
        if trust_space and isinstance(space, spaces.Box):
            self._shape, self._dtype = tuple(space.shape), space.dtype
        self._full_shapes: dict[int, tuple[int, ...]] = {}
        self._first: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] | None = None

    def stack(self, obs: Sequence[Any], env_ids: Sequence[int]) -> Columns:
        """The observations as columns with one row each.

        Raises:
            Exception: what ``complain`` makes.
        """
        if self._shape is None:
            return self._stack_free(obs, env_ids)
        try:
            column = np.array(obs)
        except ValueError:
            # Arrays of different shapes: find out whose is wrong.
            return self._stack_slow(obs, env_ids)
        size = len(obs)
        expected = self._full_shapes.get(size)
        if expected is None:
            expected = self._full_shapes[size] = (size, *self._shape)
        if column.shape != expected:
            return self._stack_slow(obs, env_ids)
        if column.dtype != self._dtype:
            if not np.can_cast(column.dtype, self._dtype, "same_kind"):  # type: ignore[arg-type]
                return self._stack_slow(obs, env_ids)
            column = column.astype(self._dtype)
        if self._check and has_nan(column):
            self._name_nan(column, env_ids)
        return column

    def _stack_slow(self, obs: Sequence[Any], env_ids: Sequence[int]) -> Columns:
        assert self._shape is not None
        assert self._dtype is not None
        rows = []
        for env_id, value in zip(env_ids, obs):
            row = np.asarray(value)
            if row.shape != self._shape:
                raise self._complain(env_id, f"observation of shape {row.shape}, expected {self._shape}")
            if not np.can_cast(row.dtype, self._dtype, "same_kind"):
                raise self._complain(env_id, f"observation of dtype {row.dtype}, expected {self._dtype}")
            rows.append(row)
        column = np.array(rows, dtype=self._dtype)
        if self._check and has_nan(column):
            self._name_nan(column, env_ids)
        return column

    def _stack_free(self, obs: Sequence[Any], env_ids: Sequence[int]) -> Columns:
        try:
            columns = stack_rows(obs)
        except SchemaError as error:
            if self._may_be_ragged:
                return list(obs)
            self._name_odd_one(obs, env_ids)
            raise self._complain(env_ids[0], str(error)) from error
        arrays = {path: leaf for path, leaf in iter_leaves(columns) if isinstance(leaf, np.ndarray)}
        if self._first is None:
            self._first = {path: (leaf.shape[1:], leaf.dtype) for path, leaf in arrays.items()}
        elif not self._may_be_ragged and self._first != {p: (leaf.shape[1:], leaf.dtype) for p, leaf in arrays.items()}:
            self._name_odd_one(obs, env_ids)
        if self._check:
            for path, leaf in arrays.items():
                if has_nan(leaf):
                    self._name_nan(leaf, env_ids, path)
        return columns

    def _name_odd_one(self, obs: Sequence[Any], env_ids: Sequence[int]) -> None:
        first = self._first
        for env_id, value in zip(env_ids, obs):
            columns = stack_rows([value])
            found = {
                p: (leaf.shape[1:], leaf.dtype) for p, leaf in iter_leaves(columns) if isinstance(leaf, np.ndarray)
            }
            if first is None:
                first = found
            elif found != first:
                raise self._complain(env_id, f"observation {_schema_text(found)}, expected {_schema_text(first)}")

    def _name_nan(self, column: np.ndarray, env_ids: Sequence[int], path: str = "") -> None:
        flat = np.isnan(column).reshape(len(column), -1).any(axis=1)
        env_id = list(env_ids)[int(np.flatnonzero(flat)[0])]
        raise self._complain(env_id, f"NaN in the observation{f' at {path!r}' if path else ''}")


def _schema_text(schema: dict[str, tuple[tuple[int, ...], Any]]) -> str:
    parts = [f"{path}: " * bool(path) + f"shape {shape} dtype {dtype}" for path, (shape, dtype) in schema.items()]
    return "; ".join(parts) or "without arrays"
