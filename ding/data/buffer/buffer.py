"""The buffer interface, and the middleware chain of its actions.

A middleware is any callable ``middleware(action, chain, *args, **kwargs)``. ``action`` is the name of the called
method; ``chain(*args, **kwargs)`` calls the next middleware and finally the method itself. A middleware may change the
arguments, transform the result, and call the chain any number of times. The first one added by ``use`` is the
outermost.
"""

import copy
import functools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard, TypeVar

import numpy as np

from ding.utils.lock_helper import OwnLocks

Metas: TypeAlias = "Mapping[str, Any] | Sequence[dict[str, Any] | None] | None"
"""Metas of K records: a dict of columns, or K dicts; ``None`` stands for none."""
Middleware = Callable[..., Any]
M = TypeVar("M", bound=Middleware)
F = TypeVar("F", bound=Callable[..., Any])
B = TypeVar("B", bound="Buffer")


@dataclass
class BufferedData:
    """A record of a buffer.

    Args:
        data: Pushed object.
        index: Unique name of the record, 32 hex digits. ``None`` only in records that pad a group.
        meta: Metadata with arbitrary keys.
    """

    data: Any
    index: Any
    meta: Any


def apply_middleware(action: str) -> Callable[[F], F]:
    """Decorate a method of a :class:`Buffer` to run through the middleware chain, under the lock of the buffer."""

    def decorate(method: F) -> F:
        @functools.wraps(method)
        def run(buffer: "Buffer", *args: Any, **kwargs: Any) -> object:
            with buffer._lock:
                chain: Callable[..., Any] = functools.partial(method, buffer)
                for middleware in reversed(buffer._middleware):
                    chain = functools.partial(middleware, action, chain)
                return chain(*args, **kwargs)

        return run  # type: ignore[return-value]

    return decorate


def batch_aware(middleware: M) -> M:
    """Mark a middleware that supports actions on whole batches.

    These are ``extend(rows, meta)`` and ``batch_update(indices, datas, metas)``, and samples that come as a
    :class:`~ding.data.buffer.RecordBatch`. A buffer with an unmarked middleware processes record by record: the
    middleware then receives only ``push``, ``update`` and lists of records.
    """
    middleware.handles_batches = True  # type: ignore[attr-defined]
    return middleware


class Buffer(OwnLocks, ABC):
    """A collection of records of limited size, with middleware around its actions.

    Args:
        size: Maximum number of records.
    """

    _own = ("_lock",)

    def __init__(self, size: int) -> None:
        self.size = size
        self._middleware: list[Middleware] = []
        self._make_own()

    def _make_own(self) -> None:
        self._lock = threading.RLock()

    @abstractmethod
    def push(self, data: object, meta: dict[str, Any] | None = None) -> BufferedData:
        """Store ``data``, of any type, as one record, and return the record."""

    @abstractmethod
    def sample(
        self,
        size: int | None = None,
        indices: Sequence[str] | None = None,
        replace: bool = False,
        sample_range: slice | None = None,
        ignore_insufficient: bool = False,
        groupby: str | None = None,
        unroll_len: int | None = None,
    ) -> Any:
        """Draw ``size`` records (or groups of records), or look ``indices`` up."""

    @abstractmethod
    def update(self, index: str, data: object = None, meta: dict[str, Any] | None = None) -> bool:
        """Replace the data and/or the meta of a record; return whether the index exists."""

    @abstractmethod
    def delete(self, index: "str | Iterable[str]") -> None:
        """Remove one or several records; unknown indices are ignored."""

    @abstractmethod
    def save_data(self, file_name: str) -> None:
        """Write the records to a file."""

    @abstractmethod
    def load_data(self, file_name: str) -> None:
        """Replace the records by those of a file that ``save_data`` wrote."""

    @abstractmethod
    def count(self) -> int:
        """Number of records."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all records."""

    @abstractmethod
    def get(self, idx: int) -> BufferedData:
        """Return the record at a place, the oldest one being 0."""

    def batch_update(
        self, indices: Sequence[str], datas: Sequence[Any] | None = None, metas: "Metas" = None
    ) -> list[bool] | np.ndarray:
        """``update`` for several records.

        Args:
            indices: K indices.
            datas: K data, or ``None`` to keep them.
            metas: K metas (each replaces the one of its record, ``None`` keeps it), or a dict of columns of K values,
                which sets these keys and keeps the others.

        Returns:
            For each of the K indices, whether it exists.
        """
        count = len(indices)
        rows = meta_rows(metas, count) if isinstance(metas, Mapping) else list(metas or [None] * count)
        known = []
        for place, index in enumerate(indices):
            meta = rows[place]
            if isinstance(metas, Mapping):
                meta = {**self._meta_of(index), **(meta or {})}
            known.append(self.update(index, None if datas is None else datas[place], meta))
        return known

    def _meta_of(self, index: str) -> dict[str, Any]:
        for place in range(self.count()):
            record = self.get(place)
            if record.index == index:
                entries: dict[str, Any] = record.meta
                return entries
        return {}

    def use(self: B, func: Middleware) -> B:
        """Add a middleware inside the existing ones; return the buffer."""
        self._middleware.append(func)
        return self

    @property
    def middleware(self) -> tuple[Middleware, ...]:
        """The middleware, outermost first."""
        return tuple(self._middleware)

    def view(self: B) -> B:
        """Return a buffer over the same records, without middleware."""
        return copy.copy(self)

    def __copy__(self: B) -> B:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._middleware = []
        return twin

    def __len__(self) -> int:
        return self.count()

    def __getitem__(self, idx: int) -> BufferedData:
        return self.get(idx)


def meta_rows(columns: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Return columns of meta values as ``count`` dicts. A value other than a list, array or tensor applies to every
    row.

    Raises:
        ValueError: A column has another length; the message names it.
    """
    spread = {key: spread_meta(key, value, count) for key, value in columns.items()}
    rows = zip(*map(plain_list, spread.values())) if spread else [()] * count
    return [dict(zip(spread, values)) for values in rows]


def is_column(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a meta value holds one value per row."""
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes, Mapping)) and getattr(value, "ndim", 1) > 0


def plain_list(values: Any) -> list[Any]:
    """Return a column of meta values as a list; numbers of arrays and tensors become plain Python numbers."""
    return values.tolist() if getattr(values, "ndim", 0) == 1 else list(values)


def spread_meta(key: str, value: object, count: int) -> Sequence[Any]:
    """Return one column of meta values of length ``count``; see :func:`meta_rows`."""
    if not is_column(value):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"meta {key!r} has {len(value)} values for {count} records")
    return value
