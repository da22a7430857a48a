"""The HTTP client: keep-alive, JSON, deadlines, retries; and addresses."""

from __future__ import annotations

import http.cookiejar
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from ding.interaction.base.common import translate_dict_func
from ding.interaction.base.tls import TlsConfig
from ding.interaction.config import (
    DEFAULT_REQUEST_RETRIES,
    DEFAULT_REQUEST_RETRY_WAITING,
    DEFAULT_REQUEST_TIMEOUT,
    LOCAL_HOST,
)
from ding.interaction.wire import dumps

_POOL_SIZE = 32


def get_host_ip() -> str:
    """The address from which this host reaches others, or loopback where there is no route. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation: only the choice of the route matters
            return str(probe.getsockname()[0])
        except OSError:
            return LOCAL_HOST


def split_http_address(address: str, default_port: int | None = None) -> tuple[str, int, bool, str]:
    """``'https://1.2.3.4:8787/p'`` -> ``('1.2.3.4', 8787, True, '/p')``: host, port, whether https, path.

    The scheme may be left out (http). Without a port it is ``default_port``, or else 80 or 443.

    Raises:
        ValueError: another scheme, no host, or no valid port.
    """
    parts = urlsplit(address if "://" in address else f"http://{address}")
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{address!r}: expected an address with http or https, got {parts.scheme!r}")
    if not parts.hostname:
        raise ValueError(f"{address!r}: expected a host")
    https = parts.scheme == "https"
    port = parts.port
    if port is None:
        port = default_port if default_port is not None else (443 if https else 80)
    return parts.hostname, port, https, parts.path


def join_http_address(host: str, port: int, https: bool = False, path: str | None = None) -> str:
    """The address of ``host`` and ``port``; an IPv6 host is put in brackets."""
    name = f"[{host}]" if ":" in host and not host.startswith("[") else host
    suffix = "" if not path or path == "/" else "/" + path.strip("/")
    return f"{'https' if https else 'http'}://{name}:{port}{suffix}"


class HttpEngine:
    """Sends JSON requests to one server over kept-alive connections. May be used by several threads.

    The environment is not looked at (no proxies, no netrc), redirects are not followed, cookies are not kept.
    """

    def __init__(
        self, host: str, port: int, https: bool = False, path: str | None = None, *, tls: TlsConfig | None = None
    ) -> None:
        self._base = join_http_address(host, port, https, path)
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
        adapter = HTTPAdapter(pool_connections=1, pool_maxsize=_POOL_SIZE, max_retries=0)
        self._session.mount(self._base.split("//")[0] + "//", adapter)
        if tls is not None:
            self._session.verify = tls.verify
            self._session.cert = tls.client_certificate

    @property
    def address(self) -> str:
        """Scheme, host, port and base path."""
        return self._base

    def request(
        self,
        method: str,
        path: str,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        raise_for_status: bool = True,
        retries: int | None = None,
        retry_waiting: float | None = None,
        *,
        timeout_s: float = DEFAULT_REQUEST_TIMEOUT,
    ) -> requests.Response:
        """Send ``data`` (JSON, an empty object if None) and return the answer.

        A request that got no answer is sent again up to ``retries`` times (default 5), ``retry_waiting`` seconds apart
        (default 1). An HTTP error is an answer and is not sent again.

        Raises:
            requests.HTTPError: an answer of 400 or more, and ``raise_for_status``.
            requests.RequestException: no answer.
            WireError: ``data`` cannot be sent as JSON.
        """
        left = DEFAULT_REQUEST_RETRIES if retries is None else retries
        waiting = DEFAULT_REQUEST_RETRY_WAITING if retry_waiting is None else retry_waiting
        body = dumps({} if data is None else data)
        while True:
            try:
                response = self._send(method, path, body, headers, params, timeout_s)
                break
            except (requests.ConnectionError, requests.Timeout):
                if left <= 0:
                    raise
                left -= 1
                threading.Event().wait(waiting)
        if raise_for_status:
            response.raise_for_status()
        return response

    def close(self) -> None:
        """Close the kept connections."""
        self._session.close()

    def _send(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str] | None,
        params: Mapping[str, Any] | None,
        timeout_s: float,
    ) -> requests.Response:
        return self._session.request(
            method,
            f"{self._base}/{path.lstrip('/')}",
            data=body,
            headers={"Content-Type": "application/json", **(headers or {})},
            params=params,
            timeout=timeout_s,
            allow_redirects=False,
        )


def get_http_engine_class(
    headers: Mapping[str, Callable[..., Any]],
    data_processor: Callable[[Any], Any] | None = None,
    http_error_gene: Callable[[requests.HTTPError], Exception] | None = None,
) -> Callable[..., type[HttpEngine]]:
    """A function that makes engine classes.

    ``get_http_engine_class(headers, ...)(*args)`` is a subclass of ``HttpEngine``. For each request it calls every
    function of ``headers`` with ``args`` for the value of that header, sends ``data_processor(data)``, and raises
    ``http_error_gene(error)`` in place of an ``HTTPError``.
    """
    header_values = translate_dict_func(headers)

    def make(*args: Any, **kwargs: Any) -> type[HttpEngine]:
        class _HttpEngine(HttpEngine):
            def request(
                self, method: str, path: str, data: Any = None, *rest: Any, **options: Any
            ) -> requests.Response:
                computed = {name: str(value) for name, value in header_values(*args, **kwargs).items()}
                given = rest[0] if rest else options.pop("headers", None)
                sent = (data or {}) if data_processor is None else data_processor(data or {})
                try:
                    return super().request(method, path, sent, {**computed, **(given or {})}, *rest[1:], **options)
                except requests.HTTPError as error:
                    if http_error_gene is None:
                        raise
                    raise http_error_gene(error) from error

        return _HttpEngine

    return make
