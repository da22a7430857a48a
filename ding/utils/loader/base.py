"""The loader class, its operators, and the conversion of other values to loaders."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

# Exceptions that count as "the value does not pass"; others, such as an interrupt, propagate.
CAPTURE_EXCEPTIONS = (Exception,)


class ILoaderClass(ABC):
    """Return a value, possibly converted, or raise. Subclasses implement ``_load``.

    ``a & b`` runs ``a``, drops its result, and returns ``b(value)``. ``a | b`` returns ``a(value)``, or ``b(value)`` if
    that raises. ``a >> b`` returns ``b(a(value))``. Either side may be anything that :func:`Loader` accepts.
    """

    @abstractmethod
    def _load(self, value: object) -> object:
        """Return the loaded value.

        Raises:
            Exception: The value does not pass.
        """

    def load(self, value: object) -> object:
        """Return the loaded value; same as calling the loader.

        Raises:
            Exception: The value does not pass; the type depends on the loader.
        """
        return self._load(value)

    def check(self, value: object) -> bool:
        """Return whether the value passes: False where loading it raises an ``Exception``."""
        try:
            self._load(value)
        except CAPTURE_EXCEPTIONS:
            return False
        return True

    def __call__(self, value: object) -> Any:
        return self._load(value)

    def __and__(self, other: object) -> "ILoaderClass":
        return _both(self, Loader(other))

    def __rand__(self, other: object) -> "ILoaderClass":
        return _both(Loader(other), self)

    def __or__(self, other: object) -> "ILoaderClass":
        return _either(self, Loader(other))

    def __ror__(self, other: object) -> "ILoaderClass":
        return _either(Loader(other), self)

    def __rshift__(self, other: object) -> "ILoaderClass":
        return _chain(self, Loader(other))

    def __rrshift__(self, other: object) -> "ILoaderClass":
        return _chain(Loader(other), self)


class _FunctionLoader(ILoaderClass):
    """A loader whose result is that of a function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def _load(self, value: object) -> object:
        return self._function(value)


def Loader(value: object) -> ILoaderClass:
    """Convert a value to a loader.

    - a loader: itself;
    - ``(predicate, exception)`` or ``(predicate, load, exception)``: where ``predicate(v)`` holds, ``v`` or
      ``load(v)``, else the exception: an exception, a function of ``v`` that returns one, or the text of a
      ``ValueError``;
    - a type: ``v``, which must be an instance (else ``TypeError``; a bool is an int);
    - any other callable: its result for ``v``;
    - ``True``: ``v``; ``False``: a ``ValueError`` for every ``v``; ``None``: ``v`` must be None (else ``TypeError``);
    - anything else: this constant.

    Raises:
        ValueError: The tuple has another length.
    """
    if isinstance(value, ILoaderClass):
        return value
    if isinstance(value, tuple):
        return _from_tuple(value)
    if isinstance(value, type):
        return _instance_of(value)
    if callable(value):
        return _FunctionLoader(value)
    if isinstance(value, bool):
        return _FunctionLoader(lambda v: v) if value else _from_tuple((lambda v: False, "assertion false"))
    if value is None:
        return _from_tuple((lambda v: v is None, lambda v: _mismatch("none", v)))
    return _FunctionLoader(lambda v: value)


def _mismatch(expected: str, value: object) -> TypeError:
    return TypeError(f"type not match, {expected} expected but {type(value).__name__!r} found")


def _instance_of(type_: type) -> ILoaderClass:
    return _from_tuple((lambda v: isinstance(v, type_), lambda v: _mismatch(repr(type_.__name__), v)))


def _from_tuple(parts: tuple[Any, ...]) -> ILoaderClass:
    if len(parts) not in {2, 3}:
        raise ValueError(f"a loader is made of (predicate, exception) or (predicate, load, exception), got {parts!r}")
    predicate, exception = parts[0], parts[-1]
    convert = parts[1] if len(parts) == 3 else None

    def load(value: object) -> object:
        error_of = _exception_function(exception)
        if not predicate(value):
            raise error_of(value)
        return value if convert is None else convert(value)

    return _FunctionLoader(load)


def _exception_function(exception: object) -> Callable[[Any], BaseException]:
    """Return the function that returns the exception for a value."""
    if callable(exception):
        return exception
    if isinstance(exception, BaseException):
        return lambda v: exception
    if isinstance(exception, str):
        return lambda v: ValueError(exception)
    found = type(exception).__name__
    raise TypeError(f"Unknown type of exception, func, exception or str expected but {found!r} found.")


def _both(first: ILoaderClass, second: ILoaderClass) -> ILoaderClass:
    def load(value: object) -> object:
        first(value)
        return second(value)

    return _FunctionLoader(load)


def _either(first: ILoaderClass, second: ILoaderClass) -> ILoaderClass:
    def load(value: object) -> object:
        try:
            return first(value)
        except CAPTURE_EXCEPTIONS:
            return second(value)

    return _FunctionLoader(load)


def _chain(first: ILoaderClass, second: ILoaderClass) -> ILoaderClass:
    return _FunctionLoader(lambda value: second(first(value)))
