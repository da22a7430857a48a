"""Loaders of dicts and other mappings."""

from collections.abc import Callable
from typing import Any

from ding.utils.loader.base import CAPTURE_EXCEPTIONS, ILoaderClass, Loader
from ding.utils.loader.exception import CompositeStructureError
from ding.utils.loader.types import method
from ding.utils.loader.utils import raw


class MappingError(CompositeStructureError):
    """Keys or values of a mapping did not pass.

    Args:
        key_errors: Key and exception of each key that did not pass.
        value_errors: Key and exception of each value that did not pass.
    """

    def __init__(self, key_errors: list[tuple[Any, Exception]], value_errors: list[tuple[Any, Exception]]) -> None:
        super().__init__(key_errors, value_errors)
        self._key_errors = key_errors
        self._value_errors = value_errors

    def __str__(self) -> str:
        return f"{self._key_errors!r} error(s) found in keys, {self._value_errors!r} in values of mapping."

    def key_errors(self) -> list[tuple[Any, Exception]]:
        """The key and the exception of each key that did not pass."""
        return self._key_errors

    def value_errors(self) -> list[tuple[Any, Exception]]:
        """The key and the exception of each value that did not pass."""
        return self._value_errors

    def errors(self) -> list[tuple[Any, Exception]]:
        """Errors of the keys, then of the values."""
        return self._key_errors + self._value_errors


def mapping(key_loader: object, value_loader: object, type_back: bool = True) -> ILoaderClass:
    """Load every key and every value.

    Args:
        key_loader: Loader of a key.
        value_loader: Loader of a value.
        type_back: Whether the result has the type of the value; otherwise it is a dict.

    Raises:
        MappingError: On loading: keys or values do not pass.
        TypeError: On loading: the value is not a mapping.
    """
    load_key, load_value = Loader(key_loader), Loader(value_loader)

    def load(value: Any) -> object:
        loaded, key_errors, value_errors = {}, [], []
        for key, item_value in value.items():
            loaded_key = loaded_value = None
            try:
                loaded_key = load_key(key)
            except CAPTURE_EXCEPTIONS as error:
                key_errors.append((key, error))
            try:
                loaded_value = load_value(item_value)
            except CAPTURE_EXCEPTIONS as error:
                value_errors.append((key, error))
            loaded[loaded_key] = loaded_value
        if key_errors or value_errors:
            raise MappingError(key_errors, value_errors)
        return type(value)(loaded) if type_back else loaded

    return method("items") & load


def mpfilter(check: Callable[[Any, Any], object], type_back: bool = True) -> ILoaderClass:
    """Keep the entries for which ``check(key, value)`` returns true.

    Args:
        check: The function.
        type_back: Whether the result has the type of the value; otherwise it is a dict.
    """

    def load(value: Any) -> object:
        kept = {key: item_value for key, item_value in value.items() if check(key, item_value)}
        return type(value)(kept) if type_back else kept

    return method("items") & load


def mpkeys() -> ILoaderClass:
    """Load the keys of the value as a set."""
    return method("keys") >> (lambda keys: set(keys()))


def mpvalues() -> ILoaderClass:
    """Load the values of the value as a set (``TypeError`` if one is not hashable)."""
    return method("values") >> (lambda values: set(values()))


def mpitems() -> ILoaderClass:
    """Load the ``(key, value)`` pairs of the value as a set (``TypeError`` if a value is not hashable)."""
    return method("items") >> (lambda items: set(items()))


def item(key: object) -> ILoaderClass:
    """Look up a key in the value.

    Raises:
        KeyError: On loading: the key is missing.
        TypeError: On loading: the value does not support ``[]``.
        AttributeError: On loading: the value has no ``keys()``, as a list.
    """

    def load(value: Any) -> object:
        if key not in value.keys():  # noqa: SIM118 - a value without keys() has indices, not keys
            raise KeyError(f"key {key!r} not found")
        return value[key]

    return method("__getitem__") & load


def item_or(key: object, default: Any) -> ILoaderClass:
    """Look up a key in the value, or return a default (``TypeError`` if the value does not support ``[]``)."""
    return method("__getitem__") & (item(key) | raw(default))
