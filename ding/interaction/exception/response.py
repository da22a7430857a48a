"""The base of all errors that a peer answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from ding.interaction.errors import InteractionError
from ding.interaction.values import Response, ResponseValues, get_values_from_response


class ErrorWithResponse(Protocol):
    """An exception that carries an answer: ``HTTPError``, or that of another HTTP client, as ``requests``."""

    @property
    def response(self) -> Response | None:
        """The answer."""


class HTTPError(InteractionError):
    """An ``HttpEngine`` got an answer with a status of 400 or more."""

    def __init__(self, message: str = "", response: Response | None = None) -> None:
        super().__init__(message)
        self.response = response


def values_of(error: ErrorWithResponse | ResponseValues) -> ResponseValues:
    """The values of the answer behind an error.

    Raises:
        ValueError: the error carries no response, or one that is no answer of the protocol.
    """
    if isinstance(error, ResponseValues):
        return error
    if error.response is None:
        raise ValueError("an HTTPError without a response says nothing about the peer's answer")
    return get_values_from_response(error.response)


class ResponseException(InteractionError):
    """The peer answered with an error.

    Made from an exception that carries the response, or from the five values of the answer (``ResponseValues``).
    Subclasses that name a ``code`` are found by it; a class without one is the root of the codes of one side.
    """

    _by_code: ClassVar[dict[int, type[ResponseException]]] = {}

    def __init_subclass__(cls, code: int | None = None) -> None:
        if code is None:
            cls._by_code = {}
        else:
            cls._by_code[int(code)] = cls

    def __init__(self, error: ErrorWithResponse | ResponseValues) -> None:
        self._values = values_of(error)
        super().__init__(f"{self.message} (code {self.code}, status {self.status_code})")

    @property
    def status_code(self) -> int:
        """HTTP status."""
        return self._values.status_code

    @property
    def success(self) -> bool:
        """Always False in a well-formed error answer."""
        return self._values.success

    @property
    def code(self) -> int:
        """The number of the error, a value of one of the error enums."""
        return self._values.code

    @property
    def message(self) -> str:
        """One sentence."""
        return self._values.message

    @property
    def data(self) -> Mapping[str, Any]:
        """What the peer adds to the sentence; an empty dict when nothing."""
        return self._values.data or {}


def exception_of(error: ErrorWithResponse | ResponseValues, *sides: type[ResponseException]) -> ResponseException:
    """The exception for an error answer: the class of its code on the first side that knows it, or the first side."""
    values = values_of(error)
    found = (side._by_code.get(values.code) for side in sides)
    return next((cls for cls in found if cls is not None), sides[0])(values)
