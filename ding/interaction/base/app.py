"""Answers: the shape of a body, and the exception that turns into one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ding.interaction.values import get_values_from_response
from ding.interaction.wire import dumps

if TYPE_CHECKING:
    from flask import Response

__all__ = [
    "ResponsibleException",
    "failure_response",
    "get_values_from_response",
    "payload",
    "responsible",
    "success_response",
]


def payload(success: bool, code: int, message: str | None, data: Any) -> dict[str, Any]:
    """The body of an answer."""
    return {"success": success, "code": int(code), "message": message or "", "data": data}


def _response(body: Mapping[str, Any]) -> Response:
    import flask

    return flask.Response(dumps(body), mimetype="application/json")


def success_response(data: Any = None, message: str | None = None) -> Response:
    """A Flask response with ``success`` true and code 0."""
    return _response(payload(True, 0, message, data))


def failure_response(code: int | None = None, message: str | None = None, data: Any = None) -> Response:
    """A Flask response with ``success`` false and an error code (default 1). Its HTTP status is up to the view."""
    return _response(payload(False, 1 if code is None else code, message, data))


class ResponsibleException(Exception):
    """Raised in a handler to answer with an error."""

    def __init__(self, code: int = 1, message: str | None = None, data: Any = None, status_code: int = 400) -> None:
        super().__init__(message or "")
        self.code = int(code)
        self.message = message or ""
        self.data = data
        self.status_code = int(status_code)

    def get_response(self) -> tuple[Response, int]:
        """The Flask answer: response and HTTP status."""
        return failure_response(self.code, self.message, self.data), self.status_code


def responsible(
    classes: Iterable[type[ResponsibleException]] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a Flask view so that the given exceptions (default: any ``ResponsibleException``) become its answer."""
    caught = (ResponsibleException,) if classes is None else tuple(classes)

    def decorate(view: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(view)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return view(*args, **kwargs)
            except caught as error:
                return error.get_response()

        return call

    return decorate
