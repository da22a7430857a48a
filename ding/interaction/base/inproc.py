"""The control plane within one process: for tests, debugging and notebooks.

The same masters and slaves, with the same checks and errors, without sockets::

    network = InprocTransport()
    master = Master(transport=network)
    slave = MySlave(port=0, transport=network)

``transport='inproc'`` uses the default network of the process. Addresses look like those of HTTP, but exist only within
the network. Messages are encoded as JSON, so code that works here also works over HTTP.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ding.interaction.base.endpoint import Endpoint
from ding.interaction.base.transport import Server, Transport, Wire
from ding.interaction.errors import PortTakenError, UnreachableError
from ding.interaction.messages import ResponseValues, dumps

if TYPE_CHECKING:
    from flask import Flask

_FIRST_EPHEMERAL_PORT = 49152


class InprocTransport(Transport):
    """An in-process network. All methods are atomic; a request is handled in the thread that sends it."""

    exposed = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._apps: dict[int, Flask] = {}
        self._next_port = _FIRST_EPHEMERAL_PORT

    def serve(self, endpoint: Endpoint, host: str, port: int) -> Server:
        """See ``Transport.serve``. All host names refer to the same host."""
        from ding.interaction.base.wsgi import service_app  # start-up time: brings Flask

        with self._lock:
            if port == 0:
                port = self._next_port
                self._next_port += 1
            if port in self._apps:
                raise PortTakenError(f"port {port} of the in-process network is taken")
            self._apps[port] = service_app(endpoint)
        return _InprocServer(self, host, port)

    def open(self, host: str, port: int, https: bool = False, path: str | None = None) -> Wire:
        """See ``Transport.open``."""
        return _InprocWire(self, port, (path or "").rstrip("/"))

    def find(self, port: int) -> Flask | None:
        """Return the application that listens on ``port``."""
        with self._lock:
            return self._apps.get(port)

    def remove(self, port: int) -> None:
        """Free ``port``."""
        with self._lock:
            self._apps.pop(port, None)


class _InprocServer(Server):
    def __init__(self, network: InprocTransport, host: str, port: int) -> None:
        self._network = network
        self.host = host
        self.port = port

    def close(self) -> None:
        """Free the port."""
        self._network.remove(self.port)


class _InprocWire(Wire):
    def __init__(self, network: InprocTransport, port: int, base: str) -> None:
        self._network = network
        self._port = port
        self._base = base

    def send(
        self, method: str, path: str, data: object, headers: Mapping[str, str], timeout_s: float
    ) -> ResponseValues:
        """See ``Wire.send``. Without a time-out: handlers do not block."""
        app = self._network.find(self._port)
        if app is None:
            raise UnreachableError(f"{method} {path}: nothing listens on port {self._port} of the in-process network")
        body = dumps({} if data is None else data)
        with app.test_client() as client:
            answer = client.open(f"{self._base}/{path.lstrip('/')}", method=method, data=body, headers=dict(headers))
        return ResponseValues.from_body(answer.status_code, answer.get_data())

    def close(self) -> None:
        """Do nothing: no resources are held."""


_default: InprocTransport | None = None
_default_lock = threading.Lock()


def default_network() -> InprocTransport:
    """Return the network behind ``transport='inproc'``."""
    global _default
    with _default_lock:
        if _default is None:
            _default = InprocTransport()
        return _default
