"""The transport over HTTP/1.1, perhaps with TLS."""

from __future__ import annotations

from collections.abc import Mapping

from ding.interaction.base.endpoint import Endpoint
from ding.interaction.base.http_client import HttpConnections
from ding.interaction.base.inproc import default_network
from ding.interaction.base.tls import TlsConfig
from ding.interaction.base.transport import Server, Transport, Wire
from ding.interaction.errors import UnreachableError
from ding.interaction.values import ResponseValues
from ding.interaction.wire import dumps


class HttpWire(Wire):
    """A wire over kept-alive connections."""

    def __init__(self, connections: HttpConnections) -> None:
        self._connections = connections

    def send(
        self, method: str, path: str, data: object, headers: Mapping[str, str], timeout_s: float
    ) -> ResponseValues:
        """See ``Wire.send``."""
        response = self._connections.send(method, path, dumps({} if data is None else data), headers, timeout_s)
        try:
            return ResponseValues.from_body(response.status_code, response.content)
        except ValueError as error:
            raise UnreachableError(f"{method} {self._connections.address}{path}: the answer is no JSON") from error

    def close(self) -> None:
        """Close the kept connections."""
        self._connections.close()


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
        return HttpWire(HttpConnections(host, port, https, path, self._tls))


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
