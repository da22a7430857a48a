"""Workers as children: calls, replies, errors, ends, shared memory, restarts; the same in threads and in processes."""

import contextlib
import os
import queue
import random
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from ding.data import ShmBuffer
from ding.framework import EventLoop, Supervisor
from ding.framework.supervisor import ChildType, RecvPayload, ReserveMethod, SendPayload, WorkerError
from ding.utils import set_pkg_seed


class TwoPartError(Exception):
    """Can be pickled, but not unpickled, as many classes of exceptions."""

    def __init__(self, part: str, other: str) -> None:
        super().__init__(part + other)


class Worker:
    """Made in its own thread or process."""

    def __init__(self) -> None:
        self.z = 3

    def add(self, a: int, b: int = 0) -> int:
        return a + b

    def block(self) -> None:
        threading.Event().wait(60)

    def fails(self) -> None:
        raise KeyError("broken")

    def array(self) -> np.ndarray:
        return np.arange(4.0, dtype=np.float32)

    def exit(self) -> None:
        sys.exit(3)

    def end(self, signum: int = 0) -> None:
        if signum:
            os.kill(os.getpid(), signum)
        os._exit(3)

    def fork(self) -> int:
        child = os.fork()
        if child == 0:
            threading.Event().wait(60)
            os._exit(0)
        return child

    def draw(self) -> list[float]:
        return [float(np.random.rand()), float(torch.rand(())), random.random()]

    def function(self) -> object:
        return lambda: 1

    def fails_with_function(self) -> None:
        raise KeyError(lambda: 1)

    def fails_in_two_parts(self) -> None:
        raise TwoPartError("one", "two")


@pytest.fixture(params=list(ChildType))
def workers(request):
    supervisor = Supervisor(request.param)
    for _ in range(2):
        supervisor.register(Worker)
    supervisor.start_link()
    yield supervisor
    supervisor.shutdown(timeout=1.0)


def test_a_call_has_a_reply_with_its_number(workers) -> None:
    call = SendPayload(1, method="add", args=[2], kwargs={"b": 5})
    workers.send(call)
    reply = workers.recv(timeout=30)
    assert (reply.proc_id, reply.req_id, reply.method, reply.data, reply.err) == (1, call.req_id, "add", 7, None)
    with pytest.raises(queue.Empty):
        workers.recv(timeout=0.01)


def test_an_error_is_raised_or_returned_and_the_worker_goes_on(workers, caplog) -> None:
    workers.send(SendPayload(0, method="fails"))
    with pytest.raises(KeyError, match="broken"):
        workers.recv(timeout=30)
    workers.send(SendPayload(0, method="fails"))
    assert isinstance(workers.recv(ignore_err=True, timeout=30).err, KeyError)
    assert workers.get_child_attr(0, "z") == 3
    assert workers.z == [3, 3]


def test_the_exit_of_a_worker_is_an_error_of_the_call(workers) -> None:
    call = SendPayload(0, method="exit")
    workers.send(call)
    with pytest.raises(WorkerError, match="call 'exit' of worker 0 raised SystemExit: 3"):
        workers.recv_all([call], timeout=30)
    assert workers.get_child_attr(0, "z") == 3


@pytest.mark.parametrize("kind", list(ChildType))
def test_what_the_making_of_a_worker_raises_is_its_reply(kind: ChildType) -> None:
    def make() -> None:
        raise OSError("no such camera")

    workers = Supervisor(kind)
    workers.register(make)
    workers.start_link()
    for _ in range(2):
        call = SendPayload(0, method="add", args=[1])
        workers.send(call)
        with pytest.raises(OSError, match="no such camera"):
            workers.recv_all([call], timeout=30)
    workers.shutdown(timeout=1.0)


@pytest.fixture
def processes():
    supervisor = Supervisor(ChildType.PROCESS)
    for _ in range(2):
        supervisor.register(Worker)
    supervisor.start_link()
    yield supervisor
    supervisor.shutdown()


def test_processes_draw_numbers_of_their_own_that_follow_from_the_seed() -> None:
    def drawn() -> list[list[float]]:
        set_pkg_seed(3)
        workers = Supervisor(ChildType.PROCESS)
        for _ in range(2):
            workers.register(Worker)
        workers.start_link()
        try:
            calls = [SendPayload(number, method="draw") for number in range(2)]
            for call in calls:
                workers.send(call)
            return [reply.data for reply in workers.recv_all(calls, timeout=30)]
        finally:
            workers.shutdown(timeout=1.0)

    first, again = drawn(), drawn()
    assert len({number for one in first for number in one}) == 6
    assert first == again


@pytest.mark.parametrize(("args", "how"), [([], "exit code 3"), ([signal.SIGKILL], "killed by signal 9")])
def test_a_process_that_ended_is_not_waited_for(processes, args: list[int], how: str) -> None:
    before, *calls = [SendPayload(0, method=method) for method in ("array", "end", "array")]
    calls[0].args = args
    for call in (before, *calls):
        processes.send(call)
    first, *others = processes.recv_all([before, *calls], ignore_err=True, timeout=30)
    np.testing.assert_array_equal(first.data, np.arange(4))
    assert [(type(reply.err), reply.req_id) for reply in others] == [(WorkerError, call.req_id) for call in calls]
    assert how in str(others[0].err)
    processes.send(SendPayload(0, method="array"))
    with pytest.raises(WorkerError, match=f"no reply to call 'array': worker 0 has ended, .*{how}"):
        processes.recv(timeout=30)
    assert processes.get_child_attr(1, "z") == 3
    processes.shutdown()
    processes.start_link()
    assert processes.z == [3, 3]


def test_what_a_process_leaves_behind_does_not_hide_its_end(processes) -> None:
    calls = [SendPayload(0, method="fork"), SendPayload(0, method="end", args=[signal.SIGKILL])]
    for call in calls:
        processes.send(call)
    left, killed = processes.recv_all(calls, ignore_err=True, timeout=30)
    os.kill(left.data, signal.SIGKILL)
    assert isinstance(killed.err, WorkerError)


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("function", "the result of call 'function' cannot be pickled"),
        ("fails_with_function", "exception .KeyError.* of call 'fails_with_function' cannot be pickled"),
        ("fails_in_two_parts", "call 'fails_in_two_parts': that of worker 0 cannot be unpickled: TypeError"),
    ],
)
def test_what_cannot_be_pickled_is_an_error_of_the_call(processes, method: str, problem: str) -> None:
    call = SendPayload(0, method=method)
    processes.send(call)
    with pytest.raises(WorkerError, match=problem):
        processes.recv_all([call], timeout=30)
    with pytest.raises(Exception, match=r"[Pp]ickle"):
        processes.send(SendPayload(0, method="add", args=[lambda: 1]))
    assert processes.get_child_attr(0, "z") == 3


def test_the_end_of_the_workers_is_a_reply_to_who_still_waits(processes) -> None:
    calls = [SendPayload(0, method="array"), SendPayload(0, method="block")]
    replies: list[RecvPayload] = []
    has_begun = threading.Event()

    def wait() -> None:
        replies.extend(processes.recv_all(calls, ignore_err=True, callback=lambda *_: has_begun.set(), timeout=60))

    waiting = threading.Thread(target=wait)
    waiting.start()
    for call in calls:
        processes.send(call)
    assert has_begun.wait(60)
    processes.shutdown()
    waiting.join(60)
    assert [type(reply.err) for reply in replies] == [type(None), WorkerError]


def test_processes_outlive_the_thread_that_started_them(processes) -> None:
    processes.shutdown()
    starter = threading.Thread(target=processes.start_link)
    starter.start()
    starter.join()
    for _ in range(20):
        assert processes.z == [3, 3]


@pytest.mark.parametrize("start", ["workers.start_link()", "start_in_thread()"])
def test_processes_do_not_outlive_a_killed_parent(start: str) -> None:
    program = f"""
import os, signal, threading
from ding.framework.supervisor import ChildType, Supervisor
def start_in_thread():
    starter = threading.Thread(target=workers.start_link)
    starter.start()
    starter.join()
workers = Supervisor(ChildType.PROCESS)
for number in range(3):
    workers.register(complex(number, 1))
{start}
print(workers.real, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
    try:
        # The workers have inherited its standard output, which ends with the last of them.
        assert parent.communicate(timeout=60)[0] == b"[0.0, 1.0, 2.0]\n"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)
    assert parent.returncode == -signal.SIGKILL


def test_replies_come_in_the_order_of_the_calls_and_others_stay(workers) -> None:
    other, *calls = (SendPayload(i % 2, method="add", args=[i]) for i in range(5))
    for call in (other, *calls):
        workers.send(call)
    assert [reply.data for reply in workers.recv_all(calls[::-1], timeout=30)] == [4, 3, 2, 1]
    assert workers.recv(timeout=30).data == 0
    with pytest.raises(AssertionError, match="got none"):
        workers.recv_all([])


def test_a_callback_may_add_calls(workers) -> None:
    seen: list[int] = []

    def more(reply: RecvPayload, remaining: dict[str, SendPayload]) -> None:
        seen.append(reply.data)
        if reply.data < 3:
            call = SendPayload(0, method="add", args=[reply.data], kwargs={"b": 1})
            workers.send(call)
            remaining[call.req_id] = call

    first = SendPayload(0, method="add", args=[1])
    workers.send(first)
    assert [reply.data for reply in workers.recv_all([first], callback=more, timeout=30)] == [1]
    assert seen == [1, 2, 3]


def test_what_does_not_come_in_time_is_a_timeout() -> None:
    workers = Supervisor(ChildType.PROCESS)
    workers.register(Worker)
    workers.start_link()
    call = SendPayload(0, method="block")
    workers.send(call)
    with pytest.raises(TimeoutError, match="block of worker 0"):
        workers.recv_all([call], timeout=0.05)
    (reply,) = workers.recv_all([call], ignore_err=True, timeout=0.05)
    assert isinstance(reply.err, TimeoutError)
    workers.shutdown()
    workers.start_link()
    assert workers.get_child_attr(0, "z") == 3
    workers.shutdown()
    workers.shutdown()


def test_data_comes_through_shared_memory() -> None:
    def move(reply: RecvPayload, buffer: ShmBuffer) -> None:
        if isinstance(reply.data, np.ndarray):
            buffer.fill(reply.data)
            reply.data = None

    buffer = ShmBuffer(np.float32, (4,))
    workers = Supervisor(ChildType.PROCESS)
    workers.register(Worker, buffer, move)
    workers.start_link()
    workers.send(SendPayload(0, method="array"))
    assert workers.recv(timeout=30).data is None
    np.testing.assert_array_equal(buffer.get(), np.arange(4))
    workers.shutdown()


def test_before_the_start_nothing_is_sent_and_there_are_no_attributes(caplog) -> None:
    workers = Supervisor(ChildType.THREAD)
    workers.register(Worker())
    workers.send(SendPayload(0, method="add"))
    assert "not running" in caplog.text
    assert not hasattr(workers, "z")
    workers.start_link()
    workers.send(SendPayload(0, method=ReserveMethod.GETATTR, args=["z"]))
    assert workers.recv(timeout=30).data == 3
    workers.shutdown(timeout=1.0)


def test_emits_of_one_event_are_served_in_order() -> None:
    loop = EventLoop.get_event_loop("order")
    assert EventLoop.get_event_loop("order") is loop
    heard: list[int] = []
    loop.on("n", heard.append)
    for i in range(200):
        loop.emit("n", i)
    assert loop.drain(30)
    assert heard == list(range(200))
    loop.off("n*")
    assert not loop.listened("n")
    loop.stop()
    loop.emit("n", 1)
    assert EventLoop.get_event_loop("order") is not loop
    EventLoop.get_event_loop("order").stop()


def test_an_error_of_a_listener_is_raised_by_each_later_emit() -> None:
    loop = EventLoop("failing")
    heard: list[int] = []

    def fails(number: int) -> None:
        heard.append(number)
        raise KeyError("in a listener")

    loop.on("a", fails)
    loop.on("b", heard.append)
    loop.emit("a", 1)
    assert loop.drain(30)
    for event in ("a", "b", "b"):
        with pytest.raises(KeyError, match="in a listener"):
            loop.emit(event, 2)
    assert heard == [1]
    loop.stop()
    loop.emit("b", 3)
