"""Workers as children: calls, replies, errors, shared memory, restarts; the same in threads and in processes."""

import queue
import threading

import numpy as np
import pytest

from ding.data import ShmBuffer
from ding.framework import EventLoop, Supervisor
from ding.framework.supervisor import ChildType, RecvPayload, ReserveMethod, SendPayload


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
