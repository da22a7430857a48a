"""How requests travel: a transport serves endpoints and opens wires to them.

A backend implements three small things: ``Transport.serve`` (and the ``Server`` that it returns), ``Transport.open``
(and the ``Wire`` that it returns). ``HttpTransport`` is in ``http.py``, ``InprocTransport`` in ``inproc.py``.
Retries, headers and errors are the business of ``Client``, the same for all.
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
"""Turns an error answer into the exception to raise."""

Target = tuple[str, int, bool, "str | None"]
"""Where a service listens: host, port, whether over TLS, base path."""


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
    def send(
        self, method: str, path: str, data: object, headers: Mapping[str, str], timeout_s: float
    ) -> ResponseValues:
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
        """Return a wire to an address; does not connect yet."""


class Client:
    """Requests to one peer: adds headers, sends again what got no answer, turns error answers into exceptions.

    Requests of this protocol are idempotent (tasks and results carry ids), so sending one twice is safe.
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
            ResponseException: an error answer.
            UnreachableError: no answer, after all tries.
            ServiceClosed: the client was closed.
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
        """No further tries; a request that waits for the next one gives up at once."""
        self._closed.set()
        self._wire.close()
