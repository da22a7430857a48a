"""Routes of a service with handlers and checks, answers, and the exception for error answers.

``wsgi.py`` builds a Flask application from them. The order of the checks is fixed: run token, route, the checks of the
route (shutdown, channel, connection token), and only then the body.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterable
from enum import IntEnum, unique
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ding.interaction.base.common import random_token
from ding.interaction.base.token import same_token
from ding.interaction.config import MAX_BODY_BYTES, MAX_CONTROL_BYTES
from ding.interaction.errors import SchemaError, WireError
from ding.interaction.exception.response import MasterErrorCode, ProtocolErrorCode, SlaveErrorCode
from ding.interaction.messages import AnswerBody, MessageT, convert, dumps, loads
from ding.utils.credentials import WorkerName

if TYPE_CHECKING:
    from flask import Request, Response

_CHANNEL = re.compile(r"-?[0-9]{1,19}")


@unique
class CommonErrorCode(IntEnum):
    """Error codes of answers without a specific code."""

    SUCCESS = 0
    COMMON_FAILURE = 1


def answer_response(body: AnswerBody) -> Response:
    """Return an answer as a Flask response with status 200."""
    import flask

    return flask.Response(dumps(body), mimetype="application/json")


def success_response(data: object = None, message: str | None = None) -> Response:
    """Return a Flask response with ``success`` true and code 0."""
    return answer_response(AnswerBody(True, CommonErrorCode.SUCCESS, message or "", data))


def failure_response(code: int | None = None, message: str | None = None, data: object = None) -> Response:
    """Return a Flask response with ``success`` false and an error code (default 1); the view sets the HTTP status."""
    number = CommonErrorCode.COMMON_FAILURE if code is None else int(code)
    return answer_response(AnswerBody(False, number, message or "", data))


def flask_response(
    success: bool, data: object = None, message: str | None = None, code: int | None = None, **kwargs: Any
) -> Response:
    """Return a Flask response with the four fields of the protocol.

    Args:
        success: whether the request succeeded.
        data: any JSON value.
        message: a sentence; ``"Success."`` or ``"Failed."`` when not given.
        code: the error code of a failure, 1 when 0 or not given; a success always has 0.
        kwargs: ignored, as in DI-engine.
    """
    if success:
        return success_response(data, message or "Success.")
    return failure_response(code or CommonErrorCode.COMMON_FAILURE, message or "Failed.", data)


class ResponsibleException(Exception):
    """Raised in a handler to answer with an error."""

    def __init__(self, code: int = 1, message: str | None = None, data: object = None, status_code: int = 400) -> None:
        super().__init__(message or "")
        self.code = int(code)
        self.message = message or ""
        self.data = data
        self.status_code = int(status_code)

    def get_response(self) -> tuple[Response, int]:
        """Return the Flask answer: response and HTTP status."""
        return failure_response(self.code, self.message, self.data), self.status_code


def responsible(
    classes: Iterable[type[ResponsibleException]] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a Flask view so that the given exceptions (default: any ``ResponsibleException``) become its answer."""
    caught = (ResponsibleException,) if classes is None else tuple(classes)

    def decorate(view: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(view)
        def call(*args: Any, **kwargs: Any) -> object:
            try:
                return view(*args, **kwargs)
            except caught as error:
                return error.get_response()

        return call

    return decorate


class Guard(Protocol):
    """Checks the sender of a request."""

    def check(self, authorization: str | None) -> WorkerName | None:
        """Check the ``Authorization`` header; return the worker of a worker token, None for one that authorises
        everything.

        Raises:
            ResponsibleException: The token is missing (401) or wrong (403).
        """


class Call:
    """One request, as passed to a handler.

    Args:
        request: Flask's request.
        max_body_bytes: Maximum size of the body.
        worker: Worker whose token the request carries; None for a token that authorises everything.
    """

    def __init__(self, request: Request, max_body_bytes: int, worker: WorkerName | None = None) -> None:
        self.worker = worker
        self._request = request
        request.max_content_length = self._max_body_bytes = max_body_bytes
        self._check_size(request.content_length or 0)

    def header(self, name: str) -> str | None:
        """Return the value of a header, or None."""
        return self._request.headers.get(name)

    @property
    def token(self) -> str:
        """Token of the connection that the request belongs to; empty without one."""
        return self.header("Token") or ""

    def body(self, kind: type[MessageT], code: int = ProtocolErrorCode.BODY_INVALID) -> MessageT:
        """Return the decoded body.

        Raises:
            ResponsibleException: The body is not JSON or not of this kind (400, with ``code``), or too large (413).
        """
        body = self._request.get_data(cache=False)
        self._check_size(len(body))
        try:
            return convert(loads(body or b"{}"), kind)
        except (WireError, SchemaError) as error:
            raise ResponsibleException(code, str(error), status_code=400) from error

    def _check_size(self, num_bytes: int) -> None:
        if num_bytes > self._max_body_bytes:
            text = f"The body is larger than {self._max_body_bytes} bytes."
            raise ResponsibleException(ProtocolErrorCode.BODY_TOO_LARGE, text, status_code=413)


class Answer(NamedTuple):
    """Result of a handler: a sentence and data."""

    message: str = ""
    data: Any = None


Handler = Callable[[Call], Answer]
Check = Callable[[Call], object]
"""Check of the head of a request; raises ``ResponsibleException`` to refuse it."""


class Route(NamedTuple):
    """Handler and checks of one method of one path."""

    handler: Handler
    check: Check | None
    large: bool
    for_workers: bool


class Endpoint:
    """Routes with their handlers, protected by a guard. Handlers run concurrently in several threads.

    Arguments:
        guard: checks the run token.
        max_body_bytes: Maximum body size. Only the routes of tasks and results accept more than ``MAX_CONTROL_BYTES``.
    """

    def __init__(self, guard: Guard, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.guard = guard
        self.max_body_bytes = max_body_bytes
        self.routes: dict[tuple[str, str], Route] = {}

    def add(
        self,
        method: str,
        path: str,
        handler: Handler,
        check: Check | None = None,
        *,
        large: bool = False,
        for_workers: bool = False,
    ) -> None:
        """Add a route, before the endpoint is served.

        Args:
            method: HTTP method in capitals.
            path: path that begins with a slash.
            handler: answers the request.
            check: Called before the handler and before the body is read, such as one of :class:`Checks`.
            large: whether it reads bodies of up to ``max_body_bytes``. Only peers may reach such a route.
            for_workers: Whether a worker token authorises it; the handler checks ``Call.worker``.
        """
        self.routes[(method, path)] = Route(handler, check, large, for_workers)

    def limit_of(self, route: Route) -> int:
        """Return the maximum body size of a route in bytes."""
        return self.max_body_bytes if route.large else min(self.max_body_bytes, MAX_CONTROL_BYTES)


class Checks:
    """Checks of requests, which raise ``ResponsibleException`` with the error code of a master (or a slave).

    Arguments:
        codes: Error codes of this side.
        channel: Channel that requests must name.
    """

    def __init__(self, codes: type[MasterErrorCode] | type[SlaveErrorCode], channel: int) -> None:
        self._codes = codes
        self._missing = "NOT_GIVEN" if codes is MasterErrorCode else "NOT_FOUND"
        self._peer = "SLAVE" if codes is MasterErrorCode else "MASTER"
        self._channel = channel
        #: Token of requests that only the service itself may send.
        self.self_token = random_token()
        self.shutting_down = threading.Event()

    def alive(self, _call: Call | None = None) -> None:
        """Check that the service is not shutting down."""
        if self.shutting_down.is_set():
            raise self._error("SYSTEM_SHUTTING_DOWN", "The service is shutting down.", 401)

    def peer(self, call: Call) -> None:
        """Check that the request names this channel and carries a connection token."""
        self.channel(call)
        if not call.token:
            raise self._error(f"{self._peer}_TOKEN_{self._missing}", "The request has no connection token.", 400)

    def channel(self, call: Call) -> None:
        """Check that the service is alive and the request names this channel."""
        self.alive()
        text = call.header("Channel")
        if text is None:
            raise self._error(f"CHANNEL_{self._missing}", "The request has no channel.", 400)
        if _CHANNEL.fullmatch(text) is None:
            raise self._error("CHANNEL_INVALID", "The channel is no integer.", 403)
        if int(text) != self._channel:
            raise self._error("CHANNEL_INVALID", "The channel is another one.", 403)

    def own(self, call: Call) -> None:
        """Check that the service is alive and sent the request itself."""
        self.alive()
        if not call.token:
            raise self._error(f"SELF_TOKEN_{self._missing}", "The request has no token.", 400)
        if not same_token(call.token, self.self_token):
            raise self._error("SELF_TOKEN_INVALID", "The token is wrong.", 403)

    def _error(self, name: str, text: str, status: int) -> ResponsibleException:
        return ResponsibleException(self._codes[name], text, status_code=status)
