"""Connections and tasks; each test runs on every backend."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from ding.interaction import (
    ConnectionRefuse,
    DisconnectionRefuse,
    Master,
    Slave,
    TaskInvalid,
    TaskRefuse,
    TaskStatus,
)
from ding.interaction.exception import (
    BodyInvalid,
    ConnectionLost,
    SchemaError,
    SlaveChannelInvalid,
    SlaveSlaveAlreadyConnected,
    SlaveSlaveConnectionRefused,
    SlaveSlaveDisconnectionRefused,
    SlaveTaskAlreadyExist,
    SlaveTaskRefused,
    TaskTimeout,
    UnreachableError,
)

WAIT_S = 20.0
RUN_TOKEN = "0123456789abcdef" * 4


@pytest.fixture
def pair(make_master, make_worker):
    master, worker = make_master(), make_worker()
    connection = master.new_connection("conn", "127.0.0.1", worker.port)
    connection.connect()
    return master, worker, connection


def run(connection, **task):
    return connection.new_task(task).start().join(WAIT_S)


def test_context_connects_and_disconnects(make_master, make_worker):
    master, worker = make_master(), make_worker()
    with master.new_connection("conn", "127.0.0.1", worker.port) as connection:
        assert connection.is_connected
        assert worker.is_connected
        assert "conn" in master
        assert master["conn"] == connection
        assert connection.incarnation == worker.incarnation
    assert not connection.is_connected
    assert not worker.is_connected
    assert "conn" not in master
    with pytest.raises(KeyError, match="these do: none"):
        master["conn"]


def test_connects_again_after_disconnect(pair):
    master, worker, connection = pair
    connection.disconnect()
    connection.connect()
    assert run(connection, name="sum", a=1, b=2).result == {"sum": 3}
    del master["conn"]
    assert not worker.is_connected
    with master.new_connection("conn", "127.0.0.1", worker.port) as other:
        assert run(other, name="sum", a=1, b=1).result == {"sum": 2}
    assert worker.statistics().connections == 3


def test_name_of_a_standing_connection_is_taken(pair):
    master, worker, _ = pair
    with pytest.raises(KeyError, match="'conn' stands already"):
        master.new_connection("conn", "127.0.0.1", worker.port)


def test_disconnect_without_connection(pair):
    _, _, connection = pair
    connection.disconnect()
    with pytest.raises(ConnectionLost):
        connection.disconnect()
    connection.close()


def test_ping(pair):
    master, worker, _ = pair
    assert master.ping()
    assert worker.ping()


def test_result_of_a_task(pair):
    _, _, connection = pair
    task = connection.new_task({"name": "sum", "a": 2, "b": 3})
    assert task.status == TaskStatus.IDLE
    assert task.start() is task
    assert task.join(WAIT_S) is task
    assert task.status == TaskStatus.COMPLETED
    assert task.result == {"sum": 5}
    assert task.task == {"name": "sum", "a": 2, "b": 3}
    assert task.error is None
    with pytest.raises(ValueError, match="started before"):
        task.start()


def test_failure_with_a_result(pair):
    _, _, connection = pair
    task = run(connection, name="nonsense")
    assert task.status == TaskStatus.FAILED
    assert task.result == {"message": "task name error"}
    assert task.message == "illegal task nonsense"


@pytest.mark.parametrize(("name", "kind"), [("broken", "ZeroDivisionError"), ("exit", "SystemExit")])
def test_any_exception_is_reported(pair, name, kind):
    _, worker, connection = pair
    task = run(connection, name=name)
    assert task.status == TaskStatus.FAILED
    assert task.result["exception"]["type"] == kind
    assert "_process_task" in task.result["exception"]["traceback"]
    assert run(connection, name="sum", a=1, b=2).result == {"sum": 3}
    assert worker.statistics().tasks_failed == 1


def test_result_without_json_form_fails_the_task(pair):
    _, worker, connection = pair
    task = run(connection, name="unsendable")
    assert task.status == TaskStatus.FAILED
    assert task.result["exception"]["type"] == "WireError"
    assert worker.is_connected


def test_result_that_is_too_large_fails_the_task(make_master, make_worker):
    master, worker = make_master(max_body_bytes=20_000), make_worker()
    with master.new_connection("conn", "127.0.0.1", worker.port) as connection:
        task = run(connection, name="huge", size=100_000)
        assert task.status == TaskStatus.FAILED
        assert task.result["exception"]["type"] == "BodyTooLarge"
        assert run(connection, name="huge", size=10_000).status == TaskStatus.COMPLETED
    assert worker.statistics().connections_lost == 0


def test_floats_that_are_not_finite_and_arrays_cross(pair):
    _, _, connection = pair
    value = {"inf": math.inf, "list": [-math.inf, 1.5], "array": np.arange(3), "scalar": np.float32(0.5)}
    assert run(connection, name="echo", value=value).result == {
        "inf": math.inf,
        "list": [-math.inf, 1.5],
        "array": [0, 1, 2],
        "scalar": 0.5,
    }
    assert math.isnan(run(connection, name="echo", value=math.nan).result)


def test_wrong_channel(make_master, make_worker):
    master, worker = make_master(channel=1), make_worker(channel=2)
    with pytest.raises(SlaveChannelInvalid) as caught:
        master.new_connection("conn", "127.0.0.1", worker.port).connect()
    assert (caught.value.status_code, caught.value.code, caught.value.success) == (403, 202, False)
    assert "conn" not in master


def test_channels_of_ten_digits(make_master, make_worker):
    master, worker = make_master(channel=2**31 - 1), make_worker(channel=2**31 - 1)
    with master.new_connection("conn", "127.0.0.1", worker.port):
        assert "conn" in master


def test_second_master_is_refused(pair, make_master):
    _, worker, connection = pair
    other = make_master()
    with pytest.raises(SlaveSlaveAlreadyConnected):
        other.new_connection("conn", "127.0.0.1", worker.port).connect()
    assert run(connection, name="sum", a=1, b=1).result == {"sum": 2}


def test_nobody_listens(make_master):
    master = make_master(request_retries=0)
    with pytest.raises(UnreachableError):
        master.new_connection("conn", "127.0.0.1", 1).connect()
    assert "conn" not in master


def test_refusals_of_a_slave(make_master, make_worker, network, services):
    class Strict(Slave):
        allow = False

        def _process_task(self, task):
            return {}

        def _before_connection(self, data):
            if data != {"secret": 1}:
                raise ConnectionRefuse({"hint": "secret"}, "who are you")

        def _before_disconnection(self, data):
            if not self.allow:
                raise DisconnectionRefuse({"why": "busy"})

        def _before_task(self, task):
            raise TaskInvalid(message="no such type") if task == "invalid" else TaskRefuse({"why": "not today"})

    class Knowing(Master):
        data = None

        def _before_connect(self, connection):
            return self.data

    master = make_master(Knowing)
    slave = services(Strict(port=0, run_token=RUN_TOKEN, transport=network))
    connection = master.new_connection("conn", "127.0.0.1", slave.port)
    with pytest.raises(SlaveSlaveConnectionRefused, match="who are you") as caught:
        connection.connect()
    assert (caught.value.status_code, caught.value.code, caught.value.data) == (403, 503, {"hint": "secret"})
    master.data = {"secret": 1}
    connection.connect()
    for task, status in (("refused", 403), ("invalid", 400)):
        with pytest.raises(SlaveTaskRefused) as caught:
            connection.new_task(task).start()
        assert (caught.value.status_code, caught.value.code) == (status, 602)
        assert caught.value.data == ({"why": "not today"} if task == "refused" else {})
    with pytest.raises(SlaveSlaveDisconnectionRefused) as caught:
        connection.disconnect()
    assert caught.value.data == {"why": "busy"}
    assert connection.is_connected
    slave.allow = True
    connection.disconnect()
    assert slave.statistics().tasks_refused == 2


def test_import_names_in_a_task_is_refused(pair):
    _, worker, connection = pair
    task = connection.new_task({"name": "echo", "value": [{"cfg": {"import_names": ["os"]}}]})
    with pytest.raises(BodyInvalid, match="import_names"):
        task.start()
    assert task.status == TaskStatus.START_FAILED
    assert worker.seen_tasks == []


def test_one_task_at_a_time(pair):
    master, worker, connection = pair
    first = connection.new_task({"name": "wait"}).start()
    assert worker.waiting.acquire(timeout=WAIT_S)
    second = connection.new_task({"name": "sum", "a": 1, "b": 1})
    with pytest.raises(SlaveTaskAlreadyExist):
        second.start()
    assert second.status == TaskStatus.START_FAILED
    assert isinstance(second.error, SlaveTaskAlreadyExist)
    second.join(0)
    worker.go_on.set()
    assert first.join(WAIT_S).result == {"waited": True}
    assert run(connection, name="sum", a=1, b=1).result == {"sum": 2}
    assert worker.statistics().tasks_busy == 1
    assert master.statistics().tasks_refused == 1


def test_several_tasks_at_once(make_master, make_worker):
    master, worker = make_master(), make_worker(max_tasks=3)
    with master.new_connection("conn", "127.0.0.1", worker.port) as connection:
        polls = [connection.new_task({"name": "wait"}).start() for _ in range(2)]
        for _ in polls:
            assert worker.waiting.acquire(timeout=WAIT_S)
        assert run(connection, name="sum", a=1, b=1).result == {"sum": 2}
        assert [poll.status for poll in polls] == [TaskStatus.STARTED] * 2
        assert worker.statistics().tasks_running == 2
        worker.go_on.set()
        assert [poll.join(WAIT_S).result for poll in polls] == [{"waited": True}] * 2


def test_callbacks_run_in_order_before_join_returns(pair):
    _, _, connection = pair
    calls = []
    task = connection.new_task({"name": "sum", "a": 1, "b": 2})
    task.on_complete(lambda data, result: calls.append(("first", data["name"], result)))
    task.on_fail(lambda data, result: calls.append("failed"))
    task.on_complete(lambda data, result: calls.append(("second", data["name"], result)))
    task.start().join(WAIT_S)
    assert calls == [("first", "sum", {"sum": 3}), ("second", "sum", {"sum": 3})]
    task.on_complete(lambda data, result: calls.append("late"))
    assert calls[-1] == "late"
    failed = connection.new_task({"name": "nonsense"}).on_fail(lambda data, result: calls.append(result["message"]))
    failed.start().join(WAIT_S)
    assert calls[-1] == "task name error"


def test_a_callback_that_raises_is_counted_and_does_no_harm(pair):
    master, _, connection = pair
    calls = []
    task = connection.new_task({"name": "sum", "a": 1, "b": 2})
    task.on_complete(lambda data, result: 1 / 0).on_complete(lambda data, result: calls.append(result))
    task.start().join(WAIT_S)
    assert calls == [{"sum": 3}]
    assert master.statistics().callback_errors == 1
    assert run(connection, name="sum", a=1, b=1).status == TaskStatus.COMPLETED


def test_a_callback_may_run_tasks_but_not_wait_for_other_callbacks(pair):
    _, _, connection = pair
    seen = {}

    def chain(data, result):
        seen["plain"] = run(connection, name="sum", a=result["sum"], b=1).result
        other = connection.new_task({"name": "sum", "a": 1, "b": 1}).on_complete(lambda *_: None).start()
        try:
            other.join(WAIT_S)
        except RuntimeError as error:
            seen["error"] = str(error)

    connection.new_task({"name": "sum", "a": 1, "b": 2}).on_complete(chain).start().join(WAIT_S)
    assert seen["plain"] == {"sum": 4}
    assert "must not join" in seen["error"]


def test_join_has_a_deadline(pair):
    _, worker, connection = pair
    task = connection.new_task({"name": "wait"}).start()
    with pytest.raises(TaskTimeout, match="is not over after"):
        task.join(0.01)
    worker.go_on.set()
    assert task.join(WAIT_S).status == TaskStatus.COMPLETED


def test_hooks_of_a_master(make_master, make_worker):
    class Noting(Master):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.notes = []

        def _before_new_task(self, connection, task):
            return {**task, "a": 10}

        def _after_new_task(self, connection, task, status_code, success, code, message, data):
            self.notes.append(("task", status_code, success, code))

        def _after_connect(self, connection, status_code, success, code, message, data):
            return "connected"

        def _after_disconnect(self, connection, status_code, success, code, message, data):
            return "disconnected"

        def _error_new_task(self, connection, task, error):
            self.notes.append(type(error).__name__)

        def _error_connect(self, connection, error):
            return isinstance(error, UnreachableError)

    master, worker = make_master(Noting, request_retries=0), make_worker()
    assert master.new_connection("none", "127.0.0.1", 1).connect() is True
    connection = master.new_connection("conn", "127.0.0.1", worker.port)
    assert connection.connect() == "connected"
    assert run(connection, name="sum", a=1, b=1).result == {"sum": 11}
    assert connection.disconnect() == "disconnected"
    failed = connection.new_task({"name": "sum", "a": 1, "b": 1}).start()
    assert failed.status == TaskStatus.START_FAILED
    assert master.notes == [("task", 200, True, 0), "ConnectionLost"]


def test_task_ids(pair):
    _, _, connection = pair
    task = connection.new_task({"name": "sum", "a": 1, "b": 1}, task_id="mine-1")
    assert task.id == "mine-1"
    for hostile in ("../x", "..", "", "a/b", "x" * 200, "a\0b"):
        with pytest.raises(SchemaError):
            connection.new_task({}, task_id=hostile)


def test_an_id_sent_again_is_done_once_and_reported_again(pair):
    master, worker, connection = pair
    first = connection.new_task({"name": "echo", "value": 1}, task_id="same").start().join(WAIT_S)
    again = connection.new_task({"name": "echo", "value": 2}, task_id="same").start().join(WAIT_S)
    assert (first.result, again.result) == (1, 1)
    assert worker.seen_tasks == [{"name": "echo", "value": 1}]
    assert worker.statistics().tasks_duplicate == 1
    assert master.statistics().tasks_completed == 2


def test_many_threads_use_one_connection(make_master, make_worker):
    master, worker = make_master(), make_worker(max_tasks=8)
    results = {}

    def work(number):
        for step in range(10):
            results[number, step] = run(connection, name="sum", a=100 * number, b=step).result["sum"]

    with master.new_connection("conn", "127.0.0.1", worker.port) as connection:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
    assert results == {(number, step): 100 * number + step for number in range(6) for step in range(10)}
    assert master.statistics().tasks_completed == 60
