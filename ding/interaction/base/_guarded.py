"""Waitress parts that refuse early: the parser checks the run token as soon as the headers are there, before any of the
body is kept.

Waitress reads a whole body before it calls the application. Here a request without the token, or with a body that is
too large, is answered from its headers alone; every refusal is JSON of the protocol and none is a 5xx; a client that is
too slow is given up.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from functools import partial
from typing import Any

from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher
from waitress.utilities import Error

from ding.interaction.base.app import ResponsibleException, payload
from ding.interaction.base.token import TokenGuard
from ding.interaction.config import MAX_REQUEST_SECONDS
from ding.interaction.exception.protocol import ProtocolErrorCode
from ding.interaction.wire import dumps

log = logging.getLogger(__name__)
# Waitress warns whenever a request waits for a thread; a burst of results is nothing to warn of.
_queue_log = logging.getLogger(f"{__name__}.queue")
_queue_log.setLevel(logging.ERROR)

# How long a connection stays open after a refusal, for the client to read the answer, and how much it may still send
# meanwhile.
_LINGER_SECONDS = 2.0
_LINGER_BYTES = 64 * 2**20
_REASONS = {400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 408: "Request Timeout"}
_REASONS |= {413: "Content Too Large", 431: "Request Header Fields Too Large"}


class _Refusal(Error):
    """An answer that waitress sends without calling the application."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.code = status
        self.reason = _REASONS.get(status, "Error")
        self._payload = payload(False, code, message, None)

    def to_response(self, ident: str | None = None) -> tuple[str, list[tuple[str, str]], bytes]:
        return f"{self.code} {self.reason}", [("Content-Type", "application/json")], dumps(self._payload)


class _Parser(HTTPRequestParser):
    """A request on its way in."""

    def __init__(self, guard: TokenGuard, adj: Any) -> None:
        super().__init__(adj)
        self._guard = guard
        self._guarded = False
        self._deadline = time.monotonic() + MAX_REQUEST_SECONDS

    def received(self, data: bytes) -> int:
        """Take the next bytes; returns how many of them belong to this request."""
        try:
            consumed = int(super().received(data))
        except ValueError:  # what waitress lets through: addresses and lengths that Python refuses to read
            self._refuse(400, ProtocolErrorCode.REQUEST_INVALID, "The request is no well-formed HTTP.")
            return len(data)
        if self.headers_finished and not self._guarded and not self.empty:
            self._guarded = True
            self._check_token()
        if not self.completed and time.monotonic() > self._deadline:
            self._refuse(408, ProtocolErrorCode.REQUEST_TIMED_OUT, "The request came too slowly.")
        if self.error is not None:
            self._translate_error()
            return len(data)  # nothing after a broken request can be trusted to be a request
        return consumed

    def _check_token(self) -> None:
        try:
            self._guard.check(self.headers.get("AUTHORIZATION"))
        except ResponsibleException as error:
            self._refuse(error.status_code, error.code, error.message)

    def _translate_error(self) -> None:
        if isinstance(self.error, _Refusal):
            return
        status = self.error.code
        if status == 413:
            limit = self.adj.max_request_body_size - 1
            self._refuse(413, ProtocolErrorCode.BODY_TOO_LARGE, f"The body is larger than {limit} bytes.")
        elif status == 431:
            self._refuse(431, ProtocolErrorCode.HEADERS_TOO_LARGE, "The headers are too large.")
        else:
            self._refuse(400, ProtocolErrorCode.REQUEST_INVALID, "The request is no well-formed HTTP.")

    def _refuse(self, status: int, code: int, message: str) -> None:
        self.error = _Refusal(status, code, message)
        self.completed = True
        self.expect_continue = False  # a "100 Continue" would invite the body


class _Channel(HTTPChannel):
    """One connection. After a refusal it says goodbye gently, so that the answer is not lost in a reset."""

    def __init__(self, server: GuardedServer, sock: socket.socket, addr: Any, adj: Any, map: dict[int, Any]) -> None:
        self.parser_class = partial(_Parser, server.guard)
        self.linger_until: float | None = None
        self._linger_bytes = _LINGER_BYTES
        self._refused = False
        self.close_when_flushed = False
        super().__init__(server, sock, addr, adj, map=map)

    def received(self, data: bytes) -> Any:
        """Take bytes of requests."""
        if self.linger_until is not None:
            self._linger_bytes -= len(data)
            if self._linger_bytes < 0:
                self.will_close = True
            return False
        taken = super().received(data)
        self._refused = self._refused or any(request.error is not None for request in self.requests)
        return taken

    def readable(self) -> bool:
        """Whether more bytes are wanted."""
        if self.linger_until is not None:
            return not self.will_close
        return bool(super().readable())

    def handle_write(self) -> None:
        """Send what is to be sent; then, after a refusal, only the own half of the connection is closed."""
        if self._refused and self.linger_until is None and self.close_when_flushed:
            self._flush_exception(self._flush_some)
            if self.total_outbufs_len == 0 and not self.will_close:
                self.close_when_flushed = False
                self._start_lingering()
                return
        super().handle_write()

    def _start_lingering(self) -> None:
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.will_close = True  # the client is gone already
            return
        self.linger_until = time.monotonic() + _LINGER_SECONDS
        self.server.wake_by(self.linger_until)


class _TlsChannel(_Channel):
    """One connection over TLS, without blocking: reads and handshakes go on when the socket has more."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # One SSL object must not be used by two threads at once: the loop reads while a worker thread answers.
        self._ssl_lock = threading.Lock()
        self._shaken = False
        super().__init__(*args, **kwargs)

    def handle_read(self) -> None:
        """Read until the socket has no more: what OpenSSL holds back would not wake the loop again."""
        while self.connected and not self.will_close:
            try:
                with self._ssl_lock:
                    if not self._shaken:
                        self.socket.do_handshake()
                        self._shaken = True
                    data = self.socket.recv(self.adj.recv_bytes)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                return
            except OSError as error:  # ssl.SSLError is one: a plain client, an unknown certificate, a reset
                log.info("a TLS connection failed: %s", type(error).__name__)
                self.handle_close()
                return
            if not data:
                self.handle_close()
                return
            self.last_activity = time.time()
            self.received(data)

    def send(self, data: bytes, do_close: bool = True) -> int:
        """Send some of ``data``; returns how much."""
        try:
            with self._ssl_lock:
                return int(self.socket.send(data))
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError:
            if do_close:
                self.handle_close()
            return 0


class GuardedServer(TcpWSGIServer):
    """A waitress server on a bound socket, with the guarded parser and perhaps TLS."""

    def __init__(
        self, app: Any, bound: socket.socket, adj: Any, guard: TokenGuard, context: ssl.SSLContext | None
    ) -> None:
        self.guard = guard
        self._context = context
        self.channel_class = _Channel if context is None else _TlsChannel
        self._wake_at: float | None = None
        self._trigger_lock = threading.Lock()
        self._retired = False
        dispatcher = ThreadedTaskDispatcher()
        dispatcher.queue_logger = _queue_log
        dispatcher.set_thread_count(adj.threads)
        info = (bound.family, bound.type, bound.proto, bound.getsockname())
        super().__init__(app, {}, True, bound, dispatcher=dispatcher, adj=adj, sockinfo=info, bind_socket=False)

    def accept(self) -> Any:
        """A new connection, wrapped for TLS where that is configured; the handshake follows in the loop."""
        accepted = super().accept()
        if accepted is None or self._context is None:
            return accepted
        connection, address = accepted
        connection.setblocking(False)
        return self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def pull_trigger(self) -> None:
        """Wake the loop, unless it has ended: the number of its pipe may belong to another file by then."""
        with self._trigger_lock:
            if not self._retired:
                super().pull_trigger()

    def retire(self) -> None:
        """The loop has ended."""
        with self._trigger_lock:
            self._retired = True

    def wake_by(self, moment: float) -> None:
        """Have the loop look at the connections again by ``moment`` (monotonic)."""
        self._wake_at = moment if self._wake_at is None else min(self._wake_at, moment)

    def poll_seconds(self, idle: float) -> float:
        """How long the loop may wait for events; ends lingering connections that are due."""
        if self._wake_at is None:
            return idle
        now = time.monotonic()
        waiting = [
            channel.linger_until for channel in self.active_channels.values() if channel.linger_until is not None
        ]
        for channel in list(self.active_channels.values()):
            if channel.linger_until is not None and channel.linger_until <= now:
                channel.will_close = True
        self._wake_at = min(waiting) if waiting else None
        return idle if self._wake_at is None else min(idle, max(0.05, self._wake_at - now))

    def idle(self) -> bool:
        """Whether no request is under way and no answer is still to be sent."""
        channels = list(self.active_channels.values())
        return not any(channel.requests or channel.total_outbufs_len for channel in channels)
