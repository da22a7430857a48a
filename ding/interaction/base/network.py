"""The HTTP client of scripts: JSON over a session of ``requests``, with retries."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from requests import HTTPError, Response

from ding.interaction.base.addresses import join_http_address
from ding.interaction.base.common import translate_dict_func
from ding.interaction.base.http import RequestFailed, exchange, make_session
from ding.interaction.base.tls import TlsConfig
from ding.interaction.config import (
    DEFAULT_REQUEST_RETRIES,
    DEFAULT_REQUEST_RETRY_WAITING,
    DEFAULT_REQUEST_TIMEOUT,
)
from ding.interaction.messages import dumps


class HttpEngine:
    """Send JSON requests to one server. Thread-safe.

    A subclass may override ``_base_headers``, ``_data_process`` and ``_error_handler``.

    Args:
        host: name or address of the server.
        port: its port.
        https: Whether to use TLS.
        path: first part of all paths.
        tls: Certificates; by default those trusted by the system.
    """

    def __init__(
        self, host: str, port: int, https: bool = False, path: str | None = None, *, tls: TlsConfig | None = None
    ) -> None:
        self._address = join_http_address(host, port, https, path)
        #: The ``requests.Session`` behind the engine, for adapters, mocks and settings of your own.
        self.session = make_session(tls)

    @property
    def address(self) -> str:
        """Scheme, host, port and base path."""
        return self._address

    def get_url(self, path: str | None = None) -> str:
        """Return the URL of a path of the server."""
        return f"{self._address}/{(path or '').lstrip('/')}"

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
    ) -> Response:
        """Send ``data`` as JSON and return the answer.

        A request without an answer is retried. An HTTP error is an answer, so it is not retried.

        Args:
            method: HTTP method.
            path: path below the address of the engine.
            data: a JSON value; an empty object when None.
            headers: headers of this request.
            params: query parameters.
            raise_for_status: whether an answer of 400 or more is an error.
            retries: Number of retries; 5 by default.
            retry_waiting: seconds between two tries; 1 by default.
            timeout_s: seconds to wait for an answer.

        Raises:
            requests.HTTPError: The status is 400 or more, and ``raise_for_status`` is set.
            UnreachableError: There was no answer; it is also a ``requests.ConnectionError``.
            WireError: ``data`` cannot be sent as JSON.
        """
        left = DEFAULT_REQUEST_RETRIES if retries is None else retries
        body = dumps(self._data_process({} if data is None else data))
        sent = {**self._base_headers(), **(headers or {})}
        while True:
            try:
                response = exchange(self.session, method, self.get_url(path), body, sent, timeout_s, params)
                break
            except RequestFailed as error:
                if left <= 0:
                    return self._error_handler(error)
            left -= 1
            time.sleep(DEFAULT_REQUEST_RETRY_WAITING if retry_waiting is None else retry_waiting)
        if raise_for_status:
            try:
                response.raise_for_status()
            except HTTPError as error:
                return self._error_handler(error)
        return response

    def close(self) -> None:
        """Close the kept connections."""
        self.session.close()

    def _base_headers(self) -> Mapping[str, str]:
        """Return the headers added to each request."""
        return {}

    def _data_process(self, data: Any) -> object:
        """Convert the data of a request to the data that is sent."""
        return data

    def _error_handler(self, error: Exception) -> Response:
        """Raise the error of a request, or another one, or return a replacement answer."""
        raise error


def get_http_engine_class(
    headers: Mapping[str, Callable[..., Any]],
    data_processor: Callable[[Any], Any] | None = None,
    http_error_gene: Callable[[HTTPError], Exception] | None = None,
) -> Callable[..., type[HttpEngine]]:
    """Return a function that makes engine classes.

    ``get_http_engine_class(headers, ...)(*args)`` is a subclass of ``HttpEngine``. For each request it calls every
    function of ``headers`` with ``args`` for the value of that header, sends ``data_processor(data)``, and raises
    ``http_error_gene(error)`` in place of a ``requests.HTTPError``.
    """
    header_values = translate_dict_func(headers)

    def make(*args: Any, **kwargs: Any) -> type[HttpEngine]:
        class _HttpEngine(HttpEngine):
            def _base_headers(self) -> Mapping[str, str]:
                return {name: str(value) for name, value in header_values(*args, **kwargs).items()}

            def _data_process(self, data: Any) -> object:
                return data if data_processor is None else data_processor(data)

            def _error_handler(self, error: Exception) -> Response:
                if http_error_gene is not None and isinstance(error, HTTPError):
                    raise http_error_gene(error) from error
                raise error

        return _HttpEngine

    return make
