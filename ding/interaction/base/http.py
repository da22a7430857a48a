"""The transport over HTTP/1.1, perhaps with TLS: kept-alive connections, and a time-out for each wait."""

import http.client
import select
import ssl
import threading
from collections.abc import Mapping
from typing import Any

from ding.interaction.base.addresses import join_http_address
from ding.interaction.base.endpoint import Endpoint
from ding.interaction.base.inproc import default_network
from ding.interaction.base.tls import TlsConfig
from ding.interaction.base.transport import Server, Transport, Wire
from ding.interaction.errors import UnreachableError
from ding.interaction.exception.response import HTTPError
from ding.interaction.messages import ResponseValues, dumps, loads

_KEPT_CONNECTIONS = 32


class HttpResponse:
    """An answer: its status and its body."""

    def __init__(self, status_code: int, content: bytes) -> None:
        self.status_code = status_code
        self.content = content

    def json(self) -> Any:
        """The decoded body; raises ``WireError`` when it is no JSON."""
        return loads(self.content)

    def raise_for_status(self) -> None:
        """Raise ``HTTPError`` for a status of 400 or more."""
        if self.status_code >= 400:
            raise HTTPError(f"the answer has the status {self.status_code}", self)


class HttpWire(Wire):
    """The kept-alive connections to one server; may be used by several threads.

    The environment is not looked at (no proxies, no netrc), redirects are not followed, cookies are not kept.
    """

    def __init__(
        self, host: str, port: int, https: bool = False, path: str | None = None, tls: TlsConfig | None = None
    ) -> None:
        self.address = join_http_address(host, port, https, path)
        self._target = (host.strip("[]"), port)
        self._path = f"/{(path or '').strip('/')}".rstrip("/")
        self._context = None if not https else ssl.create_default_context() if tls is None else tls.client_context()
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._closed = False

    def send(
        self, method: str, path: str, data: object, headers: Mapping[str, str], timeout_s: float
    ) -> ResponseValues:
        """See ``Wire.send``."""
        response = self.exchange(method, path, dumps({} if data is None else data), headers, timeout_s)
        try:
            return ResponseValues.from_body(response.status_code, response.content)
        except ValueError as error:
            raise UnreachableError(f"{method} {self.address}{path}: the answer is no JSON") from error

    def exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float
    ) -> HttpResponse:
        """Send one request, once, and return the answer, whatever its status.

        Raises:
            UnreachableError: no answer, or none for ``timeout_s`` seconds; the request may have arrived.
        """
        path = f"{self._path}/{path.lstrip('/')}"
        connection = self._take(timeout_s)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json", **headers})
            with connection.getresponse() as response:
                answer = HttpResponse(response.status, response.read())
            if connection.sock is not None:  # else the server has asked to close it
                self._keep(connection)
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            text = f"{method} {self.address}/{path.lstrip('/')}: {type(error).__name__}: {error}"
            raise UnreachableError(text) from error
        return answer

    def close(self) -> None:
        """Close the kept connections; one that is in use is closed after its request."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self, timeout_s: float) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                if self._context is None:
                    return _Connection(*self._target, timeout=timeout_s)
                return _TlsConnection(*self._target, timeout=timeout_s, context=self._context)
            if not _has_ended(connection):
                if connection.sock.gettimeout() != timeout_s:
                    connection.sock.settimeout(timeout_s)
                return connection
            connection.close()

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _KEPT_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()


class HttpTransport(Transport):
    """An HTTP server of ``cheroot``, and the HTTP client of the standard library; over TLS when configured."""

    def __init__(self, tls: TlsConfig | None = None) -> None:
        self._tls = tls
        self.https = tls is not None and tls.certfile is not None

    def serve(self, endpoint: Endpoint, host: str, port: int) -> Server:
        """See ``Transport.serve``."""
        from ding.interaction.base.server import HttpServer  # start-up time: cheroot is needed by who serves

        context = self._tls.server_context() if self._tls is not None and self.https else None
        return HttpServer(endpoint, host, port, context)

    def open(self, host: str, port: int, https: bool = False, path: str | None = None) -> Wire:
        """See ``Transport.open``."""
        return HttpWire(host, port, https, path, self._tls)


def resolve_transport(transport: Transport | str | None, tls: TlsConfig | None) -> Transport:
    """A transport object for ``None`` or ``'http'``, ``'inproc'``, or a transport object.

    Raises:
        ValueError: another text, or ``tls`` together with something else than HTTP.
    """
    if transport is None or transport == "http":
        return HttpTransport(tls)
    if tls is not None:
        raise ValueError("tls can be given for the transport 'http' only")
    if isinstance(transport, Transport):
        return transport
    if transport == "inproc":
        return default_network()
    raise ValueError(f"transport must be 'http', 'inproc' or a Transport, got {transport!r}")


class _Connection(http.client.HTTPConnection):
    """Sends a request all at once: where another thread computes, each system call waits for the interpreter."""

    _unsent = b""

    def send(self, data: Any) -> None:
        """Keep a part of a request."""
        self._unsent += data

    def getresponse(self) -> http.client.HTTPResponse:
        """Send the request, and wait for the head of the answer."""
        request, self._unsent = self._unsent, b""
        super().send(request)
        return super().getresponse()


class _TlsConnection(_Connection, http.client.HTTPSConnection):
    """The same over TLS."""


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    """Whether the server has closed an idle connection: nothing else makes it readable."""
    readable = select.poll()
    readable.register(connection.sock, select.POLLIN)
    return bool(readable.poll(0))
