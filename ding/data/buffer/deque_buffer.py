"""``DequeBuffer``: the newest ``size`` records, in order of arrival."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ding.data.buffer._arguments import check_sample, independent, meta_columns
from ding.data.buffer._core import RecordCore, Records
from ding.data.buffer._index import BufferIndex, IndexView, StorageView
from ding.data.buffer._records import IndexArray, RecordBatch, serials_of
from ding.data.buffer._save import read_contents, write_contents
from ding.data.buffer.buffer import Buffer, BufferedData, Metas, apply_middleware, is_column, meta_rows
from ding.data.buffer.errors import NotEnoughDataError, SampleArgumentError, UnknownIndexError
from ding.data.columns import SchemaError
from ding.data.transition_batch import TransitionBatch

__all__ = ["BufferIndex", "DequeBuffer"]

logger = logging.getLogger(__name__)


class DequeBuffer(Buffer):
    """A bounded queue of records: a push into a full buffer evicts the oldest record.

    ``push`` keeps any object as it is. ``extend`` stores the rows of a batch as columns, without work per row; samples
    of such rows are a :class:`~ding.data.buffer.RecordBatch`, a sequence of records whose ``.data`` is a
    ``TransitionBatch``. Both kinds of records may live in one buffer.

    Views (:meth:`view`) share the records. Thread-safe: each action runs, with all its middleware, under one lock that
    the views share.

    Samples contain the stored objects themselves (copies of repeated ones), but copies of rows of columns.

    Args:
        size: Maximum number of records.
        sliced: Whether ``unroll_len`` cuts groups into non-overlapping segments, see :meth:`sample`.

    Raises:
        ValueError: ``size`` is not a positive int.
    """

    def __init__(self, size: int, sliced: bool = False) -> None:
        if isinstance(size, bool) or int(size) != size or size < 1:
            raise ValueError(f"the size of a buffer must be a positive int, got {size!r}")
        self.sliced = sliced
        self._core = RecordCore(int(size))
        super().__init__(int(size))

    def _make_own(self) -> None:
        self._lock = self._core.lock

    # ------------------------------------------------------------------ push

    @apply_middleware("push")
    def push(self, data: object, meta: dict[str, Any] | None = None) -> BufferedData:
        """Store ``data`` as one record, whatever it is.

        Args:
            data: kept by reference.
            meta: kept by reference; ``{}`` if None.

        Returns:
            The stored record, with its new index.
        """
        return self._core.push(data, meta)

    def extend(
        self,
        rows: "TransitionBatch | Sequence[Any]",
        meta: "Mapping[str, Any] | Sequence[dict[str, Any]] | None" = None,
    ) -> IndexArray:
        """Store each of N rows as a separate record, as columns if the rows have one schema.

        Rows that do not match the columns in the buffer are kept as objects, as are all rows if there is a middleware
        that is not :func:`~ding.data.buffer.batch_aware`: it sees one ``push`` per row.

        Args:
            rows: a ``TransitionBatch``, or a sequence of N objects.
            meta: a dict of columns of N values (or single values for all rows), or N dicts.

        Returns:
            The indices of the N records, including those evicted at once because N exceeds ``size``.

        Raises:
            ValueError: ``meta`` has another length.
        """
        columns_meta = meta_columns(meta, len(rows))
        with self._lock:
            if not len(rows):
                return IndexArray(self._core.token, np.empty(0, dtype=np.int64))
            if self._batch_aware() and columns_meta is not None:
                return self._extend(rows, columns_meta)
            metas: Sequence[Any] = (
                meta_rows(meta, len(rows)) if meta and isinstance(meta, Mapping) else list(meta or ())
            )
            pushed = [self.push(row, meta=dict(metas[i])) if metas else self.push(row) for i, row in enumerate(rows)]
            # A middleware may have refused a push.
            indices = [record.index for record in pushed if isinstance(record, BufferedData)]
            return IndexArray(self._core.token, serials_of(indices, self._core.token))

    def _batch_aware(self) -> bool:
        return all(getattr(middleware, "handles_batches", False) for middleware in self._middleware)

    @apply_middleware("extend")
    def _extend(self, rows: "TransitionBatch | Sequence[Any]", meta: Mapping[str, Any]) -> IndexArray:
        core, count = self._core, len(rows)
        first, skip = core.order.next_serial, max(0, count - core.size)
        if skip:
            rows = rows[skip:]
            meta = {key: value[skip:] if is_column(value) else value for key, value in meta.items()}
            core.order.next_serial += skip
            core.push_count += skip
        try:
            core.extend(rows, meta)
        except SchemaError as error:
            logger.debug("%d rows are kept as objects: %s", count - skip, error)
            for row, row_meta in zip(list(rows), meta_rows(meta, count - skip)):
                core.push(row, row_meta)
        return IndexArray(core.token, np.arange(first, first + count))

    # ------------------------------------------------------------------ sample

    @apply_middleware("sample")
    def sample(
        self,
        size: int | None = None,
        indices: Sequence[str] | Literal[False] | None = None,
        replace: bool = False,
        sample_range: slice | None = None,
        ignore_insufficient: bool = False,
        groupby: str | None = None,
        unroll_len: int | None = None,
    ) -> Any:
        """Draw records uniformly, look records up by index, or draw groups of records.

        Args:
            size: number of records, or of groups.
            indices: Indices of the records to return, in this order; repeats are allowed. Empty and False mean none.
            replace: Whether to draw with replacement.
            sample_range: restricts the candidates to a slice of the records, the oldest one being 0.
            ignore_insufficient: Whether to warn and return ``[]`` instead of raising if there are fewer than ``size``.
            groupby: a meta key. Records with an equal value form a group, in storage order; whole groups are drawn.
            unroll_len: Length of a random window of consecutive records returned per group. Shorter groups are
                excluded. In a ``sliced`` buffer, windows begin at multiples of ``unroll_len`` (the last one ends with
                the group).

        Returns:
            ``size`` records (a list, or a ``RecordBatch`` when all of them are rows of columns), or a list of ``size``
            such groups. Repeated occurrences of a record are copies.

        Raises:
            NotEnoughDataError: fewer records or groups than ``size``.
            UnknownIndexError: No candidate has the index.
            SampleArgumentError: Arguments are missing or mutually exclusive.
        """
        if indices is False or (indices is not None and not len(indices)):
            indices = None
        check_sample(size, indices, groupby, unroll_len)
        places = self._candidates(sample_range)
        try:
            if groupby is not None:
                assert size is not None
                return self._sample_groups(size, replace, places, sample_range, groupby, unroll_len)
            if indices is not None:
                drawn = self._look_up(indices, places, sample_range)
            else:
                assert size is not None
                drawn = self._draw(size, len(places), replace)
                if sample_range is not None:
                    drawn = np.array(places, dtype=np.int64)[drawn]
        except NotEnoughDataError as error:
            if not ignore_insufficient:
                raise
            logger.warning("%s; the sample is empty", error)
            return []
        return self._given(independent(self._core.read(drawn)))

    def _candidates(self, sample_range: slice | None) -> range:
        if sample_range is None:
            return range(self._core.order.count)
        if not isinstance(sample_range, slice):
            raise SampleArgumentError(f"sample_range must be a slice, got {sample_range!r}")
        return range(self._core.order.count)[sample_range]

    def _draw(self, size: int, count: int, replace: bool) -> np.ndarray:
        if count < size and not (replace and count):
            raise NotEnoughDataError(f"asked for {size} records, there are {count}")
        return self._core.draws.uniform(count, size, replace)

    def _look_up(self, indices: Sequence[str], candidates: range, sample_range: slice | None) -> np.ndarray:
        places = self._core.places_of(indices)
        if sample_range is not None:
            places = np.where(np.isin(places, np.array(candidates, dtype=np.int64)), places, -1)
        if len(places) and places.min() < 0:
            unknown = indices[int(np.argmin(places))]
            raise UnknownIndexError(f"no record with index {unknown!r} among the {len(candidates)} candidates")
        return places

    def _sample_groups(
        self, size: int, replace: bool, places: range, sample_range: slice | None, key: str, length: int | None
    ) -> list[Any]:
        core = self._core
        groups = core.groups(key)
        if sample_range is not None:
            allowed = core.order.serials[np.array(places, dtype=np.int64)]
            groups = [group for group in (np.intersect1d(g, allowed, assume_unique=True) for g in groups) if len(group)]
        what = f"groups by {key!r}"
        if length is not None:
            groups = [group for group in groups if len(group) >= length]
            what += f" of at least {length} records"
        if len(groups) < size and not (replace and groups):
            raise NotEnoughDataError(f"There are less than {size} {what}: {len(groups)}")
        picked = [groups[i] for i in self._core.draws.uniform(len(groups), size, replace).tolist()]
        if length is not None:
            picked = [_draw_window(group, length, self.sliced, core.draws.generator) for group in picked]
        if not picked:
            return []
        records = independent(core.read(core.order.find(np.concatenate(picked))))
        lengths = [len(group) for group in picked]
        if isinstance(records, RecordBatch):
            return [self._given(group) for group in records.split(lengths)]
        ends = np.cumsum(lengths).tolist()
        return [records[end - length : end] for end, length in zip(ends, lengths)]

    def _given(self, records: Records) -> Records:
        """Return the sample, as a list if a middleware does not support batches."""
        return records if self._batch_aware() else list(records)

    # ------------------------------------------------------------------ update, delete, clear

    @apply_middleware("update")
    def update(self, index: str, data: object = None, meta: dict[str, Any] | None = None) -> bool:
        """Replace the data and/or the whole meta of a record.

        Args:
            index: of the record.
            data: ``None`` keeps the data.
            meta: ``None`` keeps the meta.

        Returns:
            Whether the record exists.
        """
        slot = int(self._core.slots_of([index])[0])
        if slot < 0:
            return False
        if data is not None:
            self._core.set_data(slot, data)
        if meta is not None:
            self._core.set_meta(slot, meta)
        return True

    def batch_update(
        self, indices: Sequence[str], datas: Sequence[Any] | None = None, metas: "Metas" = None
    ) -> np.ndarray:
        """``update`` for K records; see :meth:`Buffer.batch_update`.

        Returns:
            bool array ``[K]``: whether each record exists.

        Raises:
            ValueError: ``datas`` or ``metas`` have another length.
        """
        for name, values in (("datas", datas), ("metas", metas)):
            if values is not None and not isinstance(values, Mapping) and len(values) != len(indices):
                raise ValueError(f"{len(values)} {name} for {len(indices)} indices")
        with self._lock:
            if self._batch_aware():
                return self._batch_update(indices, datas, metas)
            return np.array(super().batch_update(indices, datas, metas), dtype=np.bool_)

    @apply_middleware("batch_update")
    def _batch_update(
        self, indices: Sequence[str], datas: Sequence[Any] | None = None, metas: "Metas" = None
    ) -> np.ndarray:
        core = self._core
        slots = core.slots_of(indices)
        known = slots >= 0
        places = np.flatnonzero(known)
        for place in places.tolist() if datas is not None else ():
            assert datas is not None
            if datas[place] is not None:
                core.set_data(int(slots[place]), datas[place])
        if isinstance(metas, Mapping):
            if len(places) < len(slots):
                metas = {
                    key: [value[int(i)] for i in places] if is_column(value) else value for key, value in metas.items()
                }
            core.set_meta_columns(slots[places], metas)
        elif metas is not None:
            for place in places.tolist():
                meta = metas[place]
                if meta is not None:
                    core.set_meta(int(slots[place]), meta)
        return known

    def _meta_of(self, index: str) -> dict[str, Any]:
        return dict(self.get_by_index(index).meta) if self.indices.has(index) else {}

    @apply_middleware("delete")
    def delete(self, index: "str | Iterable[str]") -> None:
        """Remove one or several records; unknown indices are ignored."""
        indices = [index] if isinstance(index, str) else index
        if not isinstance(indices, IndexArray):
            indices = list(indices)
        self._core.remove(serials_of(indices, self._core.token))

    @apply_middleware("clear")
    def clear(self) -> None:
        """Remove all records, in all views."""
        self._core.clear()

    # ------------------------------------------------------------------ look at

    def count(self) -> int:
        """Number of records."""
        return self._core.order.count

    @property
    def push_count(self) -> int:
        """Total number of pushed records."""
        return self._core.push_count

    def get(self, idx: int) -> BufferedData:
        """Return the record at a place, the oldest one being 0; negative places count from the newest.

        Raises:
            IndexError: there is no such place.
        """
        with self._lock:
            count = self._core.order.count
            if not -count <= idx < count:
                raise IndexError(f"record {idx} of a buffer that holds {count}")
            return self._core.read(np.array([idx % count]))[0]

    def get_by_index(self, index: str) -> BufferedData:
        """Return the record with an index.

        Raises:
            KeyError: The index is unknown.
        """
        with self._lock:
            return self.get(self.indices.get(index))

    def __iter__(self) -> Iterator[BufferedData]:
        return iter(self.export_data())

    @property
    def storage(self) -> StorageView:
        """The records, oldest first, as a sequence."""
        return StorageView(self)

    @property
    def indices(self) -> IndexView:
        """Map from indices to places."""
        return IndexView(self._core)

    @property
    def meta_index(self) -> dict[Any, list[Any]]:
        """Values of each grouped meta key, in storage order."""
        with self._lock:
            slots = self._core.order.slots
            return {key: self._core.meta_values(key, slots) for key in self._core.grouped_keys()}

    @meta_index.setter
    def meta_index(self, keys: Iterable[str]) -> None:
        """Set the grouped meta keys; the values are those of the records."""
        with self._lock:
            self._core.group_by(keys)

    # ------------------------------------------------------------------ import and export

    def export_data(self) -> list[BufferedData]:
        """Return all records, oldest first."""
        with self._lock:
            return list(self._core.read(np.arange(self._core.order.count)))

    def import_data(self, data_with_meta: Iterable[tuple[Any, dict[str, Any] | None]]) -> None:
        """Push pairs of data and meta."""
        for data, meta in data_with_meta:
            self.push(data, meta)

    def save_data(self, file_name: str) -> None:
        """Write all records with their indices and metas to a safe file; missing folders are made.

        Raises:
            SafeFileError: The buffer contains objects without a safe form; the message says where.
        """
        with self._lock:
            write_contents(file_name, self._core.contents())

    def load_data(self, file_name: str) -> None:
        """Replace all records by the newest ``size`` records of a file written by ``save_data``.

        Raises:
            SafeFileError: the file is broken or foreign; the buffer stays as it was.
            SchemaError: an index of deduplicated rows refers to no frame; the buffer stays as it was.
        """
        contents = read_contents(file_name)
        with self._lock:
            self._core.restore(contents)


def _draw_window(serials: np.ndarray, length: int, sliced: bool, generator: np.random.Generator) -> np.ndarray:
    """``length`` consecutive serials of a group that has at least so many.

    Args:
        serials: Serials of the group, ascending.
        length: Length of the window.
        sliced: Whether windows begin at multiples of ``length``, the last one at ``len(serials) - length``, each drawn
            in proportion to the records it covers. Otherwise every start is equally likely.
        generator: Random generator.
    """
    total = len(serials)
    if sliced:
        start = min(int(generator.integers(total)) // length * length, total - length)
    else:
        start = int(generator.integers(total - length + 1))
    return serials[start : start + length]
