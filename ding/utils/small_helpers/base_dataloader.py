"""The interface of a data loader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from ding.utils.data.collate_fn import default_collate


class IDataLoader(ABC):
    """An endless iterator of batches.

    Subclasses set ``_batch_size`` and define :meth:`_get_data`; ``_collate_fn`` turns its result into a batch.
    """

    _batch_size = 1
    _collate_fn: Callable[..., object] = staticmethod(default_collate)

    def __next__(self, batch_size: int | None = None) -> object:
        return self._collate_fn(self._get_data(self._batch_size if batch_size is None else batch_size))

    def __iter__(self) -> IDataLoader:
        return self

    @abstractmethod
    def _get_data(self, batch_size: int | None = None) -> list[object]:
        """Return the samples of a batch."""

    def close(self) -> None:  # noqa: B027 - most loaders hold nothing
        """Release the resources of the loader; none by default."""


def example_get_data_fn() -> None:
    """Example of a function that returns one sample."""
