"""The HTTP client of scripts: JSON over kept-alive connections, with retries."""

import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from ding.interaction.base.common import translate_dict_func
from ding.interaction.base.http import HttpResponse, HttpWire
from ding.interaction.base.tls import TlsConfig
from ding.interaction.config import (
    DEFAULT_REQUEST_RETRIES,
    DEFAULT_REQUEST_RETRY_WAITING,
    DEFAULT_REQUEST_TIMEOUT,
)
from ding.interaction.errors import UnreachableError
from ding.interaction.exception.response import HTTPError
from ding.interaction.messages import dumps


class HttpEngine:
    """Sends JSON requests to one server. May be used by several threads."""

    def __init__(
        self, host: str, port: int, https: bool = False, path: str | None = None, *, tls: TlsConfig | None = None
    ) -> None:
        self._wire = HttpWire(host, port, https, path, tls)

    @property
    def address(self) -> str:
        """Scheme, host, port and base path."""
        return self._wire.address

    def request(
        self,
        method: str,
        path: str,
        data: object = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        raise_for_status: bool = True,
        retries: int | None = None,
        retry_waiting: float | None = None,
        *,
        timeout_s: float = DEFAULT_REQUEST_TIMEOUT,
    ) -> HttpResponse:
        """Send ``data`` (JSON, an empty object if None) and return the answer.

        A request that got no answer is sent again up to ``retries`` times (default 5), ``retry_waiting`` seconds apart
        (default 1). An HTTP error is an answer and is not sent again.

        Raises:
            HTTPError: an answer of 400 or more, and ``raise_for_status``.
            UnreachableError: no answer.
            WireError: ``data`` cannot be sent as JSON.
        """
        left = DEFAULT_REQUEST_RETRIES if retries is None else retries
        body = dumps({} if data is None else data)
        if params:
            path = f"{path}?{urlencode(params)}"
        while True:
            try:
                response = self._wire.exchange(method, path, body, headers or {}, timeout_s)
                break
            except UnreachableError:
                if left <= 0:
                    raise
            left -= 1
            time.sleep(DEFAULT_REQUEST_RETRY_WAITING if retry_waiting is None else retry_waiting)
        if raise_for_status:
            response.raise_for_status()
        return response

    def close(self) -> None:
        """Close the kept connections."""
        self._wire.close()


def get_http_engine_class(
    headers: Mapping[str, Callable[..., Any]],
    data_processor: Callable[[Any], Any] | None = None,
    http_error_gene: Callable[[HTTPError], Exception] | None = None,
) -> Callable[..., type[HttpEngine]]:
    """A function that makes engine classes.

    ``get_http_engine_class(headers, ...)(*args)`` is a subclass of ``HttpEngine``. For each request it calls every
    function of ``headers`` with ``args`` for the value of that header, sends ``data_processor(data)``, and raises
    ``http_error_gene(error)`` in place of an ``HTTPError``.
    """
    header_values = translate_dict_func(headers)

    def make(*args: Any, **kwargs: Any) -> type[HttpEngine]:
        class _HttpEngine(HttpEngine):
            def request(self, method: str, path: str, data: object = None, *rest: Any, **options: Any) -> HttpResponse:
                computed = {name: str(value) for name, value in header_values(*args, **kwargs).items()}
                given = rest[0] if rest else options.pop("headers", None)
                sent = (data or {}) if data_processor is None else data_processor(data or {})
                try:
                    return super().request(method, path, sent, {**computed, **(given or {})}, *rest[1:], **options)
                except HTTPError as error:
                    if http_error_gene is None:
                        raise
                    raise http_error_gene(error) from error

        return _HttpEngine

    return make
