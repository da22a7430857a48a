"""``TransitionBatch``: a sequence of transition dicts that is stored as columns."""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypeAlias, overload

import numpy as np

from ding.data.columns import SchemaError, check_rows, concat, num_rows, row_list, stack_rows
from ding.data.roles import Samples
from ding.utils.rows import take


class Row(dict[str, Any]):
    """A transition: a dict whose keys are attributes, too: ``row.obs.image`` is ``row["obs"]["image"]``."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            value = self[name]
        except KeyError:
            raise AttributeError(f"a transition has no field {name!r}; fields are {sorted(map(str, self))}") from None
        if type(value) is dict:
            value = self[name] = Row(value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value


@dataclass(slots=True)
class _Table:
    """What the batches that are views of each other share: columns until a row is taken, then rows."""

    columns: dict[str, Any]
    rows: list[dict[str, Any]] | None = None


Positions: TypeAlias = Sequence[int] | np.ndarray


class TransitionBatch(MutableSequence[dict[str, Any]]):
    """A sequence of N transitions with one array per field.

    It behaves like the list of dicts that the classic API speaks of. *Rows win*: the first time a row is taken, all
    rows of the underlying table are materialised once as mutable dicts (:class:`Row`), and are the truth from then on:
    what a caller writes into them is seen by every view of the same table and by :attr:`columns`, which is then rebuilt
    when it is read. Code that never touches a row never pays for one.

    It is a tree of columns, too: ``batch["reward"]`` and ``batch.reward`` are ``batch.columns["reward"]``, for fields
    that are no names of its own.

    Args:
        columns: nested dict of columns (see :mod:`ding.data.columns`), each with N rows.
        lengths: int64 ``[S]``, lengths of the trajectory segments of which the batch is the concatenation, with sum N.
            ``None``: one segment.

    Attributes:
        lengths: as given.

    Raises:
        SchemaError: no column, leaves with different numbers of rows, or ``lengths`` that do not add up to N.
    """

    __slots__ = ("_index", "_length", "_table", "lengths")

    _table: _Table
    # Which rows of the table these are; None: all of them.
    _index: range | np.ndarray | None
    _length: int
    lengths: np.ndarray | None

    def __init__(self, columns: Mapping[str, Any], lengths: "Sequence[int] | np.ndarray | None" = None) -> None:
        if not isinstance(columns, Mapping):
            raise SchemaError(f"columns must be a dict of fields, found {type(columns).__name__}")
        columns = dict(columns)
        length = num_rows(columns)
        check_rows(columns, length)
        self._table = _Table(columns)
        self._index = None
        self._length = length
        self.lengths = None if lengths is None else _checked_lengths(lengths, length)

    @classmethod
    def unchecked(cls, columns: dict[str, Any], length: int, lengths: np.ndarray | None = None) -> "TransitionBatch":
        """Wrap columns that are known to be sound, without looking at them (for hot paths)."""
        batch = cls.__new__(cls)
        batch._table = _Table(columns)
        batch._index = None
        batch._length = length
        batch.lengths = lengths
        return batch

    @classmethod
    def of(cls, samples: "TransitionBatch | Iterable[dict[str, Any]]") -> "TransitionBatch":
        """``samples`` as columns: a batch as it is, rows by :meth:`from_rows`."""
        return samples if isinstance(samples, TransitionBatch) else cls.from_rows(samples)

    @classmethod
    def from_rows(
        cls, rows: Iterable[dict[str, Any]], lengths: "Sequence[int] | np.ndarray | None" = None
    ) -> "TransitionBatch":
        """Return a batch of the given dicts (not copied); ``lengths`` as in the constructor.

        They are columnised when :attr:`columns` is first read, which may raise :class:`SchemaError`.

        Raises:
            SchemaError: ``lengths`` do not add up to the number of rows.
        """
        batch = cls.__new__(cls)
        batch._set_rows(list(rows))
        if lengths is not None:
            batch.lengths = _checked_lengths(lengths, batch._length)
        return batch

    @classmethod
    def concat(cls, batches: Sequence["TransitionBatch"]) -> "TransitionBatch":
        """Concatenate batches; ``lengths`` are concatenated too when any part has them.

        Columns are copied; row dicts that exist already are shared, as ``list + list`` does.

        Raises:
            SchemaError: no batch at all, or batches of different schemas; the message names the field.
        """
        if not batches:
            raise SchemaError("cannot concatenate zero batches: the schema is unknown")
        if len(batches) == 1:
            return batches[0]
        lengths = None
        if any(batch.lengths is not None for batch in batches):
            lengths = np.concatenate([batch.segment_lengths() for batch in batches])
        if any(batch._table.rows is not None for batch in batches):
            result = cls.from_rows([row for batch in batches for row in batch.rows()])
            result.lengths = lengths
            return result
        columns = concat([batch.columns for batch in batches])
        assert isinstance(columns, dict)
        return cls.unchecked(columns, sum(len(batch) for batch in batches), lengths)

    # ------------------------------------------------------------------ columns

    @property
    def columns(self) -> dict[str, Any]:
        """Nested dict of columns, each leaf with N rows. Rebuilt from the rows once these exist.

        Raises:
            SchemaError: rows that a caller changed no longer fit together.
        """
        table = self._table
        if table.rows is not None:
            rows = self._picked_rows()
            columns = stack_rows(rows) if rows else {}
        elif self._index is None:
            return table.columns
        else:
            index = self._index
            picked = slice(index.start, index.stop, index.step) if isinstance(index, range) else index
            columns = take(table.columns, picked)
        if not isinstance(columns, dict):
            raise SchemaError("the rows of a TransitionBatch must be dicts")
        return columns

    def segment_lengths(self) -> np.ndarray:
        """Like :attr:`lengths`, with one segment spelled out (none for an empty batch)."""
        if self.lengths is not None:
            return self.lengths
        return np.array([self._length] if self._length else [], dtype=np.int64)

    def with_columns(self, **columns: Any) -> "TransitionBatch":
        """Return a batch with columns added or replaced; the others are shared.

        Raises:
            SchemaError: a new column has another number of rows.
        """
        check_rows(columns, self._length)
        return self.unchecked({**self.columns, **columns}, self._length, self.lengths)

    def without_columns(self, *names: str) -> "TransitionBatch":
        """Return a batch without the named top-level columns; names that do not exist are ignored."""
        return self.unchecked({k: v for k, v in self.columns.items() if k not in names}, self._length, self.lengths)

    # ------------------------------------------------------------------ rows

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows as a new list of the (shared, mutable) row dicts."""
        self._materialise()
        return list(self._picked_rows())

    def _materialise(self) -> list[dict[str, Any]]:
        table = self._table
        if table.rows is None:
            table.rows = list(map(Row, row_list(table.columns, num_rows(table.columns) if table.columns else 0)))
            table.columns = {}
        return table.rows

    def _picked_rows(self) -> list[dict[str, Any]]:
        rows = self._table.rows
        assert rows is not None
        if self._index is None:
            return rows
        if isinstance(self._index, range):
            return rows[self._index.start : self._index.stop : self._index.step]
        return [rows[i] for i in self._index.tolist()]

    def _set_rows(self, rows: list[dict[str, Any]]) -> None:
        self._table = _Table({}, rows)
        self._index = None
        self._length = len(rows)
        self.lengths = None

    # ------------------------------------------------------------------ sequence

    # ``isinstance(batch, list)`` is true, as scripts ask it of what a collector returns (a buffer of one's own: a list
    # is many transitions, anything else is one). ``type(batch)`` is what it is, and so it is for code in C.
    __class__ = property(lambda self: list)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle compares the class of what it makes with ``__class__``.
        return object.__new__, (type(self),), (None, {name: getattr(self, name) for name in TransitionBatch.__slots__})

    def __len__(self) -> int:
        return self._length

    def __getattr__(self, name: str) -> Any:
        # Private names are looked for while a copy is being made, when there is no table yet.
        if name.startswith("_") or name not in self.columns:
            raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}, nor is it a field of its rows")
        value = self.columns[name]
        return Row(value) if isinstance(value, dict) else value

    @overload
    def __getitem__(self, item: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, item: str) -> Any: ...

    @overload
    def __getitem__(self, item: "slice | Sequence[int] | np.ndarray") -> "TransitionBatch": ...

    def __getitem__(self, item: "int | str | slice | Positions") -> object:
        if isinstance(item, str):
            return self.columns[item]
        base = range(self._length) if self._index is None else self._index
        if isinstance(item, (int, np.integer)):
            if not -self._length <= item < self._length:
                raise IndexError(f"row {item} of a batch of {self._length} rows")
            return self._materialise()[int(base[int(item)])]
        if not isinstance(item, slice):
            positions = _as_positions(item, self._length)
            return self._view(base.start + positions * base.step if isinstance(base, range) else base[positions])
        picked = base[item]
        if isinstance(picked, range) and picked.step < 0:
            # Tensors cannot be sliced backwards: such a view goes by positions.
            picked = np.arange(picked.start, picked.stop, picked.step)
        return self._view(picked.copy() if isinstance(picked, np.ndarray) else picked)

    def _view(self, index: range | np.ndarray) -> "TransitionBatch":
        view = type(self).__new__(type(self))
        view._table = self._table
        view._index = index
        view._length = len(index)
        view.lengths = None
        return view

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __add__(self, other: "TransitionBatch | list[dict[str, Any]]") -> "TransitionBatch":
        if isinstance(other, TransitionBatch):
            if not self._length or not other._length:
                return other if not self._length else self
            return self.concat([self, other])
        if isinstance(other, list):
            return self.from_rows(self.rows() + other) if other else self
        return NotImplemented

    def __radd__(self, other: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if isinstance(other, list):
            return other + self.rows()
        return NotImplemented

    # In-place list operations: the batch leaves its table and owns a list of the same row dicts from then on.

    def __setitem__(self, item: SupportsIndex | slice | str, value: Any) -> None:
        if isinstance(item, str):
            batch = self.with_columns(**{item: value})
            self._table, self._index = batch._table, None
            return
        rows = self.rows()
        rows[item] = value
        self._set_rows(rows)

    def __delitem__(self, item: SupportsIndex | slice) -> None:
        rows = self.rows()
        del rows[item]
        self._set_rows(rows)

    def insert(self, index: int, value: dict[str, Any]) -> None:
        """Insert a row before ``index``, as ``list.insert`` does."""
        rows = self.rows()
        rows.insert(index, value)
        self._set_rows(rows)

    def sort(self, *, key: Callable[[dict[str, Any]], Any], reverse: bool = False) -> None:
        """Sort the rows, as ``list.sort`` does."""
        self._set_rows(sorted(self.rows(), key=key, reverse=reverse))

    def copy(self) -> "TransitionBatch":
        """Another batch of the same rows, as ``list.copy`` makes a list."""
        return self[:]

    def extend(self, values: Iterable[dict[str, Any]]) -> None:
        """Append rows, as ``list.extend`` does."""
        self._set_rows(self.rows() + list(values))

    def __repr__(self) -> str:
        if self._table.rows is not None:
            return f"TransitionBatch({self._length} materialised rows)"
        return f"TransitionBatch({self._length} rows, fields {list(self._table.columns)})"


def joined_samples(parts: "Sequence[TransitionBatch | Sequence[dict[str, Any]]]") -> Samples:
    """Return all samples in one sequence: a ``TransitionBatch`` where all parts are, else a list."""
    batches = [part for part in parts if isinstance(part, TransitionBatch)]
    if batches and len(batches) == len(parts):
        return TransitionBatch.concat(batches)
    return [sample for part in parts for sample in part]


def _as_positions(item: object, length: int) -> np.ndarray:
    """Normalise an index array, list or boolean mask to non-negative int64 positions."""
    array = np.asarray(item)
    if array.dtype == np.bool_:
        if array.shape != (length,):
            raise IndexError(f"a mask for {length} rows must have shape ({length},), found {array.shape}")
        return np.flatnonzero(array)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise TypeError(
            f"rows are chosen by an int, a slice, a mask or a 1-D array of ints, found {type(item).__name__}"
        )
    positions = array.astype(np.int64)
    if positions.min() < -length or positions.max() >= length:
        raise IndexError(f"row index out of range for a batch of {length} rows")
    positions[positions < 0] += length
    return positions


def _checked_lengths(lengths: "Sequence[int] | np.ndarray", total: int) -> np.ndarray:
    array = np.asarray(lengths, dtype=np.int64)
    if array.ndim != 1 or (array < 1).any() or int(array.sum()) != total:
        raise SchemaError(f"lengths must be positive and add up to {total} rows, found {array.tolist()}")
    return array
