"""Transports of requests: a transport serves endpoints and opens wires to them.

A backend implements two methods: ``Transport.serve`` (and the ``Server`` that it returns), ``Transport.open`` (and the
``Wire`` that it returns). ``HttpTransport`` is in ``http.py``, ``InprocTransport`` in ``inproc.py``. Retries, headers
and errors are the business of ``Client``, the same for all.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from ding.interaction.base.endpoint import Endpoint
from ding.interaction.config import (
    DEFAULT_REQUEST_RETRIES,
    DEFAULT_REQUEST_RETRY_WAITING,
    DEFAULT_REQUEST_TIMEOUT,
)
from ding.interaction.errors import ServiceClosed, UnreachableError
from ding.interaction.exception.response import ResponseException
from ding.interaction.messages import ResponseValues

ErrorOf = Callable[[ResponseValues], ResponseException]
"""Convert an error answer to the exception to raise."""

Target = tuple[str, int, bool, "str | None"]
"""Address of a service: host, port, whether over TLS, base path."""


class Server(ABC):
    """A listening endpoint. ``host`` and ``port`` are the actual address."""

    host: str
    port: int

    @abstractmethod
    def close(self) -> None:
        """Stop listening and free the port. Pending answers are sent. Must not be called by a handler."""


class Wire(ABC):
    """A channel to one endpoint. Thread-safe."""

    @abstractmethod
    def send(
        self, method: str, path: str, data: object, headers: Mapping[str, str], timeout_s: float
    ) -> ResponseValues:
        """Send one request once and return the answer, including error answers.

        Raises:
            UnreachableError: There was no answer; the request may or may not have arrived.
            WireError: ``data`` cannot be sent as JSON.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the resources of the wire."""


class Transport(ABC):
    """Means of communication between masters and slaves."""

    #: Whether other machines can reach served endpoints (then the bind rules apply).
    exposed: bool = True
    #: Whether addresses begin with https.
    https: bool = False

    @abstractmethod
    def serve(self, endpoint: Endpoint, host: str, port: int) -> Server:
        """Start listening; port 0 takes a free one.

        Raises:
            PortTakenError: The port is in use.
        """

    @abstractmethod
    def open(self, host: str, port: int, https: bool = False, path: str | None = None) -> Wire:
        """Return a wire to an address, without connecting yet."""


class Client:
    """Send requests to one peer: add headers, retry requests without an answer, and raise error answers as exceptions.

    Requests of this protocol are idempotent (tasks and results carry ids), so retries are safe.
    """

    def __init__(
        self,
        wire: Wire,
        headers: Mapping[str, str],
        error_of: ErrorOf,
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
        data: object = None,
        retries: int | None = None,
        timeout_s: float = DEFAULT_REQUEST_TIMEOUT,
    ) -> ResponseValues:
        """Send a request; each try waits up to ``timeout_s`` for the answer.

        Raises:
            ResponseException: The answer is an error.
            UnreachableError: No try was answered.
            ServiceClosed: The client was closed.
        """
        left = self._retries if retries is None else retries
        while not self._closed.is_set():
            try:
                values = self._wire.send(method, path, data, self._headers, timeout_s)
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
        """Stop retrying; a request waiting for its next try fails at once."""
        self._closed.set()
        self._wire.close()
