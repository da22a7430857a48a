"""The WSGI server of a service: ``waitress``, as it comes, through its settings.

It reads all connections in one thread and hands a request to a worker thread once it is complete, so idle and slow
clients cost a file descriptor each and no thread. It has no TLS; ``tls_server.py`` has. SECURITY.md has the limits of
both, and what a reverse proxy adds.
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

# Handlers do not wait, and only one thread computes at a time.
_THREADS = 4
_BACKLOG = 1024
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
        """Finish the answers that are under way (up to 5 seconds), then free the port."""
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
            raise taken(host, port) from error
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


def taken(host: str, port: int) -> PortTakenError:
    """Return the error of a port that is in use."""
    text = f"port {port} of {host or 'all addresses'} is taken; give another one, 0 or 'auto'"
    return PortTakenError(errno.EADDRINUSE, text)
