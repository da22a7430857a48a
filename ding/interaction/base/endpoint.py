"""What a service answers, apart from how requests come in: bodies, the exception that turns into one, checks, routes.

A transport calls ``Endpoint.handle`` with method, path, headers and a function that reads the body. The order of the
checks is fixed: run token, route, then the handler (shutdown, channel, connection token), and only then the body.
"""

from __future__ import annotations

import functools
import logging
import re
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ding.interaction.base.common import random_token
from ding.interaction.base.token import same_token
from ding.interaction.config import MAX_BODY_BYTES, MAX_CONTROL_BYTES
from ding.interaction.errors import SchemaError, WireError
from ding.interaction.exception.response import MasterErrorCode, ProtocolErrorCode, SlaveErrorCode
from ding.interaction.messages import AnswerBody, MessageT, convert, dumps, loads
from ding.utils.credentials import WorkerName

if TYPE_CHECKING:
    from flask import Response


log = logging.getLogger(__name__)

_CHANNEL = re.compile(r"-?[0-9]{1,19}")


def _response(body: AnswerBody) -> Response:
    import flask

    return flask.Response(dumps(body), mimetype="application/json")


# For Flask views of scripts; the services here answer without Flask.


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


class Guard(Protocol):
    """Checks who sent a request."""

    def check(self, authorization: str | None) -> WorkerName | None:
        """Check the ``Authorization`` header; returns the worker whose token it is, None for one that opens everything.

        Raises:
            ResponsibleException: no token (401) or a wrong one (403).
        """

    def knows(self, authorization: str | None) -> bool:
        """Whether `check` raises nothing."""


class Headers(Protocol):
    """The headers of a request."""

    def get(self, key: str, /) -> str | None:
        """The value of a header, or None."""
        ...


class Call:
    """One request, as a handler sees it."""

    def __init__(
        self, headers: Headers, read_body: Callable[[], bytes], max_body_bytes: int, worker: WorkerName | None = None
    ) -> None:
        self._headers = headers
        #: The worker whose token the request has; None for one that opens everything.
        self.worker = worker
        self._read_body = read_body
        self._max_body_bytes = max_body_bytes

    def header(self, name: str) -> str | None:
        """The value of a header, or None."""
        return self._headers.get(name)

    def body(self, kind: type[MessageT], code: int = ProtocolErrorCode.BODY_INVALID) -> MessageT:
        """The decoded body.

        Raises:
            ResponsibleException: it is no JSON, or none of this kind (400, with ``code``), or too large (413).
        """
        announced = self.header("Content-Length")
        if announced is not None and announced.isdigit():
            self._check_size(int(announced))
        body = self._read_body()
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
    """What a handler returns: a sentence and data."""

    message: str = ""
    data: Any = None


Handler = Callable[[Call], Answer]


class Endpoint:
    """Routes with their handlers, and the guard before them. Handlers run in several threads at once.

    Arguments:
        guard: checks the run token.
        max_body_bytes: the largest body that is read. Only the routes of tasks and their results read one of more than
            ``MAX_CONTROL_BYTES``.
    """

    def __init__(self, guard: Guard, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.guard = guard
        self.max_body_bytes = max_body_bytes
        self.routes: dict[tuple[str, str], Handler] = {}
        self._large: set[Handler] = set()
        self._for_workers: set[Handler] = set()

    def add(self, method: str, path: str, handler: Handler, large: bool = False, *, for_workers: bool = False) -> None:
        """Add a route.

        Args:
            large: it reads bodies of up to ``max_body_bytes``. Only peers may reach such a one.
            for_workers: a worker token opens it; the handler looks at ``Call.worker``.
        """
        self.routes[(method, path)] = handler
        if large:
            self._large.add(handler)
        if for_workers:
            self._for_workers.add(handler)

    def handle(self, method: str, path: str, headers: Headers, read_body: Callable[[], bytes]) -> tuple[int, bytes]:
        """The HTTP status and the body (JSON) of the answer. Never raises for a request, however malformed."""
        try:
            status, answer = self._answer(method, path, headers, read_body)
            return status, dumps(answer)
        except Exception:
            log.exception("the handler of %s %s failed", method, path[:80])
            text = "A hook of the service failed; its log has the traceback."
            return 500, dumps(AnswerBody(False, ProtocolErrorCode.INTERNAL_ERROR, text))

    def _answer(
        self, method: str, path: str, headers: Headers, read_body: Callable[[], bytes]
    ) -> tuple[int, AnswerBody]:
        try:
            worker = self.guard.check(headers.get("Authorization"))
            handler = self._find(method, path)
            if worker is not None and handler not in self._for_workers:
                text = f"The token of the {worker.role} {worker.name!r} does not open this."
                raise ResponsibleException(ProtocolErrorCode.RUN_TOKEN_INVALID, text, status_code=403)
            most = self.max_body_bytes if handler in self._large else min(self.max_body_bytes, MAX_CONTROL_BYTES)
            answer = handler(Call(headers, read_body, most, worker))
        except ResponsibleException as error:
            return error.status_code, AnswerBody(False, error.code, error.message, error.data)
        return 200, AnswerBody(True, 0, answer.message, answer.data)

    def _find(self, method: str, path: str) -> Handler:
        handler = self.routes.get((method, path))
        if handler is not None:
            return handler
        if any(known == path for _, known in self.routes):
            raise ResponsibleException(
                ProtocolErrorCode.METHOD_NOT_ALLOWED, "The path does not know this method.", status_code=405
            )
        raise ResponsibleException(ProtocolErrorCode.ROUTE_NOT_FOUND, "There is no such path.", status_code=404)


class Checks:
    """Raise ``ResponsibleException`` with the code that a master (or a slave) gives to the error.

    Arguments:
        codes: the codes of the own side.
        channel: what the requests of the other side must name.
    """

    def __init__(self, codes: type[MasterErrorCode] | type[SlaveErrorCode], channel: int) -> None:
        self._codes = codes
        self._missing = "NOT_GIVEN" if codes is MasterErrorCode else "NOT_FOUND"
        self._peer = "SLAVE" if codes is MasterErrorCode else "MASTER"
        self._channel = channel
        #: The token of requests that only the service itself may make.
        self.self_token = random_token()
        self.shutting_down = threading.Event()

    def alive(self) -> None:
        """The service does not shut down."""
        if self.shutting_down.is_set():
            raise self._error("SYSTEM_SHUTTING_DOWN", "The service is shutting down.", 401)

    def peer(self, call: Call) -> str:
        """The request is for this channel and has a connection token; returns the token."""
        self.channel(call)
        token = call.header("Token")
        if not token:
            raise self._error(f"{self._peer}_TOKEN_{self._missing}", "The request has no connection token.", 400)
        return token

    def channel(self, call: Call) -> None:
        """The service is alive, and the request is for this channel."""
        self.alive()
        text = call.header("Channel")
        if text is None:
            raise self._error(f"CHANNEL_{self._missing}", "The request has no channel.", 400)
        if _CHANNEL.fullmatch(text) is None:
            raise self._error("CHANNEL_INVALID", "The channel is no integer.", 403)
        if int(text) != self._channel:
            raise self._error("CHANNEL_INVALID", "The channel is another one.", 403)

    def own(self, call: Call) -> None:
        """The service is alive, and the request is its own."""
        self.alive()
        token = call.header("Token")
        if not token:
            raise self._error(f"SELF_TOKEN_{self._missing}", "The request has no token.", 400)
        if not same_token(token, self.self_token):
            raise self._error("SELF_TOKEN_INVALID", "The token is wrong.", 403)

    def _error(self, name: str, text: str, status: int) -> ResponsibleException:
        return ResponsibleException(self._codes[name], text, status_code=status)
