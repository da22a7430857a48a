"""The HTTP server: connections, time-outs, limits and TLS of ``cheroot``, in front of the routes of an endpoint.

The token is checked, and with it everything that is known from the headers, before any of the body is read. Every
refusal is JSON of the protocol, and none of a malformed request is a 5xx.

A connection is a *stranger's* until a request on it has shown the token. Strangers have ``HEADER_SECONDS`` for that,
and there are few of them: the oldest make room for others. One that sends nothing costs a file descriptor and no
thread; one that was refused is closed. So all other connections, and most threads, are kept for those who have the
token.
"""

import errno
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from http import HTTPStatus
from typing import Any

from cheroot.errors import MaxSizeExceeded
from cheroot.makefile import MakeFile
from cheroot.server import Gateway, HeaderReader, HTTPConnection, HTTPRequest, HTTPServer
from cheroot.ssl import Adapter

from ding.interaction.base.endpoint import Endpoint, ResponsibleException
from ding.interaction.base.transport import Server
from ding.interaction.config import GLOBAL_HOST, HEADER_SECONDS, MAX_REQUEST_SECONDS
from ding.interaction.errors import PortTakenError
from ding.interaction.exception.response import ProtocolErrorCode
from ding.interaction.messages import AnswerBody, dumps

log = logging.getLogger(__name__)

_MAX_HEADER_BYTES = 16 * 2**10
# Idle ones of those who have the token. With strangers, below the usual limit of 1024 open files of a process.
_MAX_IDLE_CONNECTIONS = 700
# A request occupies a thread from its first byte on; where clients are slow there are more and more of them.
_THREADS = 4
_MAX_THREADS = 256
_MAX_STRANGERS = 128
# How often the server looks whether it has to stop.
_LOOK_SECONDS = 0.1
_CLOSE_SECONDS = 5
# How long a connection stays open after a refusal, for the client to read the answer, and how much it may still send
# meanwhile.
_LINGER_SECONDS = 2.0
_LINGER_BYTES = 64 * 2**20

_EXPECT = b"Ding-Expect"
_REFUSALS = {
    405: (ProtocolErrorCode.METHOD_NOT_ALLOWED, "The path does not know this method."),
    408: (ProtocolErrorCode.REQUEST_TIMED_OUT, "The request came too slowly."),
    413: (ProtocolErrorCode.BODY_TOO_LARGE, "The body is too large."),
    431: (ProtocolErrorCode.HEADERS_TOO_LARGE, "The headers are too large."),
    400: (ProtocolErrorCode.REQUEST_INVALID, "The request is no well-formed HTTP."),
}


def _refusal(status: int) -> ResponsibleException:
    code, message = _REFUSALS[status]
    return ResponsibleException(code, message, status_code=status)


class _PatientSocket:
    """The reading side of a socket; nothing more is read for a request after its deadline."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.deadline = 0.0

    def recv_into(self, buffer: bytearray | memoryview) -> int:
        if time.monotonic() > self.deadline:
            raise TimeoutError("timed out")
        return self._connection.recv_into(buffer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class _HeaderReader(HeaderReader):
    """Keeps ``Expect`` from ``cheroot``, which would invite the body before the token is checked."""

    def __call__(self, rfile: object, hdict: dict[bytes, bytes] | None = None) -> dict[bytes, bytes]:
        headers: dict[bytes, bytes] = super().__call__(rfile, hdict)
        headers[_EXPECT] = headers.pop(b"Expect", b"")
        return headers


class _Request(HTTPRequest):
    """A request on its way in; what ``cheroot`` itself refuses is answered in JSON."""

    header_reader = _HeaderReader()

    def read_request_headers(self) -> bool:
        """Read the headers; returns whether they are well-formed."""
        try:
            if not super().read_request_headers():
                return False
        except MaxSizeExceeded:
            self.simple_response("431")
            return False
        length = self.inheaders.get(b"Content-Length")
        if length is not None and (self.chunked_read or not length.isdigit()):
            self.simple_response("400")
            return False
        return True

    def simple_response(self, status: str, msg: str = "") -> None:
        """Refuse the request."""
        number = int(status[:3])
        number = 431 if number == 414 else number if number in _REFUSALS else 400
        self.send(number, dumps(AnswerBody(False, *_REFUSALS[number])), close=True)

    def send(self, status: int, body: bytes, close: bool) -> None:
        """Send an answer, all at once: where another thread computes, each system call waits for the interpreter."""
        self.conn.lingers = close
        self.close_connection = close or self.close_connection or not self.server.can_add_keepalive_connection
        ending = "Connection: close\r\n\r\n" if self.close_connection else "\r\n"
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
        self.sent_headers = True
        try:
            self.conn.wfile.write(f"{head}Content-Length: {len(body)}\r\n{ending}".encode("ascii") + body)
        except OSError as error:
            log.debug("an answer could not be sent: %s", error)
            self.close_connection = True


class _Gateway(Gateway):
    """Between a request and the endpoint."""

    def __init__(self, endpoint: Endpoint, request: _Request) -> None:
        super().__init__(request)
        self._endpoint = endpoint

    def respond(self) -> None:
        """Answer the request."""
        request = self.req
        path = request.path.decode("utf-8", "replace")
        known = self._endpoint.guard.knows(self.get("Authorization"))
        if known:
            request.conn.is_known()
        status, body = self._endpoint.handle(request.method.decode("latin-1"), path, self, self._read_body)
        unread = request.chunked_read and not request.rfile.closed
        if not request.chunked_read and request.rfile.remaining > 0:
            if status < 400:
                request.rfile.read()
            else:
                unread = True
        request.send(status, b"" if request.method == b"HEAD" else body, unread or not known)

    def get(self, key: str, /) -> str | None:
        """The value of a header, or None."""
        value = self.req.inheaders.get(key.title().encode("ascii"))
        return None if value is None else value.decode("latin-1")

    def _read_body(self) -> bytes:
        request = self.req
        announced = 0 if request.chunked_read else request.rfile.remaining
        try:
            if request.inheaders[_EXPECT] == b"100-continue":
                request.conn.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body: bytes = request.rfile.read()
        except TimeoutError as error:
            raise _refusal(408) from error
        except (OSError, MaxSizeExceeded) as error:
            raise _refusal(413 if getattr(error, "errno", None) is None else 400) from error
        except ValueError as error:
            raise _refusal(400) from error
        if len(body) < announced:
            raise _refusal(400)
        return body


class _Connection(HTTPConnection):
    """A connection. After a refusal it says goodbye gently, so that the answer is not lost in a reset."""

    RequestHandlerClass = _Request
    lingers = False
    is_new = True

    def __init__(self, server: HTTPServer, sock: socket.socket, makefile: Callable[..., Any] = MakeFile) -> None:
        self._reads = _PatientSocket(sock)
        self._opened_s = time.monotonic()
        sock.settimeout(HEADER_SECONDS)
        super().__init__(server, sock, lambda _, mode, size: makefile(self._reads if "r" in mode else sock, mode, size))

    def communicate(self) -> bool:
        """Serve one request; returns whether the connection stays open."""
        began_s = self._opened_s if self in self.server.strangers else time.monotonic()
        self._reads.deadline = began_s + HEADER_SECONDS
        return bool(super().communicate())

    def is_known(self) -> None:
        """A request has shown the token: it has the time for its body."""
        if self.server.strangers.discard(self):
            self.socket.settimeout(MAX_REQUEST_SECONDS)
        self._reads.deadline = time.monotonic() + MAX_REQUEST_SECONDS

    def close(self) -> None:
        """Close the connection."""
        if self.lingers:
            # Its thread waits, for a client that has shown nothing, or nothing good.
            self.server.strangers.add(self)
            self._linger()
        self.server.strangers.discard(self)
        super().close()

    def _linger(self) -> None:
        deadline, left = time.monotonic() + _LINGER_SECONDS, _LINGER_BYTES
        try:
            self.socket.shutdown(socket.SHUT_WR)
            while left > 0 and time.monotonic() < deadline:
                self.socket.settimeout(max(0.01, deadline - time.monotonic()))
                read = len(self.socket.recv(65536))
                left -= read or left
        except OSError as error:
            log.debug("a refused client: %s", error)


class _Strangers:
    """The connections that have shown no token: the oldest is ended where there are too many. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: dict[_Connection, None] = {}

    def __contains__(self, connection: _Connection) -> bool:
        return connection in self._connections

    def add(self, connection: _Connection) -> None:
        """Take another one in."""
        with self._lock:
            self._connections[connection] = None
            if len(self._connections) > _MAX_STRANGERS:
                self._end(next(iter(self._connections)))

    def discard(self, connection: _Connection) -> bool:
        """It is known now, or closed; returns whether it was a stranger's."""
        with self._lock:
            return self._connections.pop(connection, self) is None

    def _end(self, connection: _Connection) -> None:
        del self._connections[connection]
        try:
            # Not that of a TLS socket, which would change the object that another thread reads from. Where none does,
            # this makes the connection readable, and a thread closes it.
            socket.socket.shutdown(connection.socket, socket.SHUT_RDWR)
        except OSError as error:
            log.debug("a stranger: %s", error)


class _Tls(Adapter):
    """Encrypts connections. The handshake belongs to the first read, in the thread of the connection."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context

    def bind(self, sock: socket.socket) -> socket.socket:
        """The socket that listens."""
        return sock

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        """The encrypted side of a new connection."""
        return self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), {}

    def get_environ(self) -> dict[str, str]:
        """Nothing: there is no WSGI."""
        return {}

    def makefile(self, sock: socket.socket, mode: str = "r", bufsize: int = -1) -> Any:
        """The socket as a file."""
        return MakeFile(sock, mode, bufsize)


class _Server(HTTPServer):
    ConnectionClass = _Connection
    version = "ding"
    timeout = int(MAX_REQUEST_SECONDS)
    expiration_interval = _LOOK_SECONDS
    shutdown_timeout = _CLOSE_SECONDS
    keep_alive_conn_limit = _MAX_IDLE_CONNECTIONS
    max_request_header_size = _MAX_HEADER_BYTES
    request_queue_size = 1024

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.strangers = _Strangers()

    def bind(self, family: int, type: int, proto: int = 0) -> socket.socket:
        """Take the port; it may be taken again as soon as it is closed, also one that the system chose."""
        bound = socket.socket(family, type, proto)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            bound.bind(self.bind_addr)
            # Two sockets may both be bound as long as neither listens: listening is what claims the port.
            bound.listen(self.request_queue_size)
        except OSError:
            bound.close()
            raise
        self.socket, self.bind_addr = bound, bound.getsockname()[:2]
        return bound

    def process_conn(self, conn: _Connection) -> None:
        """Have a thread serve a connection; a new one gets none before it has sent something."""
        if conn.is_new:
            conn.is_new = False
            self.strangers.add(conn)
            self.put_conn(conn)
            # It is closed when it was not used for ``timeout`` seconds, and was not used for some already.
            conn.last_used -= self.timeout - HEADER_SECONDS
            return
        super().process_conn(conn)
        if self.requests.idle <= self.requests.qsize:
            self.requests.grow(max(_THREADS, self.requests.qsize))

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Malformed requests and lost connections are nothing to warn of."""
        log.debug("%s", msg, exc_info=traceback)


class HttpServer(Server):
    """Listens from its construction on; one thread waits for requests, others answer them.

    Raises:
        PortTakenError: the port is in use.
        OSError: the address is none of this host.
    """

    def __init__(self, endpoint: Endpoint, host: str, port: int, context: ssl.SSLContext | None = None) -> None:
        gateway = partial(_Gateway, endpoint)
        self._server = _Server((host or GLOBAL_HOST, port), gateway, minthreads=_THREADS, maxthreads=_MAX_THREADS)
        self._server.max_request_body_size = endpoint.max_body_bytes
        if context is not None:
            self._server.ssl_adapter = _Tls(context)
        listens: Future[None] = Future()
        self._thread = threading.Thread(target=self._serve, args=(listens,), name=f"http-{port}", daemon=True)
        self._thread.start()
        try:
            listens.result()
        except OSError as error:
            if os.strerror(errno.EADDRINUSE) not in str(error):
                raise
            text = f"port {port} of {host or 'all addresses'} is taken; give another one, 0 or 'auto'"
            raise PortTakenError(errno.EADDRINUSE, text) from error
        self.host = host
        self.port = int(self._server.bind_addr[1])

    def close(self) -> None:
        """Finish the answers that are under way (up to 5 seconds), then free the port."""
        self._server.stop()
        self._thread.join(_CLOSE_SECONDS)

    def _serve(self, listens: Future[None]) -> None:
        """The thread of the server; the threads that it starts are daemons as it is."""
        try:
            self._server.prepare()
        except Exception as error:  # noqa: BLE001 - raised by the constructor
            listens.set_exception(error)
            return
        listens.set_result(None)
        self._server.serve()
