"""Loaders of types, attributes and calls."""

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from ding.utils.loader.base import ILoaderClass, Loader


def is_type(type_: type) -> ILoaderClass:
    """Check that the value is an instance of a type.

    Raises:
        TypeError: ``type_`` is not a type; on loading: the value has another type.
    """
    if not isinstance(type_, type):
        raise TypeError(f"type_ must be a type, got {type_!r}")
    return Loader(type_)


def to_type(type_: Callable[[Any], Any]) -> ILoaderClass:
    """``type_(value)``."""
    return Loader(lambda v: type_(v))


def is_callable() -> ILoaderClass:
    """Check that the value is callable (else ``TypeError``)."""
    return Loader((callable, lambda v: TypeError(f"the value must be callable, got {v!r}")))


def prop(attr_name: str) -> ILoaderClass:
    """Get an attribute of the value (``AttributeError`` if there is none)."""

    def load(value: object) -> object:
        try:
            return getattr(value, attr_name)
        except AttributeError as error:
            raise AttributeError(f"attribute {attr_name!r} expected but not found") from error

    return Loader(load)


def method(method_name: str) -> ILoaderClass:
    """Get a method of the value (``TypeError`` if there is none)."""

    def refuse(value: object) -> NoReturn:
        raise TypeError(f"type {type(value).__name__!r} not support function {method_name!r}")

    return prop(method_name) >> is_callable() | refuse


def fcall(*args: Any, **kwargs: Any) -> ILoaderClass:
    """Call the value, a function, with these arguments."""
    return Loader(lambda v: v(*args, **kwargs))


def fpartial(*args: Any, **kwargs: Any) -> ILoaderClass:
    """Bind these arguments to the value, a function."""
    return Loader(lambda v: partial(v, *args, **kwargs))
