"""The routes of a service, apart from how requests come in.

A transport calls ``Endpoint.handle`` with method, path, headers and a function that reads the body. The order of the
checks is fixed: run token, route, then the handler (shutdown, channel, connection token), and only then the body.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ding.interaction.base.app import ResponsibleException
from ding.interaction.base.token import TokenGuard
from ding.interaction.config import MAX_BODY_BYTES
from ding.interaction.errors import SchemaError, WireError
from ding.interaction.exception.response import ProtocolErrorCode
from ding.interaction.messages import AnswerBody, MessageT, convert, dumps, loads

log = logging.getLogger(__name__)


class Headers(Protocol):
    """The headers of a request."""

    def get(self, key: str, /) -> str | None:
        """The value of a header, or None."""
        ...


class Call:
    """One request, as a handler sees it."""

    def __init__(self, headers: Headers, read_body: Callable[[], bytes]) -> None:
        self._headers = headers
        self._read_body = read_body

    def header(self, name: str) -> str | None:
        """The value of a header, or None."""
        return self._headers.get(name)

    def body(self, kind: type[MessageT], code: int = ProtocolErrorCode.BODY_INVALID) -> MessageT:
        """The decoded body.

        Raises:
            ResponsibleException: it is no JSON, or none of this kind (400, with ``code``).
        """
        try:
            return convert(loads(self._read_body() or b"{}"), kind)
        except (WireError, SchemaError) as error:
            raise ResponsibleException(code, str(error), status_code=400) from error


class Answer(NamedTuple):
    """What a handler returns: a sentence and data."""

    message: str = ""
    data: Any = None


Handler = Callable[[Call], Answer]


class Endpoint:
    """Routes with their handlers, and the guard before them. Handlers run in several threads at once."""

    def __init__(self, guard: TokenGuard, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.guard = guard
        self.max_body_bytes = max_body_bytes
        self.routes: dict[tuple[str, str], Handler] = {}

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Add a route."""
        self.routes[(method, path)] = handler

    def handle(self, method: str, path: str, headers: Headers, read_body: Callable[[], bytes]) -> tuple[int, bytes]:
        """The HTTP status and the body (JSON) of the answer. Never raises for a request, however malformed."""
        try:
            status, answer = self._answer(method, path, Call(headers, read_body))
            return status, dumps(answer)
        except Exception:
            log.exception("the handler of %s %s failed", method, path[:80])
            text = "A hook of the service failed; its log has the traceback."
            return 500, dumps(AnswerBody(False, ProtocolErrorCode.INTERNAL_ERROR, text))

    def _answer(self, method: str, path: str, call: Call) -> tuple[int, AnswerBody]:
        try:
            self.guard.check(call.header("Authorization"))
            answer = self._find(method, path)(call)
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
