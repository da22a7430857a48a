"""The WSGI server of a service: ``waitress``, or ``cheroot`` where connections are encrypted.

Both are used as they come, through their settings. ``waitress`` reads all connections in one thread and hands a request
to a worker thread once it is complete, so idle and slow clients cost a file descriptor each and no thread. It has no
TLS; ``cheroot`` has, and reads a request in the worker thread that answers it. SECURITY.md has the limits of both, and
what a reverse proxy adds.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any

import cheroot.wsgi
import waitress.wasyncore
from cheroot.makefile import MakeFile
from cheroot.ssl import Adapter
from waitress.server import create_server

from ding.interaction.base.transport import Server
from ding.interaction.config import (
    GLOBAL_HOST,
    IDLE_SECONDS,
    MAX_CONNECTIONS,
    MAX_HEADER_BYTES,
    MAX_REQUEST_SECONDS,
)
from ding.interaction.errors import PortTakenError

try:
    import resource
except ImportError:  # Windows has no limit that could be raised
    resource = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

_THREADS = 16
_TLS_THREADS = 64
_BACKLOG = 1024
_LOOK_SECONDS = 0.1
# Room for files that are not connections.
_OTHER_FILES = 512
_CLEANUP_SECONDS = 2
_CLOSE_SECONDS = 5


class PlainServer(Server):
    """Serves a WSGI application without encryption, from its construction on, in threads of its own.

    Args:
        app: the application.
        host: address to listen on; empty for all.
        port: port to listen on; 0 for a free one.
        max_body_bytes: the largest body that is taken in.

    Raises:
        PortTakenError: the port is in use.
        OSError: the address is not one of this host.
    """

    def __init__(self, app: WSGIApplication, host: str, port: int, max_body_bytes: int) -> None:
        listening = _listen(host, port)
        self.host, self.port = host, int(listening.getsockname()[1])
        self._closing = threading.Event()
        self._sockets: dict[int, Any] = {}
        self._server = create_server(
            app,
            map=self._sockets,
            sockets=[listening],
            threads=_THREADS,
            backlog=_BACKLOG,
            recv_bytes=2**16,
            connection_limit=_connection_limit(),
            channel_timeout=int(IDLE_SECONDS),
            cleanup_interval=_CLEANUP_SECONDS,
            max_request_header_size=MAX_HEADER_BYTES,
            max_request_body_size=max_body_bytes + 1,  # the first size that is refused
            asyncore_use_poll=True,
            clear_untrusted_proxy_headers=False,
            log_socket_errors=False,
            ident=None,
        )
        self._thread = threading.Thread(target=self._serve, name=f"http-{self.port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finish the answers that are under way (up to 5 seconds), then free the port."""
        if not self._closing.is_set():
            self._server.task_dispatcher.shutdown(timeout=_CLOSE_SECONDS)
            self._closing.set()
            self._server.pull_trigger()  # type: ignore[union-attr]
        self._thread.join(_CLOSE_SECONDS)

    def _serve(self) -> None:
        while not self._closing.is_set():
            waitress.wasyncore.loop(timeout=1.0, use_poll=True, map=self._sockets, count=1)
        waitress.wasyncore.close_all(self._sockets, ignore_all=True)


class TlsServer(Server):
    """The same over TLS.

    Args:
        context: certificates and protocol versions.
    """

    def __init__(
        self, app: WSGIApplication, host: str, port: int, max_body_bytes: int, context: ssl.SSLContext
    ) -> None:
        self._server = cheroot.wsgi.Server(
            (host or GLOBAL_HOST, port),
            app,
            numthreads=_TLS_THREADS,
            request_queue_size=_BACKLOG,
            timeout=int(MAX_REQUEST_SECONDS),
            shutdown_timeout=_CLOSE_SECONDS,
        )
        self._server.ssl_adapter = _Tls(context)
        self._server.max_request_header_size = MAX_HEADER_BYTES
        self._server.max_request_body_size = max_body_bytes
        self._server.keep_alive_conn_limit = MAX_CONNECTIONS
        self._server.expiration_interval = _LOOK_SECONDS
        try:
            self._server.prepare()
        except OSError as error:
            if os.strerror(errno.EADDRINUSE) in str(error):
                raise _taken(host, port) from error
            raise
        self.host, self.port = host, int(self._server.bind_addr[1])
        self._thread = threading.Thread(target=self._server.serve, name=f"https-{self.port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finish the answers that are under way (up to 5 seconds), then free the port."""
        self._server.stop()
        self._thread.join(_CLOSE_SECONDS)


class _Tls(Adapter):
    """Encrypts connections. The handshake belongs to the first read, in the thread of the connection."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context

    def bind(self, sock: socket.socket) -> socket.socket:
        """Return the socket that listens."""
        return sock

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        """Return the encrypted side of a new connection."""
        return self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), self.get_environ()

    def get_environ(self) -> dict[str, str]:
        """Return what the application sees of the encryption."""
        return {"wsgi.url_scheme": "https"}

    def makefile(self, sock: socket.socket, mode: str = "r", bufsize: int = -1) -> Any:
        """Return the socket as a file."""
        return MakeFile(sock, mode, bufsize)


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; its port may be taken again as soon as it is closed."""
    found = socket.getaddrinfo(host or GLOBAL_HOST, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, proto, _, address = found[0]
    listening = socket.socket(family, kind, proto)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind(address)
        # Two sockets may both be bound as long as neither listens: listening is what claims the port.
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise _taken(host, port) from error
        raise
    return listening


def _connection_limit() -> int:
    """Return how many connections a server holds, after raising the soft limit of open files where that is needed."""
    if resource is None:
        return MAX_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, max(16, soft - _OTHER_FILES))


def _taken(host: str, port: int) -> PortTakenError:
    text = f"port {port} of {host or 'all addresses'} is taken; give another one, 0 or 'auto'"
    return PortTakenError(errno.EADDRINUSE, text)
