"""Masters, slaves and a raw wire on every backend."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ding.interaction import InprocTransport, Master, Slave, TaskFail
from ding.interaction.base.endpoint import Endpoint
from ding.interaction.base.http import HttpTransport
from ding.interaction.base.transport import Server, Transport, Wire

WAIT_S = 20.0
RUN_TOKEN = "0123456789abcdef" * 4


class Worker(Slave):
    """Adds numbers, fails in several ways, and waits until it is told to go on."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.go_on = threading.Event()
        self.waiting = threading.Semaphore(0)
        self.lost: list[str] = []
        self.lost_event = threading.Event()
        self.fenced: list[Exception] = []
        self.seen_tasks: list[Any] = []

    def _process_task(self, task: Any) -> Any:
        self.seen_tasks.append(task)
        name = task["name"]
        if name == "sum":
            return {"sum": task["a"] + task["b"]}
        if name == "echo":
            return task.get("value")
        if name == "wait":
            self.waiting.release()
            if not self.go_on.wait(WAIT_S):
                raise TimeoutError("nobody told the task to go on")
            return {"waited": True}
        if name == "exit":
            raise SystemExit(3)
        if name == "broken":
            raise ZeroDivisionError("by hand")
        if name == "unsendable":
            return {"value": object()}
        if name == "huge":
            return {"value": "x" * task["size"]}
        raise TaskFail(result={"message": "task name error"}, message=f"illegal task {name}")

    def _lost_connection(self, master_address: str, err: Exception) -> None:
        self.lost.append(master_address)
        self.lost_event.set()

    def _fenced(self, err: Exception) -> None:
        self.fenced.append(err)


class RecordingTransport(Transport):
    """Another transport; notes the token of each request."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.exposed = inner.exposed
        self.tokens: dict[tuple[int, str], str | None] = {}

    def serve(self, endpoint: Endpoint, host: str, port: int) -> Server:
        return self.inner.serve(endpoint, host, port)

    def open(self, host: str, port: int, https: bool = False, path: str | None = None) -> Wire:
        return RecordingWire(self.inner.open(host, port, https, path), self.tokens, port)


class RecordingWire(Wire):
    def __init__(self, inner: Wire, tokens: dict[tuple[int, str], str | None], port: int) -> None:
        self.inner, self.tokens, self.port = inner, tokens, port

    def send(self, method: str, path: str, data: Any, headers: Any, timeout_s: float) -> Any:
        self.tokens[self.port, path] = headers.get("Token")
        return self.inner.send(method, path, data, headers, timeout_s)

    def close(self) -> None:
        self.inner.close()


@pytest.fixture(params=["http", "inproc"])
def network(request: pytest.FixtureRequest) -> RecordingTransport:
    """One backend after the other."""
    return RecordingTransport(HttpTransport() if request.param == "http" else InprocTransport())


@pytest.fixture
def services() -> Iterator[Callable[[Any], Any]]:
    """``services(service)`` starts a service and closes it after the test."""
    started: list[Any] = []

    def start(service: Any) -> Any:
        service.start()
        started.append(service)
        return service

    yield start
    for service in reversed(started):
        if isinstance(service, Worker):
            service.go_on.set()
        service.close()


@pytest.fixture
def make_master(network: Transport, services: Callable[[Any], Any]) -> Callable[..., Master]:
    """A started master on the backend."""

    def make(cls: type[Master] = Master, **kwargs: Any) -> Master:
        kwargs = {"port": 0, "run_token": RUN_TOKEN, "transport": network, "request_retry_waiting": 0.01, **kwargs}
        return services(cls(**kwargs))

    return make


@pytest.fixture
def make_worker(network: Transport, services: Callable[[Any], Any]) -> Callable[..., Worker]:
    """A started worker on the backend."""

    def make(cls: type[Worker] = Worker, **kwargs: Any) -> Worker:
        kwargs = {"port": 0, "run_token": RUN_TOKEN, "transport": network, "request_retry_waiting": 0.01, **kwargs}
        return services(cls(**kwargs))

    return make


@pytest.fixture
def raw(network: Transport) -> Iterator[Callable[..., tuple[int, int]]]:
    """``raw(service, method, path, headers, data)`` sends a request by hand and returns (status, code)."""
    wires = []

    def send(service: Any, method: str, path: str, headers: dict[str, str] | None = None, data: Any = None) -> Any:
        wire = network.open("127.0.0.1", service.port)
        wires.append(wire)
        given = {"Authorization": f"Bearer {RUN_TOKEN}", **(headers or {})}
        given = {key: value for key, value in given.items() if value is not None}
        values = wire.send(method, path, data, given, WAIT_S)
        return values.status_code, values.code

    yield send
    for wire in wires:
        wire.close()
