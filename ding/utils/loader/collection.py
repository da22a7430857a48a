"""Loaders of lists, tuples, sets and other collections."""

from collections.abc import Callable
from typing import Any

from ding.utils.loader.base import CAPTURE_EXCEPTIONS, ILoaderClass, Loader
from ding.utils.loader.exception import CompositeStructureError
from ding.utils.loader.types import is_type, method


class CollectionError(CompositeStructureError):
    """Items of a collection did not pass.

    Args:
        errors: Index and exception of each such item.
    """

    def __init__(self, errors: list[tuple[int, Exception]]) -> None:
        super().__init__(errors)
        self._errors = errors

    def __str__(self) -> str:
        return f"{self._errors!r} error(s) found in collection."

    @property
    def errors(self) -> list[tuple[int, Exception]]:
        """Index and exception of each item that did not pass."""
        return self._errors


def collection(loader: object, type_back: bool = True) -> ILoaderClass:
    """Load every item of the value.

    Args:
        loader: Loader of an item.
        type_back: Whether the result has the type of the value; otherwise it is a list.

    Raises:
        CollectionError: On loading: items do not pass.
        TypeError: On loading: the value is not iterable.
    """
    load_item = Loader(loader)

    def load(value: Any) -> object:
        loaded, errors = [], []
        for index, item in enumerate(value):
            try:
                loaded.append(load_item(item))
            except CAPTURE_EXCEPTIONS as error:
                errors.append((index, error))
        if errors:
            raise CollectionError(errors)
        return type(value)(loaded) if type_back else loaded

    return method("__iter__") & load


def tuple_(*loaders: object) -> ILoaderClass:
    """Load a tuple with one item per loader; the error of the first item that does not pass is raised.

    Raises:
        TypeError: On loading: the value is not a tuple.
        ValueError: On loading: the value has another length.
    """
    load_items = [Loader(loader) for loader in loaders]

    def load(value: Any) -> tuple[Any, ...]:
        return tuple(load_item(item) for load_item, item in zip(load_items, value, strict=True))

    return is_type(tuple) & length_is(len(loaders)) & load


def length(min_length: int | None = None, max_length: int | None = None) -> ILoaderClass:
    """Check that the value has a length within these bounds; None means no bound.

    Raises:
        ValueError: On loading: the value is shorter or longer.
        TypeError: On loading: the value has no length.
    """

    def load(value: Any) -> object:
        if min_length is not None and len(value) < min_length:
            raise ValueError(f"a length of at least {min_length} expected but {len(value)} found")
        if max_length is not None and len(value) > max_length:
            raise ValueError(f"a length of at most {max_length} expected but {len(value)} found")
        return value

    return method("__len__") & load


def length_is(length_: int) -> ILoaderClass:
    """Check that the value has this length; errors as for :func:`length`."""
    return length(length_, length_)


def contains(content: object) -> ILoaderClass:
    """Check that the value contains an object (else ``ValueError``; ``TypeError`` if the value is not a container)."""
    return method("__contains__") & (lambda v: content in v, lambda v: ValueError(f"{content!r} not found in value"))


def cofilter(checker: Callable[[Any], object], type_back: bool = True) -> ILoaderClass:
    """Keep the items for which a function returns true.

    Args:
        checker: The function.
        type_back: Whether the result has the type of the value; otherwise it is a list.
    """

    def load(value: Any) -> object:
        kept = [item for item in value if checker(item)]
        return type(value)(kept) if type_back else kept

    return method("__iter__") & load


def tpselector(*indices: int) -> ILoaderClass:
    """Select the items of a tuple at these indices, as a tuple (``IndexError`` if there is none)."""
    return is_type(tuple) >> (lambda v: tuple(v[index] for index in indices))
