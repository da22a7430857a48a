import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from ding.worker.coordinator import NaiveResourceManager, OperatorServer
from ding.worker.coordinator.errors import OperatorError, WorkersMissing
from ding.worker.coordinator.operator_sync import OperatorSync
from ding.worker.coordinator.resource_manager import WorkerState


class FakeOperator(ThreadingHTTPServer):
    """Creates workers on POST, lists them on GET."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen = []
        self.workers = {"collectors": [], "learners": []}
        self.answer = None


class Handler(BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path, json.loads(body) if body else None))
        if self.command == "POST" and self.path.endswith("/replicas"):
            self.server.workers = {"collectors": ["c0.s.n:1", "c1.s.n:2"], "learners": ["l0.s.n:3"]}
        usual = {"success": True, "code": 0, "message": "", "data": self.server.workers}
        text = json.dumps(usual if self.server.answer is None else self.server.answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *args):
        pass


@pytest.fixture
def operator():
    server = FakeOperator()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture
def client(operator, monkeypatch):
    monkeypatch.setenv("KUBERNETES_POD_NAME", "pod")
    client = OperatorServer("127.0.0.1", operator.server_port)
    yield client
    client.close()


def test_requests_are_those_of_the_protocol(operator, client):
    assert client.post_replicas({"collectors": {"replicas": 2}}).success
    assert client.get_replicas().data["learners"] == ["l0.s.n:3"]
    client.get_replicas("other")
    client.post_replicas_failed(["c0"], ["l0"])
    client.set_worker_type("aggregator")
    client.delete_replicas(n_collectors=1)
    who = {"namespace": "default", "coordinator": "pod"}
    assert operator.seen == [
        ("POST", "/v1alpha1/replicas", {"collectors": {"replicas": 2}, **who}),
        ("GET", "/v1alpha1/replicas?namespace=default&coordinator=pod", None),
        ("GET", "/v1alpha1/replicas?namespace=default&name=other", None),
        ("POST", "/v1alpha1/replicas/failed", {**who, "collectors": ["c0"], "learners": ["l0"]}),
        ("DELETE", "/v1alpha1/replicas", {"namespace": "default", "aggregator": "pod",
                                          "collectors": {"replicas": 1}, "learners": {"replicas": 0}}),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="Did you mean 'aggregator'"):
        client.set_worker_type("agregator")


def test_an_operator_that_does_not_answer_is_told(client, operator):
    operator.shutdown()
    operator.server_close()
    with pytest.raises(OperatorError, match="replicas"):
        client.get_replicas()


class Comm:
    def __init__(self, unreachable=()):
        self.connected, self.dropped, self.unreachable = [], [], set(unreachable)

    def connect_worker(self, name, role, host, port):
        if name in self.unreachable:
            return False
        self.connected.append((role, host, port))
        return True

    def drop_worker(self, name, role, reason):
        self.dropped.append(name)


def sync(client, comm, **targets):
    counts = []
    callbacks = SimpleNamespace(
        deal_with_increase_collector=lambda: counts.append(1), deal_with_decrease_collector=lambda: counts.append(-1)
    )
    cfg = {"init_replicas_request": {"collectors": {"replicas": 2}}, **targets}
    return OperatorSync(cfg, comm, callbacks, MagicMock(), client), counts


def test_workers_of_the_operator_are_connected_and_vanished_ones_dropped(operator, client):
    comm = Comm()
    one, counts = sync(client, comm, collector_target_num=2, learner_target_num=1)
    one.start(time.monotonic() + 10)
    one.close()
    assert sorted(comm.connected) == [("collector", "c0.s.n", 1), ("collector", "c1.s.n", 2), ("learner", "l0.s.n", 3)]
    operator.workers["collectors"] = ["c1.s.n:2"]
    one.look()
    assert comm.dropped == ["c0.s.n:1"]
    assert counts == [1, 1, -1]


@pytest.mark.parametrize(
    "answer",
    [
        {"success": True, "code": "none", "data": None},
        {"success": True, "code": None, "data": None},
        {"success": True, "code": 0, "data": ["c0.s.n:1"]},
        {"success": True, "code": 0, "data": {"collectors": 5}},
        {"success": True, "code": 0, "data": {"collectors": {"c0.s.n:1": 1}}},
        {"success": True, "code": 0, "data": {"learners": [7]}},
        [],
    ],
)
def test_an_answer_of_the_wrong_form_ends_nothing(operator, client, answer):
    comm = Comm()
    one, _ = sync(client, comm)
    one.look()
    operator.answer = answer
    with pytest.raises(OperatorError):
        one.look()
    assert comm.dropped == []
    operator.answer = None
    one.look()


def test_both_targets_must_be_reached_and_failures_are_reported(operator, client):
    comm = Comm(unreachable=["l0.s.n:3"])
    one, _ = sync(client, comm, collector_target_num=2, learner_target_num=1)
    with pytest.raises(WorkersMissing, match="'learner': 0"):
        one.start(time.monotonic())
    one.look()
    assert [body["learners"] for method, path, body in operator.seen if path.endswith("failed")] == [["l0.s"]]


def test_resource_manager_knows_idle_busy_and_gone():
    manager = NaiveResourceManager()
    assert manager.assign_collector({}) is None
    manager.update("collector", "c0", {"gpu": 1})
    assert not manager.have_assigned("collector", "c0")
    assert manager.assign_collector({}) == {"collector_id": "c0", "resource_info": {"gpu": 1}}
    assert manager.have_assigned("collector", "c0")
    assert manager.assign_collector({}) is None
    manager.update("learner", "l0", {})
    assert manager.assign_learner({})["learner_id"] == "l0"
    manager.update("collector", "c0", {"gpu": 2})
    assert manager.state("collector", "c0") is WorkerState.IDLE
    assert manager.count("collector", WorkerState.IDLE) == manager.count("collector") == 1
    assert manager.delete("collector", "c0")
    assert not manager.delete("collector", "c0")
    assert manager.assign_collector({}) is None
    with pytest.raises(AssertionError, match="Did you mean 'learner'"):
        manager.update("lerner", "x", {})
