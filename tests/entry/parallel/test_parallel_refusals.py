"""A worker that the coordinator does not take, or that does not find it, ends with the reason (R22)."""

import threading
from types import SimpleNamespace

import pytest

from ding.entry.parallel.workers import CoordinatorUnreachable, WorkerRefused, WrongToken, serve
from ding.interaction import EnrolRefuse, Master, Slave
from ding.parallel.launch import Role, RoleContext
from ding.utils.credentials import worker_token

TOKEN, WAIT_S = "t" * 32, 20.0


class Host(Master):
    """Connects to every worker but those named ``bad``."""

    def _before_enrol(self, name, role, address, incarnation, resource):
        if name == "bad":
            raise EnrolRefuse("bad is quarantined")

    def _enrolled(self, name, role, address, incarnation, resource):
        self.new_connection(name, "127.0.0.1", int(address.rpartition(":")[2]), incarnation=incarnation).connect()


class Idle(Slave):
    def _process_task(self, task):
        return {}


@pytest.fixture
def host():
    with Host(port=0, run_token=TOKEN) as host:
        yield host


@pytest.fixture
def serve_one(tmp_path):
    """Serve with a slave as a role does."""

    def run(slave, name="learner0", **payload):
        context = RoleContext(Role(name, run, payload), str(tmp_path), TOKEN, {}, lambda message, droppable: None)
        return serve(SimpleNamespace(slave=slave), context, threading.Event())

    return run


def enrolled(slave, host, name="learner0"):
    slave.enrol(host if isinstance(host, str) else host.my_address, name, "learner")
    return slave


def test_the_older_of_two_with_one_name_ends(host, serve_one):
    with Idle(port=0, run_token=TOKEN, heartbeat_span=0) as old, Idle(port=0, run_token=TOKEN) as new:
        enrolled(old, host).wait_connected(WAIT_S)
        enrolled(new, host).wait_connected(WAIT_S)
        with pytest.raises(WorkerRefused, match="learner0 is not taken, or no more: A newer process has this name"):
            serve_one(old)


def test_one_that_is_refused_ends(host, serve_one):
    with Idle(port=0, run_token=TOKEN) as slave, pytest.raises(WorkerRefused, match="bad is quarantined"):
        serve_one(enrolled(slave, host, "bad"), "bad")


def test_one_with_a_wrong_token_ends_for_good(host, serve_one):
    with Idle(port=0, run_token="x" * 32) as slave, pytest.raises(WrongToken, match="not that of this run"):
        serve_one(enrolled(slave, host))


def test_one_with_the_token_of_another_worker_ends_for_good(host, serve_one):
    token = worker_token(TOKEN, "learner", "learner1")
    with Idle(port=0, run_token=token) as slave, pytest.raises(WrongToken, match="that of the learner 'learner1'"):
        serve_one(enrolled(slave, host))


def test_one_that_never_reached_a_coordinator_ends(serve_one):
    with Idle(port=0, run_token=TOKEN) as slave, pytest.raises(CoordinatorUnreachable, match="within 0 s"):
        serve_one(enrolled(slave, "http://127.0.0.1:9"), patience_s=60.0, first_contact_s=0.1)


def test_one_whose_coordinator_went_away_has_done_its_work(serve_one):
    with Idle(port=0, run_token=TOKEN, heartbeat_span=0, request_retries=0) as slave:
        with Host(port=0, run_token=TOKEN) as host:
            enrolled(slave, host).wait_connected(WAIT_S)
            threading.Timer(0.7, host.close).start()
            assert serve_one(slave, patience_s=0.1, first_contact_s=60.0) is True
