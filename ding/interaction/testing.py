"""Test doubles: a clock moved by hand, and a network that loses and duplicates messages."""

import random
import threading
from collections.abc import Callable, Mapping

from ding.interaction.base.endpoint import Endpoint
from ding.interaction.base.transport import Server, Transport, Wire
from ding.interaction.errors import UnreachableError
from ding.interaction.messages import ResponseValues

#: Fates of a request: it never arrives; it arrives but its answer does not; it arrives twice.
FAULTS = ("drop_request", "drop_answer", "duplicate")


class FakeClock:
    """A clock for ``Master(clock=...)`` that only ``advance`` moves."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        self._now += seconds


def random_faults(rate: float, seed: int) -> Callable[[str, str], str | None]:
    """Return a chooser for ``FaultyTransport`` that draws each kind of fault with probability ``rate``."""
    source = random.Random(seed)
    lock = threading.Lock()

    def choose(_method: str, _path: str) -> str | None:
        with lock:
            draw = source.random()
        position = int(draw / rate) if rate > 0 else len(FAULTS)
        return FAULTS[position] if position < len(FAULTS) else None

    return choose


class FaultyTransport(Transport):
    """A transport with faults: ``choose(method, path)`` returns one of ``FAULTS`` or None for each request."""

    def __init__(self, inner: Transport, choose: Callable[[str, str], str | None]) -> None:
        self._inner = inner
        self._choose = choose
        self.exposed = inner.exposed
        self.https = inner.https

    def serve(self, endpoint: Endpoint, host: str, port: int) -> Server:
        """Serve over the wrapped transport."""
        return self._inner.serve(endpoint, host, port)

    def open(self, host: str, port: int, https: bool = False, path: str | None = None) -> Wire:
        """Return a wire of the other transport, with faults."""
        return _FaultyWire(self._inner.open(host, port, https, path), self._choose)


class _FaultyWire(Wire):
    def __init__(self, inner: Wire, choose: Callable[[str, str], str | None]) -> None:
        self._inner = inner
        self._choose = choose

    def send(
        self, method: str, path: str, data: object, headers: Mapping[str, str], timeout_s: float
    ) -> ResponseValues:
        """See ``Wire.send``."""
        fault = self._choose(method, path)
        if fault == "drop_request":
            raise UnreachableError(f"{method} {path}: the request was dropped")
        values = self._inner.send(method, path, data, headers, timeout_s)
        if fault == "drop_answer":
            raise UnreachableError(f"{method} {path}: the answer was dropped")
        if fault == "duplicate":
            return self._inner.send(method, path, data, headers, timeout_s)
        return values

    def close(self) -> None:
        """Close the other wire."""
        self._inner.close()
