"""WSGI server of a service: an unmodified ``waitress``.

It reads all connections in one thread and hands a request to a worker thread once it is complete, so idle and slow
clients cost a file descriptor each but no thread. It does not support TLS; see ``tls_server.py``. SECURITY.md describes
the limits of both, and the use of a reverse proxy.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
from typing import TYPE_CHECKING, Any

import waitress.wasyncore
from waitress.server import create_server

from ding.interaction.base.transport import Server
from ding.interaction.config import GLOBAL_HOST, IDLE_SECONDS, MAX_CONNECTIONS, MAX_HEADER_BYTES
from ding.interaction.errors import PortTakenError

try:
    import resource
except ImportError:  # Windows has no limit that could be raised
    resource = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

# Handlers do not block, and only one thread computes at a time.
_THREADS = 4
_BACKLOG = 1024
# File descriptors reserved for other uses than connections.
_OTHER_FILES = 512
_CLEANUP_SECONDS = 2
_CLOSE_SECONDS = 5


class PlainServer(Server):
    """Serve a WSGI application without encryption in background threads, starting with the construction.

    Args:
        app: the application.
        host: address to listen on; empty for all.
        port: port to listen on; 0 for a free one.
        max_body_bytes: Maximum size of an accepted body.

    Raises:
        PortTakenError: The port is in use.
        OSError: The address does not belong to this host.
    """

    def __init__(self, app: WSGIApplication, host: str, port: int, max_body_bytes: int) -> None:
        listening = listen(host, port)
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
        """Finish pending answers (up to 5 seconds), then free the port."""
        if not self._closing.is_set():
            self._server.task_dispatcher.shutdown(timeout=_CLOSE_SECONDS)
            self._closing.set()
            with contextlib.suppress(OSError):  # the thread has looked by itself meanwhile
                self._server.pull_trigger()  # type: ignore[union-attr]
        self._thread.join(_CLOSE_SECONDS)

    def _serve(self) -> None:
        while not self._closing.is_set():
            waitress.wasyncore.loop(timeout=1.0, use_poll=True, map=self._sockets, count=1)
        waitress.wasyncore.close_all(self._sockets, ignore_all=True)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket whose port can be reused as soon as it is closed."""
    found = socket.getaddrinfo(host or GLOBAL_HOST, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, proto, _, address = found[0]
    listening = socket.socket(family, kind, proto)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind(address)
        # Two sockets may both be bound while neither listens: listening claims the port.
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise taken(host, port) from error
        raise
    return listening


def _connection_limit() -> int:
    """Return the maximum number of connections of a server, after raising the soft limit of open files if needed."""
    if resource is None:
        return MAX_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, max(16, soft - _OTHER_FILES))


def taken(host: str, port: int) -> PortTakenError:
    """Return the error of a port that is in use."""
    text = f"port {port} of {host or 'all addresses'} is taken; give another one, 0 or 'auto'"
    return PortTakenError(errno.EADDRINUSE, text)
