"""A dict out of several loaders of one value."""

from collections.abc import Mapping
from typing import Any

from ding.utils.loader.base import CAPTURE_EXCEPTIONS, ILoaderClass, Loader
from ding.utils.loader.exception import CompositeStructureError


class DictError(CompositeStructureError):
    """Loaders of a :func:`dict_` did not pass the value.

    Args:
        errors: the name of each of them, and its exception.
    """

    def __init__(self, errors: Mapping[str, Exception]) -> None:
        super().__init__(errors)
        self._errors = errors

    def __str__(self) -> str:
        return f"{self._errors!r} error(s) found in dict."

    @property
    def errors(self) -> Mapping[str, Exception]:
        """The name of each loader that did not pass the value, and its exception."""
        return self._errors


def dict_(**kwargs: object) -> ILoaderClass:
    """What each loader returns for the whole value, by name: ``dict_(text=str, size=prop("size"))``.

    Raises:
        DictError: the loader: some of them do not pass the value.
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
