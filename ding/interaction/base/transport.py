"""How requests travel: a transport serves endpoints and opens wires to them.

A backend implements three small things: ``Transport.serve`` (and the ``Server`` that it returns), ``Transport.open``
(and the ``Wire`` that it returns). ``HttpTransport`` is here, ``InprocTransport`` in ``ding.interaction.inproc``.
Retries, headers and errors are the business of ``Client``, the same for all.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import requests

from ding.interaction.base.endpoint import Endpoint
from ding.interaction.base.network import HttpEngine
from ding.interaction.base.tls import TlsConfig
from ding.interaction.config import (
    DEFAULT_REQUEST_RETRIES,
    DEFAULT_REQUEST_RETRY_WAITING,
    DEFAULT_REQUEST_TIMEOUT,
)
from ding.interaction.exception.base import ResponseException, ServiceClosed, UnreachableError
from ding.interaction.values import ResponseValues, get_values_from_response


class Server(ABC):
    """An endpoint that listens. ``host`` and ``port`` are what it really listens on."""

    host: str
    port: int

    @abstractmethod
    def close(self) -> None:
        """Stop listening and free the port. Answers that are under way are sent. Must not be called by a handler."""


class Wire(ABC):
    """The way to one endpoint. May be used by several threads."""

    @abstractmethod
    def send(self, method: str, path: str, data: Any, headers: Mapping[str, str], timeout_s: float) -> ResponseValues:
        """Send one request, once, and return the answer, an error answer too.

        Raises:
            UnreachableError: there was no answer; the request may or may not have arrived.
            WireError: ``data`` cannot be sent as JSON.
        """

    @abstractmethod
    def close(self) -> None:
        """Free what the wire holds."""


class Transport(ABC):
    """A way in which masters and slaves reach each other."""

    #: Whether other machines can reach what is served (then the bind rules hold).
    exposed: bool = True
    #: Whether addresses begin with https.
    https: bool = False

    @abstractmethod
    def serve(self, endpoint: Endpoint, host: str, port: int) -> Server:
        """Listen; port 0 takes a free one.

        Raises:
            PortTakenError: the port is in use.
        """

    @abstractmethod
    def open(self, host: str, port: int, https: bool = False, path: str | None = None) -> Wire:
        """A wire to an address; does not connect yet."""


class HttpWire(Wire):
    """A wire over HTTP with kept-alive connections."""

    def __init__(self, engine: HttpEngine) -> None:
        self._engine = engine

    def send(self, method: str, path: str, data: Any, headers: Mapping[str, str], timeout_s: float) -> ResponseValues:
        """See ``Wire.send``."""
        try:
            response = self._engine.request(
                method, path, data, headers, raise_for_status=False, retries=0, timeout_s=timeout_s
            )
        except requests.RequestException as error:
            raise UnreachableError(f"{method} {self._engine.address}{path}: {type(error).__name__}: {error}") from error
        try:
            return get_values_from_response(response)
        except ValueError as error:
            raise UnreachableError(f"{method} {self._engine.address}{path}: the answer is no JSON") from error

    def close(self) -> None:
        """Close the kept connections."""
        self._engine.close()


class HttpTransport(Transport):
    """HTTP/1.1: a Flask app served by waitress, and ``requests`` sessions; over TLS when configured."""

    def __init__(self, tls: TlsConfig | None = None) -> None:
        self._tls = tls
        self.https = tls is not None and tls.certfile is not None

    def serve(self, endpoint: Endpoint, host: str, port: int) -> Server:
        """See ``Transport.serve``."""
        from ding.interaction.base.server import HttpServer

        context = self._tls.server_context() if self._tls is not None and self.https else None
        return HttpServer(endpoint, host, port, context)

    def open(self, host: str, port: int, https: bool = False, path: str | None = None) -> Wire:
        """See ``Transport.open``."""
        return HttpWire(HttpEngine(host, port, https, path, tls=self._tls))


class Client:
    """Requests to one peer: adds headers, sends again what got no answer, turns error answers into exceptions.

    Requests of this protocol are idempotent (tasks and results carry ids), so sending one twice is safe.
    """

    def __init__(
        self,
        wire: Wire,
        headers: Callable[[], Mapping[str, str]],
        error_of: Callable[[ResponseValues], ResponseException],
        retries: int = DEFAULT_REQUEST_RETRIES,
        retry_waiting_s: float = DEFAULT_REQUEST_RETRY_WAITING,
    ) -> None:
        self._wire = wire
        self._headers = headers
        self._error_of = error_of
        self._retries = retries
        self._retry_waiting_s = retry_waiting_s
        self._closed = threading.Event()

    def request(
        self,
        method: str,
        path: str,
        data: Any = None,
        retries: int | None = None,
        timeout_s: float = DEFAULT_REQUEST_TIMEOUT,
    ) -> ResponseValues:
        """Send a request; each try waits up to ``timeout_s`` for the answer.

        Raises:
            ResponseException: an error answer.
            UnreachableError: no answer, after all tries.
            ServiceClosed: the client was closed.
        """
        left = self._retries if retries is None else retries
        while not self._closed.is_set():
            try:
                values = self._wire.send(method, path, data, self._headers(), timeout_s)
            except UnreachableError:
                if left <= 0:
                    raise
                left -= 1
                self._closed.wait(self._retry_waiting_s)
                continue
            if values.status_code >= 300 or not values.success:
                raise self._error_of(values)
            return values
        raise ServiceClosed(f"{method} {path}: the client is closed")

    def close(self) -> None:
        """No further tries; a request that waits for the next one gives up at once."""
        self._closed.set()
        self._wire.close()


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
        from ding.interaction.inproc import default_network

        return default_network()
    raise ValueError(f"transport must be 'http', 'inproc' or a Transport, got {transport!r}")
