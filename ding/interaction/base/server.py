"""The HTTP server: a Flask app on waitress, with a loop that ends cleanly.

Waitress is used for TLS too: it has none of its own, so its connections are wrapped in non-blocking TLS
(``_guarded._TlsChannel``). The server of werkzeug would take an ``ssl_context``, but it closes the connection after
each answer (a new handshake per request), spends a thread on every client however slow, and answers some malformed
requests with 5xx; this way both run through the same parser and limits.
"""

from __future__ import annotations

import errno
import logging
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any

from ding.interaction.base.endpoint import Endpoint
from ding.interaction.base.transport import Server
from ding.interaction.config import MAX_BODY_BYTES
from ding.interaction.exception.base import PortTakenError

if TYPE_CHECKING:
    from flask import Flask

log = logging.getLogger(__name__)

_THREADS = 4
_MAX_HEADER_BYTES = 16 * 2**10
_MAX_CONNECTIONS = 900  # with poll, not select; stays below the usual 1024 open files of a process
_IDLE_CONNECTION_SECONDS = 60
_LOOP_SECONDS = 5.0
_CLOSE_SECONDS = 5.0


def make_app(endpoint: Endpoint) -> Flask:
    """A Flask app for the routes of ``endpoint``."""
    import flask
    from werkzeug.exceptions import HTTPException

    from ding.interaction.base.app import payload
    from ding.interaction.exception.protocol import ProtocolErrorCode
    from ding.interaction.wire import dumps

    app = flask.Flask("ding.interaction", static_folder=None, template_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = endpoint.max_body_bytes
    app.url_map.merge_slashes = False

    def respond(status: int, body: dict[str, Any]) -> flask.Response:
        return flask.Response(dumps(body), status=status, mimetype="application/json")

    def view(*_args: Any) -> flask.Response:
        request = flask.request
        return respond(*endpoint.handle(request.method, request.path, request.headers, request.get_data))

    def refuse(error: HTTPException) -> flask.Response:
        if error.code in (404, 405):
            return view()
        code = ProtocolErrorCode.BODY_TOO_LARGE if error.code == 413 else ProtocolErrorCode.REQUEST_INVALID
        status = error.code if error.code is not None and 400 <= error.code < 500 else 400
        return respond(status, payload(False, code, "The request is no well-formed HTTP.", None))

    app.register_error_handler(HTTPException, refuse)
    for number, (method, path) in enumerate(endpoint.routes):
        app.add_url_rule(path, f"route{number}", view, methods=[method], provide_automatic_options=False)
    return app


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket bound to ``host`` and ``port``.

    Raises:
        PortTakenError: the port is in use.
        OSError: the address is none of this host.
    """
    family, kind, proto, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, proto)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        # Two sockets may both be bound with SO_REUSEADDR as long as neither listens: listening is what claims the port.
        bound.listen(1024)
    except OSError as error:
        bound.close()
        if error.errno != errno.EADDRINUSE:
            raise
        raise PortTakenError(
            errno.EADDRINUSE, f"port {port} of {host or 'all addresses'} is taken; give another one, 0 or 'auto'"
        ) from error
    return bound


class HttpServer(Server):
    """Listens from its construction on; one thread waits for requests, a few answer them."""

    def __init__(self, endpoint: Endpoint, host: str, port: int, context: ssl.SSLContext | None = None) -> None:
        from waitress.adjustments import Adjustments

        from ding.interaction.base._guarded import GuardedServer

        bound = bind_socket(host, port)
        self.host = host
        self.port = int(bound.getsockname()[1])
        limit = endpoint.max_body_bytes
        adjustments = Adjustments(
            threads=_THREADS,
            max_request_body_size=limit + 1,
            max_request_header_size=_MAX_HEADER_BYTES,
            inbuf_overflow=limit + 2**20,
            outbuf_overflow=4 * MAX_BODY_BYTES,  # answers stay in memory: no temporary files
            connection_limit=_MAX_CONNECTIONS,
            cleanup_interval=5,
            channel_timeout=_IDLE_CONNECTION_SECONDS,
            asyncore_use_poll=True,
            ident=None,
            url_scheme="http" if context is None else "https",
            log_socket_errors=False,
        )
        self._server = GuardedServer(make_app(endpoint), bound, adjustments, endpoint.guard, context)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"http-{self.port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finish the answers that are under way (up to 5 seconds), then free the port."""
        if self._closing.is_set():
            self._thread.join(2 * _CLOSE_SECONDS)
            return
        self._closing.set()
        self._server.pull_trigger()
        self._thread.join(2 * _CLOSE_SECONDS)
        if self._thread.is_alive():
            log.error("the HTTP server on port %d did not end within %g s", self.port, 2 * _CLOSE_SECONDS)

    def _loop(self) -> None:
        from waitress import wasyncore

        server = self._server
        try:
            while not self._closing.is_set():
                wasyncore.loop(server.poll_seconds(_LOOP_SECONDS), use_poll=True, map=server._map, count=1)
            server.accepting = False
            deadline = time.monotonic() + _CLOSE_SECONDS
            while not server.idle() and time.monotonic() < deadline:
                wasyncore.loop(0.1, use_poll=True, map=server._map, count=1)
        finally:
            server.task_dispatcher.shutdown(timeout=1)
            server.retire()
            wasyncore.close_all(server._map, ignore_all=True)
