"""Workers asked for at an operator: a real server on loopback that speaks its API."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner

from ding.config import ConfigValueError
from ding.entry import cli, dist_add_replicas, dist_delete_replicas, dist_restart_replicas
from ding.worker.coordinator.errors import OperatorError

WHO = {"namespace": "ns", "coordinator_name": "job-coordinator"}


class Operator(ThreadingHTTPServer):
    """Holds the pods of one coordinator, as the operator of DI-engine does."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.pods = {"collectors": [], "learners": []}
        self.resources = {}
        self.made = 0
        self.full = False

    def add(self, kind, how_many, resources):
        for _ in range(how_many):
            name = f"job-{kind[:-1]}-{self.made}"
            self.made += 1
            self.pods[kind].append(name)
            self.resources[name] = resources


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        query = parse_qs(urlsplit(self.path).query)
        self._answer_to({key: values[0] for key, values in query.items()}, lambda body: None)

    def do_POST(self):
        failed = urlsplit(self.path).path.endswith("/failed")
        self._answer_to(self._body(), self._restart if failed else self._add)

    def do_DELETE(self):
        self._answer_to(self._body(), self._delete)

    def _body(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer_to(self, body, act):
        if not self.path.startswith("/v1alpha1/replicas"):
            return self._send(404, False, 10, f"no such path {self.path}")
        if (body.get("namespace"), body.get("coordinator")) != ("ns", "job-coordinator"):
            return self._send(400, False, 11, "coordinator not found")
        if self.server.full:
            return self._send(200, False, 12, "no node has room")
        act(body)
        return self._send(200, True, 0, "")

    def _add(self, body):
        for kind in ("collectors", "learners"):
            if kind in body:
                resources = dict(body[kind])
                self.server.add(kind, resources.pop("replicas"), resources)

    def _restart(self, body):
        for kind in ("collectors", "learners"):
            for name in body[kind]:
                self.server.pods[kind].remove(name)
                self.server.add(kind, 1, self.server.resources[name])

    def _delete(self, body):
        for kind in ("collectors", "learners"):
            keep = len(self.server.pods[kind]) - body[kind]["replicas"]
            del self.server.pods[kind][keep:]

    def _send(self, status, success, code, message):
        text = json.dumps({"success": success, "code": code, "message": message, "data": self.server.pods}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


@pytest.fixture(autouse=True)
def _no_pod(monkeypatch):
    for name in ("URL", "API_VERSION"):
        monkeypatch.delenv(f"KUBERNETES_SERVER_{name}", raising=False)
    for name in ("NAME", "NAMESPACE"):
        monkeypatch.delenv(f"KUBERNETES_POD_{name}", raising=False)


@pytest.fixture
def operator():
    server = Operator()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture
def address(operator):
    return f"127.0.0.1:{operator.server_port}"


def test_workers_come_go_and_are_started_anew(operator, address):
    said = dist_add_replicas("collector", replicas=3, cpus=2, memory="4Gi", **WHO, operator_server=address)
    assert said == "3 collector(s) more are asked for"
    dist_add_replicas("learner", gpus=1, **WHO, operator_server=f"http://{address}/")
    assert operator.pods == {
        "collectors": ["job-collector-0", "job-collector-1", "job-collector-2"],
        "learners": ["job-learner-3"],
    }
    assert operator.resources["job-collector-0"] == {"cpus": 2, "memory": "4Gi"}
    assert operator.resources["job-learner-3"] == {"gpus": 1}
    dist_restart_replicas("learner", restart_pod_name="job-learner-3", **WHO, operator_server=address)
    dist_delete_replicas("collector", replicas=2, **WHO, operator_server=address)
    assert operator.pods == {"collectors": ["job-collector-0"], "learners": ["job-learner-4"]}


def test_the_arguments_may_come_from_the_pod(operator, address, monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVER_URL", address)
    monkeypatch.setenv("KUBERNETES_POD_NAME", "job-coordinator")
    monkeypatch.setenv("KUBERNETES_POD_NAMESPACE", "ns")
    dist_add_replicas("collector")
    assert operator.pods["collectors"] == ["job-collector-0"]


def test_a_refusal_and_silence_are_errors(operator, address):
    operator.full = True
    with pytest.raises(OperatorError, match=r"refused to add 1 collector\(s\): code 12: no node has room"):
        dist_add_replicas("collector", **WHO, operator_server=address)
    with pytest.raises(OperatorError, match="code 11: coordinator not found"):
        dist_delete_replicas("learner", coordinator_name="other", namespace="ns", operator_server=address)
    operator.shutdown()
    operator.server_close()
    with pytest.raises(OperatorError, match=r"POST http://127\.0\.0\.1:[0-9]+/v1alpha1/replicas"):
        dist_add_replicas("collector", **WHO, operator_server=address)


def test_what_is_missing_is_named(monkeypatch):
    with pytest.raises(ConfigValueError, match=r"where is the operator.*--operator-server.*KUBERNETES_SERVER_URL$"):
        dist_add_replicas("collector", **WHO)
    with pytest.raises(ConfigValueError, match="kubeconfig alone does not lead there"):
        dist_add_replicas("collector", "config", **WHO)
    with pytest.raises(ConfigValueError, match="-cdn, --coordinator-name"):
        dist_delete_replicas("collector", namespace="ns", operator_server="x:1")
    with pytest.raises(ConfigValueError, match="-ns, --namespace"):
        dist_delete_replicas("collector", coordinator_name="c", operator_server="x:1")
    with pytest.raises(ConfigValueError, match="name of its pod"):
        dist_restart_replicas("collector", **WHO, operator_server="x:1")
    with pytest.raises(ConfigValueError, match="Did you mean 'learner'"):
        dist_add_replicas("lerner", **WHO, operator_server="x:1")
    with pytest.raises(ConfigValueError, match="at least 1, got 0"):
        dist_add_replicas("learner", replicas=0, **WHO, operator_server="x:1")
    for wrong in ("ftp://x:1", "http://x:1/path", "x:port", ""):
        with pytest.raises(ConfigValueError, match=r"operator"):
            dist_add_replicas("learner", **WHO, operator_server=wrong)


def test_the_command_line(operator, address):
    common = ["-m", "dist", "-cdn", "job-coordinator", "-ns", "ns", "--operator-server", address]
    run = CliRunner()
    done = run.invoke(cli, [*common, "--add", "collector", "-rs", "2", "--cpus", "1", "--memory", "1Gi"])
    assert (done.exit_code, done.output) == (0, "2 collector(s) more are asked for\n")
    assert operator.resources["job-collector-0"] == {"cpus": 1, "memory": "1Gi"}
    assert run.invoke(cli, [*common, "--restart", "collector", "-rpn", "job-collector-0"]).exit_code == 0
    assert run.invoke(cli, [*common, "--delete", "collector"]).exit_code == 0
    assert operator.pods["collectors"] == ["job-collector-1"]
    wrong = run.invoke(cli, [*common, "--add", "collector", "--delete", "collector"])
    assert wrong.exit_code == 2
    assert "one of --add, --delete and --restart" in wrong.output
    operator.full = True
    refused = run.invoke(cli, [*common, "--add", "learner"])
    assert refused.exit_code == 1
    assert "no node has room" in refused.output
