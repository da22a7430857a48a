"""A worker's token opens the calls of that worker, and no others."""

import threading

import pytest

from ding.interaction import Master, Slave
from ding.interaction.base.addresses import split_http_address
from ding.interaction.base.guard import TokenGuard
from ding.interaction.base.http import HttpTransport
from ding.interaction.base.transport import Client
from ding.interaction.exception import ResponseException, RunTokenInvalid
from ding.interaction.exception.response import get_master_exception_by_error
from ding.utils.credentials import wire_token, worker_token

WAIT_S = 20.0
RUN, OTHER_RUN = "r" * 32, "o" * 32


def of(name, role="collector", run=RUN):
    return worker_token(run, role, name)


class Host(Master):
    """Connects to each worker that enrols."""

    def __init__(self, **options):
        super().__init__(**options)
        self.admitted = threading.Event()

    def _enrolled(self, name, role, address, incarnation, resource):
        host, port, https, _ = split_http_address(address)
        self.new_connection(name, host, port, https, incarnation=incarnation).connect()
        self.admitted.set()


class Worker(Slave):
    def _process_task(self, task):
        return {"doubled": 2 * task["number"]}


class Recorder(HttpTransport):
    """Notes what each request shows, and its connection token."""

    def __init__(self):
        super().__init__()
        self.shown, self.tokens = set(), set()

    def open(self, *target):
        wire = super().open(*target)
        send = wire.send

        def note(method, path, data, headers, timeout_s):
            self.shown.add(headers["Authorization"].removeprefix("Bearer "))
            self.tokens.add(headers.get("Token"))
            return send(method, path, data, headers, timeout_s)

        wire.send = note
        return wire


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def master(recorder):
    with Host(port=0, run_token=RUN, transport=recorder) as master:
        yield master


def ask(port, token, method, path, body=None, connection_token=None):
    """Send a request with a token, and return the answer; raises as a client does."""
    headers = {**TokenGuard(token).headers(), "Channel": "0"}
    if connection_token is not None:
        headers["Token"] = connection_token
    wire = HttpTransport().open("127.0.0.1", port, False, None)
    client = Client(wire, headers, get_master_exception_by_error, retries=0)
    try:
        return client.request(method, path, body)
    finally:
        client.close()


@pytest.fixture
def refused():
    def check(*request, match=None):
        with pytest.raises(ResponseException, match=match) as caught:
            ask(*request)
        assert caught.value.status_code == 403

    return check


def enrolment(name, role="collector"):
    return {"name": name, "role": role, "address": "http://127.0.0.1:9", "incarnation": "i"}


@pytest.mark.parametrize("token", [RUN, of("c0")], ids=["run token", "worker token"])
def test_a_worker_enrols_and_no_other_token_than_its_own_is_shown(master, recorder, token):
    with Worker(port=0, run_token=token, transport=recorder, heartbeat_span=0) as worker:
        worker.enrol(master.my_address, "c0", "collector")
        assert master.admitted.wait(WAIT_S)
        task = master["c0"].new_task({"number": 4}).start().join(WAIT_S)
        assert task.result == {"doubled": 8}
        assert worker.ping()
    assert recorder.shown == {wire_token(of("c0"))}


@pytest.mark.parametrize(("name", "role"), [("c1", "collector"), ("c0", "learner"), ("coordinator", "collector")])
def test_it_does_not_enrol_as_another_one(master, refused, name, role):
    refused(master.port, of("c0"), "POST", "/slave/enrol", enrolment(name, role), match="that of the collector 'c0'")
    with Worker(port=0, run_token=of("c0")) as worker:
        worker.enrol(master.my_address, name, role)
        with pytest.raises(RunTokenInvalid):
            worker.wait_connected(WAIT_S)
    assert master.statistics().enrolments == 0


@pytest.mark.parametrize(("method", "path"), [("GET", "/status"), ("GET", "/ping"), ("DELETE", "/shutdown")])
def test_it_does_not_do_what_the_operator_of_a_run_does(master, refused, method, path):
    refused(master.port, of("c0"), method, path, match="does not open this")
    assert ask(master.port, RUN, "GET", "/status").data["slaves"] == []


def test_it_does_not_speak_for_another_one(master, recorder, refused):
    with Worker(port=0, run_token=of("c0")) as worker:
        worker.enrol(master.my_address, "c0", "collector")
        assert master.admitted.wait(WAIT_S)
        (stolen,) = recorder.tokens
        assert ask(master.port, of("c0"), "GET", "/slave/heartbeat", None, stolen).success
        refused(master.port, of("c1"), "GET", "/slave/heartbeat", None, stolen)
        refused(master.port, of("c1"), "DELETE", "/slave/leave", None, stolen)


@pytest.mark.parametrize("token", [RUN, of("c0")], ids=["run token", "worker token"])
def test_it_gives_no_tasks_to_another_one(refused, token):
    with Worker(port=0, run_token=token) as worker:
        worker.enrol("http://127.0.0.1:9", "c0", "collector")
        for path in ("/connect", "/task/new"):
            body = {"master": {"address": "http://127.0.0.1:9"}}
            refused(worker.port, of("c1"), "POST", path, body)
            refused(worker.port, of("c0", "learner"), "POST", path, body)
        assert ask(worker.port, of("c0"), "POST", "/connect", body, "connection").success


@pytest.mark.parametrize(
    "token",
    [of("c0", run=OTHER_RUN), of("c0").replace("c0", "c1"), wire_token(of("c0"))[:-1]],
    ids=["another run", "another name", "cut off"],
)
def test_what_was_not_made_of_the_run_token_opens_nothing(master, refused, token):
    for method, path in master.routes:
        refused(master.port, token, method, path)
