"""HTTP/1.1 transport, optionally with TLS: Flask behind a WSGI server, and the connection pool of ``requests``."""

import ssl
from collections.abc import Mapping
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter

from ding.interaction.base.addresses import join_http_address
from ding.interaction.base.endpoint import Endpoint
from ding.interaction.base.tls import TlsConfig
from ding.interaction.base.transport import Server, Transport, Wire
from ding.interaction.errors import UnreachableError
from ding.interaction.exception.response import ProtocolErrorCode
from ding.interaction.messages import ResponseValues, dumps
from ding.utils.import_helper import require_extra

_KEPT_CONNECTIONS = 32
# A server or proxy refuses these before the application sees them, and its answer is not JSON.
_REFUSED_BY_SERVER = {
    400: ProtocolErrorCode.REQUEST_INVALID,
    408: ProtocolErrorCode.REQUEST_TIMED_OUT,
    413: ProtocolErrorCode.BODY_TOO_LARGE,
    431: ProtocolErrorCode.HEADERS_TOO_LARGE,
}


class RequestFailed(requests.ConnectionError, UnreachableError):
    """A request of ``requests`` received no answer."""


def make_session(tls: TlsConfig | None = None) -> requests.Session:
    """Return a session that keeps connections, and neither cookies nor anything of the environment (proxies, netrc).

    Args:
        tls: certificates; without it, those that the system trusts.
    """
    session = requests.Session()
    session.trust_env = False
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    session.verify = (None if tls is None else tls.cafile) or ssl.get_default_verify_paths().cafile or True
    if tls is not None and tls.mutual and tls.certfile is not None:
        session.cert = tls.certfile if tls.keyfile is None else (tls.certfile, tls.keyfile)
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=_KEPT_CONNECTIONS))
    return session


def exchange(
    session: requests.Session,
    method: str,
    url: str,
    body: bytes | None,
    headers: Mapping[str, str],
    timeout_s: float,
    params: Mapping[str, Any] | None = None,
) -> requests.Response:
    """Send one request with a JSON body, once, and return the answer, whatever its status.

    Raises:
        RequestFailed: No answer arrived within ``timeout_s`` seconds; the request may have been received.
    """
    sent = {"Content-Type": "application/json", **headers}
    try:
        return session.request(
            method, url, data=body, headers=sent, params=params, timeout=timeout_s, allow_redirects=False
        )
    except (requests.RequestException, ValueError) as error:
        text = f"{method} {url}: {type(error).__name__}: {error}"
        raise RequestFailed(text, request=getattr(error, "request", None)) from error


class HttpWire(Wire):
    """The kept-alive connections to one server; thread-safe. Redirects are not followed.

    A run's own processes make hundreds of calls per second. They use the connection pool of ``requests`` directly,
    because a session costs 0.2 ms more per call.
    """

    def __init__(
        self, host: str, port: int, https: bool = False, path: str | None = None, tls: TlsConfig | None = None
    ) -> None:
        self.address = join_http_address(host, port, https, path)
        self._path = f"/{(path or '').strip('/')}".rstrip("/")
        self._pool: urllib3.HTTPConnectionPool
        if https:
            context = ssl.create_default_context() if tls is None else tls.client_context()
            self._pool = urllib3.HTTPSConnectionPool(
                host.strip("[]"), port, maxsize=_KEPT_CONNECTIONS, ssl_context=context
            )
        else:
            self._pool = urllib3.HTTPConnectionPool(host.strip("[]"), port, maxsize=_KEPT_CONNECTIONS)

    def send(
        self, method: str, path: str, data: object, headers: Mapping[str, str], timeout_s: float
    ) -> ResponseValues:
        """See ``Wire.send``."""
        body = dumps({} if data is None else data)
        sent = {"Content-Type": "application/json", **headers}
        path = f"{self._path}/{path.lstrip('/')}"
        try:
            response = self._pool.urlopen(method, path, body, sent, retries=False, redirect=False, timeout=timeout_s)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise UnreachableError(f"{method} {self.address}{path}: {type(error).__name__}: {error}") from error
        try:
            return ResponseValues.from_body(response.status, response.data)
        except ValueError as error:
            if response.status in _REFUSED_BY_SERVER:
                return ResponseValues(
                    response.status, False, _REFUSED_BY_SERVER[response.status], response.reason or "", None
                )
            raise UnreachableError(f"{method} {self.address}{path}: the answer is no JSON") from error

    def close(self) -> None:
        """Close the kept connections."""
        self._pool.close()


class HttpTransport(Transport):
    """A Flask application behind a WSGI server, and the connection pool of ``requests``; over TLS when configured."""

    def __init__(self, tls: TlsConfig | None = None) -> None:
        self._tls = tls
        self.https = tls is not None and tls.certfile is not None

    def serve(self, endpoint: Endpoint, host: str, port: int) -> Server:
        """See ``Transport.serve``."""
        # Start-up time: only a serving process needs Flask and a server.
        from ding.interaction.base.server import PlainServer
        from ding.interaction.base.wsgi import service_app

        app = service_app(endpoint)
        if self._tls is not None and self.https:
            require_extra("cheroot", "tls")
            from ding.interaction.base.tls_server import TlsServer

            return TlsServer(app, host, port, endpoint.max_body_bytes, self._tls.server_context())
        return PlainServer(app, host, port, endpoint.max_body_bytes)

    def open(self, host: str, port: int, https: bool = False, path: str | None = None) -> Wire:
        """See ``Transport.open``."""
        return HttpWire(host, port, https, path, self._tls)
