"""Lost connections, enrolment, fencing, and messages that are lost or doubled; on every backend."""

from __future__ import annotations

import itertools
import threading
from collections import Counter

import pytest

from ding.interaction import EnrolRefuse, Master, TaskStatus
from ding.interaction.base.addresses import split_http_address
from ding.interaction.exception import (
    ConnectionLost,
    ConnectTimeout,
    EnrolRefused,
    IncarnationFenced,
    PortTakenError,
    ServiceClosed,
    SlaveSystemShuttingDown,
    TaskTimeout,
)
from ding.interaction.testing import FakeClock, FaultyTransport, random_faults

WAIT_S = 20.0


class Host(Master):
    """Connects to every worker that enrols."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.lost = []
        self.lost_event = threading.Event()
        self.admitted = threading.Semaphore(0)
        self.workers = []
        self.connect_back = True
        self.refuse = False
        self.may_connect = threading.Event()
        self.may_connect.set()

    def _before_enrol(self, name, role, address, incarnation, resource):
        if self.refuse:
            raise EnrolRefuse(f"no more {role}")

    def _enrolled(self, name, role, address, incarnation, resource):
        self.workers.append((name, role, incarnation, resource))
        self.may_connect.wait(WAIT_S)
        if self.connect_back:
            host, port, https, _ = split_http_address(address)
            self.new_connection(name, host, port, https, incarnation=incarnation).connect()
        self.admitted.release()

    def _lost_connection(self, connection, reason):
        self.lost.append((connection.name, reason))
        self.lost_event.set()


@pytest.fixture
def clock():
    return FakeClock(1000.0)


def connect(master, worker, name="conn"):
    connection = master.new_connection(name, "127.0.0.1", worker.port)
    connection.connect()
    return connection


def test_a_silent_slave_is_lost_and_its_tasks_fail_at_once(make_master, make_worker, clock):
    master, worker = make_master(Host, clock=clock, heartbeat_tolerance=10, heartbeat_check_span=100), make_worker()
    connection = connect(master, worker)
    calls = []
    task = connection.new_task({"name": "wait"}).on_fail(lambda data, result: calls.append(data["name"])).start()
    master.check_slaves()
    clock.advance(10.0)
    master.check_slaves()
    assert connection.is_connected
    clock.advance(0.1)
    master.check_slaves()
    assert not connection.is_connected
    assert "conn" not in master
    assert task.join(WAIT_S).status == TaskStatus.FAILED
    assert isinstance(task.error, ConnectionLost)
    assert "silent for 10.1 s" in task.result["message"]
    assert calls == ["wait"]
    assert master.lost_event.wait(WAIT_S)
    assert [name for name, _ in master.lost] == ["conn"]
    assert master.statistics().connections_lost == 1
    with pytest.raises(ConnectionLost):
        connection.new_task({"name": "sum"}).start()


def test_a_master_that_stood_still_itself_is_patient(make_master, make_worker, clock):
    master, worker = make_master(clock=clock, heartbeat_tolerance=10, heartbeat_check_span=1), make_worker()
    connection = connect(master, worker)
    master.check_slaves()
    clock.advance(3600.0)
    master.check_slaves()
    assert connection.is_connected


def test_heartbeats_keep_a_connection(make_master, make_worker, clock):
    master, worker = (
        make_master(clock=clock, heartbeat_tolerance=10, heartbeat_check_span=100),
        make_worker(heartbeat_span=0),
    )
    heard = threading.Event()
    master._heard = lambda connection: heard.set()
    connection = connect(master, worker)
    clock.advance(9.0)
    assert heard.wait(WAIT_S)
    assert connection.last_seen == 1009.0
    clock.advance(9.0)
    assert connection.is_connected


def test_a_slave_notices_that_it_was_dropped_and_is_free_again(make_master, make_worker):
    master, worker = make_master(), make_worker(heartbeat_span=0)
    connect(master, worker)
    assert master.lose("conn", "gone")
    assert not master.lose("conn", "gone")
    assert worker.lost_event.wait(WAIT_S)
    assert worker.lost == [master.my_address]
    assert not worker.is_connected
    connection = connect(master, worker)
    assert connection.new_task({"name": "sum", "a": 1, "b": 1}).start().join(WAIT_S).result == {"sum": 2}


def test_a_late_result_of_a_lost_connection_is_rejected_and_counted(make_master, make_worker):
    master, worker = make_master(), make_worker()
    connection = connect(master, worker)
    task = connection.new_task({"name": "wait"}).start()
    assert worker.waiting.acquire(timeout=WAIT_S)
    master.lose("conn", "lease expired")
    assert task.join(WAIT_S).status == TaskStatus.FAILED
    worker.go_on.set()
    assert worker.lost_event.wait(WAIT_S)  # the rejected result is how the slave learns of it
    assert master.statistics().results_rejected == 1
    assert task.status == TaskStatus.FAILED


def test_a_late_result_is_dropped_and_counted_by_a_slave_that_knows_that_its_connection_is_over(
    make_master, make_worker
):
    master, worker = make_master(), make_worker(heartbeat_span=0)
    task = connect(master, worker).new_task({"name": "wait"}).start()
    assert worker.waiting.acquire(timeout=WAIT_S)
    master.lose("conn", "lease expired")
    assert worker.lost_event.wait(WAIT_S)  # by its heartbeat
    connect(master, worker)
    worker.go_on.set()
    worker.close()  # waits for the end of the task
    assert worker.statistics().results_dropped == 1
    assert master.statistics().results_rejected == 0
    assert task.status == TaskStatus.FAILED


def test_a_slave_that_closes_says_goodbye(make_master, make_worker):
    master, worker = make_master(Host), make_worker()
    connection = connect(master, worker)
    task = connection.new_task({"name": "wait"}).start()
    assert worker.waiting.acquire(timeout=WAIT_S)
    worker.go_on.set()
    worker.close()
    assert task.join(WAIT_S).status in (TaskStatus.FAILED, TaskStatus.COMPLETED)
    assert not connection.is_connected
    assert master.lost_event.wait(WAIT_S)
    assert master.lost == [("conn", "'conn' has left")]


def test_a_master_that_closes_frees_its_slaves_and_fails_its_tasks(make_master, make_worker):
    master, worker = make_master(), make_worker()
    connection = connect(master, worker)
    task = connection.new_task({"name": "wait"}).start()
    assert worker.waiting.acquire(timeout=WAIT_S)
    master.close()
    assert task.join(WAIT_S).status == TaskStatus.FAILED
    assert not worker.is_connected
    worker.go_on.set()
    with pytest.raises(ServiceClosed):
        connection.connect()
    with pytest.raises(ServiceClosed):
        master.start()


def test_deadline_of_a_task(make_master, make_worker, clock):
    master, worker = make_master(clock=clock, heartbeat_tolerance=1000, heartbeat_check_span=100), make_worker()
    connection = connect(master, worker)
    task = connection.new_task({"name": "wait"}, deadline_s=5).start()
    clock.advance(4.9)
    master.check_slaves()
    assert task.status == TaskStatus.STARTED
    clock.advance(0.1)
    master.check_slaves()
    assert task.join(WAIT_S).status == TaskStatus.FAILED
    assert isinstance(task.error, TaskTimeout)
    assert connection.is_connected
    worker.go_on.set()
    assert master.statistics().tasks_expired == 1


def test_enrolment(make_master, make_worker):
    master, worker = make_master(Host), make_worker()
    worker.enrol(master.my_address, "collector-1", "collector", {"cpu": 2})
    worker.wait_connected(WAIT_S)
    assert master.admitted.acquire(timeout=WAIT_S)
    assert master.workers == [("collector-1", "collector", worker.incarnation, {"cpu": 2})]
    task = master["collector-1"].new_task({"name": "sum", "a": 1, "b": 2}).start().join(WAIT_S)
    assert task.result == {"sum": 3}
    with pytest.raises(ServiceClosed):
        worker.enrol(master.my_address, "again", "collector")


def test_a_worker_comes_back_to_a_master_that_was_started_again(make_master, make_worker):
    first = make_master(Host)
    worker = make_worker(heartbeat_span=0)
    worker.enrol(first.my_address, "collector-1", "collector")
    assert first.admitted.acquire(timeout=WAIT_S)
    port = first.port
    first.close()
    second = make_master(Host, port=port)
    assert second.admitted.acquire(timeout=WAIT_S)
    assert second.workers == [("collector-1", "collector", worker.incarnation, {})]
    task = second["collector-1"].new_task({"name": "sum", "a": 1, "b": 2}).start().join(WAIT_S)
    assert task.result == {"sum": 3}


def test_a_task_sent_again_after_the_loss_goes_on(make_master, make_worker):
    master, worker = make_master(), make_worker(heartbeat_span=0)
    connection = connect(master, worker)
    connection.new_task({"name": "wait"}, task_id="long").start()
    assert worker.waiting.acquire(timeout=WAIT_S)
    master.lose("conn", "the coordinator starts again")
    assert worker.lost_event.wait(WAIT_S)
    connection = connect(master, worker)
    task = connection.new_task({"name": "wait"}, task_id="long").start()
    worker.go_on.set()
    assert task.join(WAIT_S).result == {"waited": True}
    assert len(worker.seen_tasks) == 1


def test_a_newer_process_takes_the_place_of_the_older_one(make_master, make_worker):
    master = make_master(Host)
    old, new = make_worker(heartbeat_span=0), make_worker(heartbeat_span=0)
    old.enrol(master.my_address, "w", "collector")
    assert master.admitted.acquire(timeout=WAIT_S)
    connection = master["w"]
    task = connection.new_task({"name": "wait"}).start()
    assert old.waiting.acquire(timeout=WAIT_S)
    new.enrol(master.my_address, "w", "collector")
    assert master.admitted.acquire(timeout=WAIT_S)
    assert task.join(WAIT_S).status == TaskStatus.FAILED
    assert master["w"].incarnation == new.incarnation
    old.go_on.set()
    assert old.lost_event.wait(WAIT_S)
    with pytest.raises(IncarnationFenced):
        old.wait_connected(WAIT_S)
    assert master.statistics().enrolments == 2
    assert master.statistics().enrolments_refused == 1
    assert new.is_connected


def test_a_name_is_free_again_when_its_newest_process_is_lost(make_master, make_worker):
    master = make_master(Host)
    old, new = make_worker(heartbeat_span=0), make_worker(heartbeat_span=0)
    for worker in (old, new):
        worker.enrol(master.my_address, "w", "collector")
        assert master.admitted.acquire(timeout=WAIT_S)
    assert old.lost_event.wait(WAIT_S)
    with pytest.raises(IncarnationFenced):
        old.wait_connected(WAIT_S)
    new.close()
    # It comes back, as one that was cut off while the newer one lived.
    again = make_worker(incarnation=old.incarnation)
    again.enrol(master.my_address, "w", "collector")
    assert master.admitted.acquire(timeout=WAIT_S)
    assert master["w"].incarnation == old.incarnation


def test_an_older_process_that_is_connected_late_does_not_take_the_place_of_the_newer_one(
    network, make_master, make_worker
):
    """The connection to the older one is made while the newer one, which has enrolled, is connected to."""
    numbers = itertools.count()
    older_asked_again, newer_connects, older_is_done = (threading.Event() for _ in range(3))

    class Late(Host):
        def _enrolled(self, name, role, address, incarnation, resource):
            try:
                super()._enrolled(name, role, address, incarnation, resource)
            finally:
                older_is_done.set()

    def choose(_method, path):
        number = next(numbers) if path == "/connect" else None
        if number == 0:  # the older one takes the connection, and the master asks again
            return "drop_answer"
        if number == 1:
            older_asked_again.set()
            newer_connects.wait(WAIT_S)
        elif number == 2:
            newer_connects.set()
            older_is_done.wait(WAIT_S)
        return None

    master = make_master(Late, transport=FaultyTransport(network, choose))
    old, new = make_worker(heartbeat_span=0), make_worker(heartbeat_span=0)
    old.enrol(master.my_address, "w", "collector")
    assert older_asked_again.wait(WAIT_S)
    new.enrol(master.my_address, "w", "collector")
    assert old.lost_event.wait(WAIT_S)
    with pytest.raises(IncarnationFenced):
        old.wait_connected(WAIT_S)
    assert master.admitted.acquire(timeout=WAIT_S)
    assert master["w"].incarnation == new.incarnation
    assert new.fenced == []


def test_one_that_enrols_again_keeps_those_before_it_out(make_master, make_worker, raw):
    master = make_master(Host)
    old, new = make_worker(heartbeat_span=60), make_worker(heartbeat_span=0)
    for worker in (old, new):
        worker.enrol(master.my_address, "w", "collector")
        assert master.admitted.acquire(timeout=WAIT_S)
    enrolment = {"name": "w", "role": "collector", "address": new.my_address, "incarnation": new.incarnation}
    assert raw(master, "POST", "/slave/enrol", {"Channel": "0"}, enrolment)[0] == 200
    enrolment.update(address=old.my_address, incarnation=old.incarnation)
    assert raw(master, "POST", "/slave/enrol", {"Channel": "0"}, enrolment)[0] == 409


def test_fencing_by_hand(make_master, make_worker):
    master, worker = make_master(Host), make_worker(heartbeat_span=0)
    with pytest.raises(KeyError, match="'w' is known"):
        master.fence("w")
    worker.enrol(master.my_address, "w", "collector")
    assert master.admitted.acquire(timeout=WAIT_S)
    master.fence("w")
    assert "w" not in master
    assert worker.lost_event.wait(WAIT_S)
    with pytest.raises(IncarnationFenced):
        worker.wait_connected(WAIT_S)


def test_ghosts_that_enrol_cost_few_threads_and_keep_nobody_out(make_master, make_worker, raw):
    """R23: workers that are announced and do not answer."""
    master = make_master(Host)
    master.may_connect.clear()
    threads = threading.active_count()
    ghost = {"role": "collector", "address": "http://127.0.0.1:1", "incarnation": "i"}
    statuses = set()
    for number in range(100):
        enrolment = {**ghost, "name": f"ghost{number}"}
        statuses.add(raw(master, "POST", "/slave/enrol", {"Channel": "0"}, enrolment)[0])
    assert statuses == {200, 429}
    assert threading.active_count() < threads + 50
    worker = make_worker()
    worker.enrol(master.my_address, "w", "collector")
    master.may_connect.set()
    worker.wait_connected(WAIT_S)


def test_refused_enrolment(make_master, make_worker):
    master, worker = make_master(Host), make_worker()
    master.refuse = True
    worker.enrol(master.my_address, "w", "collector")
    with pytest.raises(EnrolRefused, match="no more collector"):
        worker.wait_connected(WAIT_S)
    assert [type(error) for error in worker.fenced] == [EnrolRefused]
    assert master.workers == []


def test_connects_to_the_expected_process_only(make_master, make_worker):
    master, worker = make_master(), make_worker()
    connection = master.new_connection("w", "127.0.0.1", worker.port, incarnation="another")
    with pytest.raises(ConnectionLost, match="another process"):
        connection.connect()
    assert "w" not in master


def test_waiting_for_a_master_has_a_deadline(make_worker):
    with pytest.raises(ConnectTimeout):
        make_worker().wait_connected(0.01)


def test_ports(make_worker, network):
    worker = make_worker()
    assert worker.port > 0
    with pytest.raises(PortTakenError, match=f"port {worker.port} "):
        make_worker(port=worker.port)
    first, second = make_worker(port="auto"), make_worker(port="auto")
    assert second.port > first.port >= 7236
    with pytest.raises(ValueError, match="'auto'"):
        make_worker(port="any")
    worker.close()
    assert make_worker(port=worker.port).port == worker.port


def test_a_service_that_shuts_down_refuses(make_master, make_worker, raw):
    master, worker = make_master(request_retries=0), make_worker()
    connect(master, worker, "busy").new_task({"name": "wait"}).start()
    assert worker.waiting.acquire(timeout=WAIT_S)
    worker.shutdown()  # the task that runs keeps it from its end
    with pytest.raises(SlaveSystemShuttingDown):
        connect(master, worker)
    assert raw(worker, "GET", "/ping") == (401, 101)
    worker.go_on.set()
    worker.join(WAIT_S)


@pytest.mark.parametrize("seed", [0, 1])
def test_ledger_over_a_network_that_loses_and_doubles(network, services, make_master, make_worker, seed):
    faulty = FaultyTransport(network, random_faults(0.07, seed))
    master = make_master(transport=faulty, request_retries=30, request_retry_waiting=0.0)
    worker = make_worker(transport=faulty, request_retries=30, request_retry_waiting=0.0, max_tasks=4)
    calls = Counter()
    with master.new_connection("conn", "127.0.0.1", worker.port) as connection:
        for start in range(0, 60, 2):
            tasks = []
            for number in (start, start + 1):
                task = connection.new_task({"name": "echo", "value": number})
                tasks.append(task.on_complete(lambda data, result: calls.update([result])).start())
            for task in tasks:
                assert task.join(WAIT_S).status == TaskStatus.COMPLETED
                assert task.result == task.task["value"]
    assert calls == Counter(range(60))
    assert sorted(task["value"] for task in worker.seen_tasks) == list(range(60))
    assert master.statistics().tasks_completed == 60
    assert master.statistics().results_duplicate > 0
    assert worker.statistics().tasks_duplicate > 0
