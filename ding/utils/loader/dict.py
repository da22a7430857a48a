"""Build a dict from several loaders of one value."""

from collections.abc import Mapping
from typing import Any

from ding.utils.loader.base import CAPTURE_EXCEPTIONS, ILoaderClass, Loader
from ding.utils.loader.exception import CompositeStructureError


class DictError(CompositeStructureError):
    """Loaders of a :func:`dict_` rejected the value.

    Args:
        errors: Name and exception of each such loader.
    """

    def __init__(self, errors: Mapping[str, Exception]) -> None:
        super().__init__(errors)
        self._errors = errors

    def __str__(self) -> str:
        return f"{self._errors!r} error(s) found in dict."

    @property
    def errors(self) -> Mapping[str, Exception]:
        """Name and exception of each loader that rejected the value."""
        return self._errors


def dict_(**kwargs: object) -> ILoaderClass:
    """Apply several loaders to the whole value, and return their results by name: ``dict_(text=str,
    size=prop("size"))``.

    Raises:
        DictError: On loading: some loaders reject the value.
    """
    loaders = {name: Loader(loader) for name, loader in kwargs.items()}

    def load(value: object) -> dict[str, Any]:
        loaded, errors = {}, {}
        for name, loader in loaders.items():
            try:
                loaded[name] = loader(value)
            except CAPTURE_EXCEPTIONS as error:
                errors[name] = error
        if errors:
            raise DictError(errors)
        return loaded

    return Loader(load)
