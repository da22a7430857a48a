"""Answers: the shape of a body, and the exception that turns into one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ding.interaction.messages import AnswerBody, dumps

if TYPE_CHECKING:
    from flask import Response


def _response(body: AnswerBody) -> Response:
    import flask

    return flask.Response(dumps(body), mimetype="application/json")


def success_response(data: object = None, message: str | None = None) -> Response:
    """A Flask response with ``success`` true and code 0."""
    return _response(AnswerBody(True, 0, message or "", data))


def failure_response(code: int | None = None, message: str | None = None, data: object = None) -> Response:
    """A Flask response with ``success`` false and an error code (default 1). Its HTTP status is up to the view."""
    return _response(AnswerBody(False, 1 if code is None else int(code), message or "", data))


class ResponsibleException(Exception):
    """Raised in a handler to answer with an error."""

    def __init__(self, code: int = 1, message: str | None = None, data: object = None, status_code: int = 400) -> None:
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
