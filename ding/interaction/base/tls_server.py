"""WSGI server of a service over TLS: an unmodified ``cheroot`` (extra ``tls``)."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import threading
from typing import TYPE_CHECKING

import cheroot.wsgi
from cheroot.makefile import MakeFile
from cheroot.ssl import Adapter

from ding.interaction.base.server import taken
from ding.interaction.base.transport import Server
from ding.interaction.config import GLOBAL_HOST, MAX_CONNECTIONS, MAX_HEADER_BYTES, MAX_REQUEST_SECONDS

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

# A request occupies a worker thread from its first byte on.
_THREADS = 64
_BACKLOG = 1024
_LOOK_SECONDS = 0.1
_CLOSE_SECONDS = 5


class TlsServer(Server):
    """Like :class:`~ding.interaction.base.server.PlainServer`, over TLS.

    Args:
        context: Certificates and protocol versions.
    """

    def __init__(
        self, app: WSGIApplication, host: str, port: int, max_body_bytes: int, context: ssl.SSLContext
    ) -> None:
        self._server = cheroot.wsgi.Server(
            (host or GLOBAL_HOST, port),
            app,
            numthreads=_THREADS,
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
                raise taken(host, port) from error
            raise
        self.host, self.port = host, int(self._server.bind_addr[1])
        self._thread = threading.Thread(target=self._server.serve, name=f"https-{self.port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finish pending answers (up to 5 seconds), then free the port."""
        self._server.stop()
        self._thread.join(_CLOSE_SECONDS)


class _Tls(Adapter):
    """Encrypt connections. The handshake is part of the first read, in the thread of the connection."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context

    def bind(self, sock: socket.socket) -> socket.socket:
        """Return the listening socket."""
        return sock

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        """Return the encrypted side of a new connection."""
        return self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), self.get_environ()

    def get_environ(self) -> dict[str, str]:
        """Return the WSGI environment entries about the encryption."""
        return {"wsgi.url_scheme": "https"}

    def makefile(self, sock: socket.socket, mode: str = "r", bufsize: int = -1) -> object:
        """Return the socket as a file."""
        return MakeFile(sock, mode, bufsize)
