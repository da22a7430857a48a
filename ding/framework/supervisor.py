"""Workers as children: an object in a thread or process of its own, with calls sent to it and replies received."""

import enum
import logging
import multiprocessing
import queue
import threading
import time
import traceback
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

logger = logging.getLogger(__name__)

JOIN_TIMEOUT_S = 5.0


class ChildType(str, enum.Enum):
    """Where a worker runs."""

    PROCESS = "process"
    THREAD = "thread"


class ReserveMethod(str, enum.Enum):
    """Methods of a payload that are not the worker's own."""

    SHUTDOWN = "__shutdown__"
    GETATTR = "__getattr__"


@dataclass
class SendPayload:
    """A call: ``method(*args, **kwargs)`` of the worker ``proc_id``."""

    proc_id: int
    req_id: str = field(default_factory=lambda: uuid.uuid1().hex)
    method: str | None = None
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class RecvPayload:
    """A reply: ``data``, or the exception ``err`` that the call raised."""

    proc_id: int
    req_id: str | None = None
    method: str | None = None
    data: Any = None
    err: Exception | None = None
    extra: Any = None


@cache
def get_mp_ctx() -> Any:
    """Return how child processes are made: forked where the system can."""
    return multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn")


def _serve(
    init: Any,
    proc_id: int,
    calls: Any,
    replies: Any,
    shm_buffer: Any = None,
    shm_callback: Callable[[RecvPayload, Any], None] | None = None,
) -> None:
    """Answer calls until SHUTDOWN. An exception of a call is its reply; the worker goes on."""
    worker = init() if callable(init) else init
    while (call := calls.get()).method != ReserveMethod.SHUTDOWN:
        reply = RecvPayload(proc_id, call.req_id, call.method)
        try:
            if call.method == ReserveMethod.GETATTR:
                reply.data = getattr(worker, call.args[0])
            else:
                reply.data = getattr(worker, call.method)(*call.args, **call.kwargs)
            if shm_buffer is not None and shm_callback is not None:
                shm_callback(reply, shm_buffer)
        except Exception as error:  # noqa: BLE001  it is the reply
            logger.warning("call %r of worker %d failed:\n%s", call.method, proc_id, traceback.format_exc())
            reply.data, reply.err = None, error
        replies.put(reply)


class Child(ABC):
    """One worker, see :meth:`Supervisor.register`."""

    def __init__(self, proc_id: int, init: Any, shm_buffer: Any = None, shm_callback: Any = None) -> None:
        self._proc_id = proc_id
        self._served = (init, proc_id)
        self._shm = (shm_buffer, shm_callback)
        self._runner: Any = None
        self._calls: Any = None
        self._replies: Any = None

    @abstractmethod
    def start(self, recv_queue: Any) -> None:
        """Make the worker; replies go to ``recv_queue``."""

    @abstractmethod
    def shutdown(self, timeout: float | None = None) -> None:
        """End the worker; waits for at most ``timeout`` seconds."""

    def restart(self) -> None:
        """End the worker and make it anew."""
        replies = self._replies
        self.shutdown()
        self.start(replies)

    def send(self, payload: SendPayload) -> None:
        """Queue a call."""
        if self._calls is None:
            logger.warning("worker %d is not running: call %r is not sent", self._proc_id, payload.method)
            return
        self._calls.put(payload)


class ChildProcess(Child):
    """A worker in a process of its own."""

    def __init__(
        self, proc_id: int, init: Any, shm_buffer: Any = None, shm_callback: Any = None, mp_ctx: Any = None
    ) -> None:
        super().__init__(proc_id, init, shm_buffer, shm_callback)
        self._mp_ctx = mp_ctx or get_mp_ctx()

    def start(self, recv_queue: Any) -> None:
        if self._runner is not None:
            return
        self._replies, self._calls = recv_queue, self._mp_ctx.Queue()
        self._runner = self._mp_ctx.Process(
            target=_serve, args=(*self._served, self._calls, recv_queue, *self._shm), daemon=True
        )
        self._runner.start()

    def shutdown(self, timeout: float | None = None) -> None:
        runner, calls, self._runner, self._calls = self._runner, self._calls, None, None
        if runner is None:
            return
        runner.terminate()
        runner.join(JOIN_TIMEOUT_S if timeout is None else timeout)
        if runner.is_alive():
            runner.kill()
            runner.join()
        runner.close()
        calls.close()
        calls.cancel_join_thread()


class ChildThread(Child):
    """A worker in a thread of its own."""

    def start(self, recv_queue: Any) -> None:
        if self._runner is not None:
            return
        self._replies, self._calls = recv_queue, queue.SimpleQueue()
        self._runner = threading.Thread(target=_serve, args=(*self._served, self._calls, recv_queue), daemon=True)
        self._runner.start()

    def shutdown(self, timeout: float | None = None) -> None:
        runner, calls, self._runner, self._calls = self._runner, self._calls, None, None
        if runner is not None:
            calls.put(SendPayload(self._proc_id, method=ReserveMethod.SHUTDOWN))
            runner.join(timeout)


class Supervisor:
    """Makes workers, sends them calls, and receives their replies in one queue.

    Args:
        type_: threads or processes.
        mp_ctx: how processes are made, by default :func:`get_mp_ctx`.
    """

    def __init__(self, type_: ChildType, mp_ctx: Any = None) -> None:
        self._type = ChildType(type_)
        self._mp_ctx = mp_ctx or get_mp_ctx()
        self._children: list[Child] = []
        self._running = False
        self._replies: Any = None

    def register(self, init: Any, shm_buffer: Any = None, shm_callback: Any = None) -> None:
        """Add a worker, which gets the next number.

        Args:
            init: makes the worker, in its own thread or process; or the worker itself, if it cannot be called.
            shm_buffer: memory that is shared with the process.
            shm_callback: ``(reply, shm_buffer)``: moves the data of a reply there.
        """
        number = len(self._children)
        if self._type is ChildType.THREAD:
            self._children.append(ChildThread(number, init))
        else:
            self._children.append(ChildProcess(number, init, shm_buffer, shm_callback, self._mp_ctx))

    def start_link(self) -> None:
        """Start all workers; does nothing when they run."""
        if self._running:
            return
        self._replies = queue.Queue() if self._type is ChildType.THREAD else self._mp_ctx.Queue()
        for child in self._children:
            child.start(self._replies)
        self._running = True

    def send(self, payload: SendPayload) -> None:
        """Send a call to the worker that it names; before the start it is dropped with a warning."""
        if not self._running:
            logger.warning("the workers are not running (call start_link): call %r is not sent", payload.method)
            return
        self._children[payload.proc_id].send(payload)

    def recv(self, ignore_err: bool = False, timeout: float | None = None) -> RecvPayload:
        """Return the next reply of any worker.

        Raises:
            queue.Empty: none came within ``timeout`` seconds.
            Exception: what the call raised, without ``ignore_err``.
        """
        return _checked(self._replies.get(timeout=timeout), ignore_err)

    def recv_all(
        self,
        send_payloads: Sequence[SendPayload],
        ignore_err: bool = False,
        callback: Callable[[RecvPayload, dict[str, SendPayload]], None] | None = None,
        timeout: float | None = None,
    ) -> list[RecvPayload]:
        """Return the replies to these calls, in their order; replies to others stay in the queue.

        Args:
            ignore_err: return exceptions, also of time-outs, in the replies.
            callback: called with each reply and the calls that are still open; calls that it adds there are waited for.
            timeout: in seconds, for all of them.

        Raises:
            AssertionError: there are no calls.
            TimeoutError: not all replies came in time, without ``ignore_err``.
            Exception: what a call raised, without ``ignore_err``.
        """
        if not send_payloads:
            raise AssertionError("recv_all needs the calls whose replies it shall wait for, got none")
        remaining = {payload.req_id: payload for payload in send_payloads}
        found: dict[str | None, RecvPayload] = {}
        others: list[RecvPayload] = []
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while remaining:
                for reply in self._next_replies(remaining, deadline, ignore_err):
                    if reply.req_id not in remaining:
                        others.append(reply)
                        continue
                    del remaining[reply.req_id]
                    found[reply.req_id] = _checked(reply, ignore_err)
                    if callback is not None:
                        callback(reply, remaining)
        finally:
            for reply in others:
                self._replies.put(reply)
        return [found[payload.req_id] for payload in send_payloads]

    def _next_replies(
        self, remaining: dict[str, SendPayload], deadline: float | None, ignore_err: bool
    ) -> list[RecvPayload]:
        """The next reply; when the time is over, one with a TimeoutError for each call that is open."""
        try:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            return [self._replies.get(timeout=left)]
        except queue.Empty:
            error = TimeoutError(f"{len(remaining)} replies did not come in time: {_described(remaining)}")
            if not ignore_err:
                raise error from None
            return [RecvPayload(one.proc_id, one.req_id, one.method, err=error) for one in remaining.values()]

    def get_child_attr(self, proc_id: str | int, key: str) -> Any:
        """Return an attribute of one worker."""
        payload = SendPayload(int(proc_id), method=ReserveMethod.GETATTR, args=[key])
        self.send(payload)
        return self.recv_all([payload])[0].data

    def __getattr__(self, key: str) -> list[Any]:
        """The attribute of every worker."""
        if key.startswith("_") or not self.__dict__.get("_running"):
            raise AttributeError(f"{type(self).__name__} has no attribute {key!r}; its workers have, once they run")
        payloads = [
            SendPayload(number, method=ReserveMethod.GETATTR, args=[key]) for number in range(len(self._children))
        ]
        for payload in payloads:
            self.send(payload)
        return [reply.data for reply in self.recv_all(payloads)]

    def shutdown(self, timeout: float | None = None) -> None:
        """End all workers; :meth:`start_link` makes them anew. A second call does nothing."""
        if not self._running:
            return
        self._running = False
        for child in self._children:
            child.shutdown(timeout)
        if self._type is ChildType.PROCESS:
            self._replies.close()
            self._replies.cancel_join_thread()
        self._replies = None

    def __del__(self) -> None:
        if self.__dict__.get("_running"):
            self.shutdown(timeout=0.0)


def _checked(reply: RecvPayload, ignore_err: bool) -> RecvPayload:
    if reply.err is not None and not ignore_err:
        raise reply.err
    return reply


def _described(payloads: dict[str, SendPayload]) -> str:
    return ", ".join(f"{one.method} of worker {one.proc_id}" for one in list(payloads.values())[:5])
