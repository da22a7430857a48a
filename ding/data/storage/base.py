"""What a replay buffer asks of the place where its rows are."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ding.data.transition_batch import TransitionBatch


class RowStorage(ABC):
    """``capacity`` slots for rows, addressed by position.

    The caller runs the ring: it says where rows go and which positions hold something. Not thread-safe.
    """

    capacity: int
    # Whether rows are written as columns (and read as a TransitionBatch) or as a list.
    columnar: bool

    @abstractmethod
    def write(self, start: int, rows: Any, count: int) -> None:
        """Copy ``count`` (at most ``capacity``) rows to ``start, start + 1, ...`` modulo the capacity.

        Args:
            start: position of the first row.
            rows: nested dict of columns with ``count`` rows each, or a list of ``count`` objects.
            count: number of rows.

        Raises:
            SchemaError: the rows do not fit to what is stored; nothing was changed.
            OSError: the rows lie on a disk without space for more; nothing was changed.
        """

    @abstractmethod
    def read(self, positions: np.ndarray) -> TransitionBatch | list[Any]:
        """Copies of the rows at int64 ``[K]`` positions: a ``TransitionBatch``, or a list of objects."""

    def copied(self, positions: np.ndarray) -> object:
        """Return the rows of :meth:`read` as plain data for a state: columns, a list, or deduplicated rows."""
        return self.read(positions)

    def saved(self, positions: np.ndarray) -> TransitionBatch | list[Any] | dict[str, Any]:
        """Return the rows of :meth:`read` as a file is to hold them, see :func:`ding.data.safe_file.write_tree`.

        Arrays that may be larger than memory stand in it as what reads them a part at a time: it has to be written
        before the storage changes.
        """
        return self.read(positions)

    def check(self, columns: dict[str, Any], count: int) -> None:  # noqa: B027 (objects may have any values)
        """Raise what :meth:`write` raises for the values in columns of ``count`` rows; fields may be left out.

        Raises:
            SchemaError: values do not fit to what is stored.
        """

    @abstractmethod
    def erase(self, positions: np.ndarray) -> None:
        """Forget the rows at these positions: objects that were held are released."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes reserved for rows; objects count as their references."""

    def close(self) -> None:  # noqa: B027 (most storages hold nothing)
        """Give back what the storage holds outside of memory."""
