"""Loaders of types, attributes and calls."""

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from ding.utils.loader.base import ILoaderClass, Loader


def is_type(type_: type) -> ILoaderClass:
    """The value, which must be an instance of a type.

    Raises:
        TypeError: ``type_`` is no type; the loader: the value is of another one.
    """
    if not isinstance(type_, type):
        raise TypeError(f"type_ must be a type, got {type_!r}")
    return Loader(type_)


def to_type(type_: Callable[[Any], Any]) -> ILoaderClass:
    """``type_(value)``."""
    return Loader(lambda v: type_(v))


def is_callable() -> ILoaderClass:
    """The value, which must be callable (else ``TypeError``)."""
    return Loader((callable, lambda v: TypeError(f"the value must be callable, got {v!r}")))


def prop(attr_name: str) -> ILoaderClass:
    """The attribute of the value with this name (``AttributeError`` where there is none)."""

    def load(value: object) -> object:
        try:
            return getattr(value, attr_name)
        except AttributeError as error:
            raise AttributeError(f"attribute {attr_name!r} expected but not found") from error

    return Loader(load)


def method(method_name: str) -> ILoaderClass:
    """The method of the value with this name (``TypeError`` where there is none)."""

    def refuse(value: object) -> NoReturn:
        raise TypeError(f"type {type(value).__name__!r} not support function {method_name!r}")

    return prop(method_name) >> is_callable() | refuse


def fcall(*args: Any, **kwargs: Any) -> ILoaderClass:
    """What the value, a function, returns for these arguments."""
    return Loader(lambda v: v(*args, **kwargs))


def fpartial(*args: Any, **kwargs: Any) -> ILoaderClass:
    """The value, a function, with these arguments bound."""
    return Loader(lambda v: partial(v, *args, **kwargs))
