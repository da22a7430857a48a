"""Workers as children: objects in their own thread or process that receive calls and send replies.

A child process ends with its parent. Each call gets a reply even if the process is killed, see
:mod:`ding.framework._worker_calls`.
"""

import enum
import logging
import multiprocessing
import os
import queue
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from ding.framework._worker_calls import OpenCalls, end_of, serve, serve_in_process
from ding.framework._worker_calls import RecvPayload as RecvPayload
from ding.framework._worker_calls import ReserveMethod as ReserveMethod
from ding.framework._worker_calls import SendPayload as SendPayload
from ding.framework._worker_calls import WorkerError as WorkerError
from ding.utils.seed import ENV_SEED_BOUND

logger = logging.getLogger(__name__)

JOIN_TIMEOUT_S = 5.0


class ChildType(str, enum.Enum):
    """Type of a worker: thread or process."""

    PROCESS = "process"
    THREAD = "thread"


@cache
def get_mp_ctx() -> Any:
    """Return the multiprocessing context of child processes: fork if available."""
    return multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn")


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
        """Create the worker; replies go to ``recv_queue``."""

    @abstractmethod
    def shutdown(self, timeout: float | None = None) -> None:
        """End the worker within ``timeout`` seconds."""

    def restart(self) -> None:
        """End the worker and create it again."""
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
    """Worker in its own process."""

    def __init__(
        self, proc_id: int, init: Any, shm_buffer: Any = None, shm_callback: Any = None, mp_ctx: Any = None
    ) -> None:
        super().__init__(proc_id, init, shm_buffer, shm_callback)
        self._mp_ctx = mp_ctx or get_mp_ctx()
        self._open: OpenCalls | None = None
        self._receiver: threading.Thread | None = None

    def start(self, recv_queue: Any) -> None:
        if self._runner is not None:
            return
        calls = self._mp_ctx.Queue()
        calls.cancel_join_thread()  # nobody reads the queue of a killed worker; do not block the exit
        # One pipe per worker, which only that worker writes: if it is killed, the replies of others stay intact.
        connection, replies = self._mp_ctx.Pipe(duplex=False)
        in_main_thread = threading.current_thread() is threading.main_thread()
        by_kernel = in_main_thread and self._mp_ctx.get_start_method() != "forkserver"
        # Drawn from this process's stream: forked workers would all repeat its numbers.
        seed = int(np.random.randint(ENV_SEED_BOUND))
        args = (self._served, calls, replies, self._shm, os.getpid(), by_kernel, seed)
        runner = self._mp_ctx.Process(target=serve_in_process, args=args, daemon=True)
        with replies, warnings.catch_warnings():
            # Python 3.12 warns of threads at any fork, and each running worker has one here.
            warnings.simplefilter("ignore", DeprecationWarning)
            runner.start()
        self._replies, self._calls, self._runner = recv_queue, calls, runner
        self._open = OpenCalls(calls, recv_queue)
        self._receiver = threading.Thread(
            target=self._receive, args=(runner, connection, self._open), name="worker-replies", daemon=True
        )
        self._receiver.start()

    def send(self, payload: SendPayload) -> None:
        """Queue a call.

        Raises:
            Exception: The call cannot be pickled; it is not sent.
        """
        if self._open is None:
            super().send(payload)
        else:
            self._open.send(payload)

    def shutdown(self, timeout: float | None = None) -> None:
        runner, calls, self._runner, self._calls = self._runner, self._calls, None, None
        if runner is None:
            return
        self._open = None
        runner.terminate()
        receiver = self._receiver  # ends with the process
        if receiver is not None and receiver is not threading.current_thread():
            receiver.join(JOIN_TIMEOUT_S if timeout is None else timeout)
            if receiver.is_alive():
                runner.kill()
                receiver.join(JOIN_TIMEOUT_S)
            if not receiver.is_alive():
                runner.close()
        calls.close()

    def _receive(self, runner: Any, connection: Connection, calls: OpenCalls) -> None:
        """Deliver the replies of the worker until it ends."""
        with connection, end_of(runner.pid, runner.sentinel) as end:
            # If both are ready, process its messages before its end.
            while connection in wait([connection, end]):
                try:
                    calls.receive(connection.recv_bytes())
                except (EOFError, OSError):  # the process has ended, perhaps in the middle of a reply
                    break
        runner.join()
        calls.end(f"worker {self._proc_id} has ended, {_ending(runner.exitcode)}")


def _ending(exitcode: int | None) -> str:
    if exitcode is None:
        return "nobody knows how"
    return f"exit code {exitcode}" if exitcode >= 0 else f"killed by signal {-exitcode}"


class ChildThread(Child):
    """Worker in its own thread."""

    def start(self, recv_queue: Any) -> None:
        if self._runner is not None:
            return
        self._replies, self._calls = recv_queue, queue.SimpleQueue()
        self._runner = threading.Thread(
            target=serve, args=(*self._served, self._calls.get, recv_queue.put), daemon=True
        )
        self._runner.start()

    def shutdown(self, timeout: float | None = None) -> None:
        runner, calls, self._runner, self._calls = self._runner, self._calls, None, None
        if runner is not None:
            calls.put(SendPayload(self._proc_id, method=ReserveMethod.SHUTDOWN))
            runner.join(timeout)


class Supervisor:
    """Creates workers, sends them calls, and receives their replies in one queue.

    Args:
        type_: Threads or processes.
        mp_ctx: Multiprocessing context; by default :func:`get_mp_ctx`.
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
            init: Creates the worker in its own thread or process; or the worker itself, if it is not callable.
            shm_buffer: Memory shared with the process.
            shm_callback: ``(reply, shm_buffer)``: moves the data of a reply into that memory.
        """
        number = len(self._children)
        if self._type is ChildType.THREAD:
            self._children.append(ChildThread(number, init))
        else:
            self._children.append(ChildProcess(number, init, shm_buffer, shm_callback, self._mp_ctx))

    def start_link(self) -> None:
        """Start all workers; has no effect if they are running."""
        if self._running:
            return
        self._replies = queue.Queue()
        for child in self._children:
            child.start(self._replies)
        self._running = True

    def send(self, payload: SendPayload) -> None:
        """Send a call to its worker; before the start it is dropped with a warning."""
        if not self._running:
            logger.warning("the workers are not running (call start_link): call %r is not sent", payload.method)
            return
        self._children[payload.proc_id].send(payload)

    def recv(self, ignore_err: bool = False, timeout: float | None = None) -> RecvPayload:
        """Return the next reply of any worker.

        Raises:
            queue.Empty: No reply arrived within ``timeout`` seconds.
            WorkerError: The worker cannot reply (without ``ignore_err``).
            Exception: The error of the call (without ``ignore_err``).
        """
        return _checked(self._replies.get(timeout=timeout), ignore_err)

    def recv_all(
        self,
        send_payloads: Sequence[SendPayload],
        ignore_err: bool = False,
        callback: Callable[[RecvPayload, dict[str, SendPayload]], None] | None = None,
        timeout: float | None = None,
    ) -> list[RecvPayload]:
        """Return the replies to these calls, in their order; other replies stay in the queue.

        Args:
            ignore_err: Return exceptions, including time-outs, in the replies.
            callback: Called with each reply and the open calls; calls that it adds are awaited, too.
            timeout: Total time-out in seconds.

        Raises:
            AssertionError: There are no calls.
            TimeoutError: Not all replies arrived in time (without ``ignore_err``).
            WorkerError: A worker cannot reply (without ``ignore_err``).
            Exception: The error of a call (without ``ignore_err``).
        """
        if not send_payloads:
            raise AssertionError("recv_all needs the calls whose replies it shall wait for, got none")
        replies = self._replies  # shutdown replaces the queue, and answers open calls in the old one
        remaining = {payload.req_id: payload for payload in send_payloads}
        found: dict[str | None, RecvPayload] = {}
        others: list[RecvPayload] = []
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while remaining:
                for reply in _next_replies(replies, remaining, deadline, ignore_err):
                    if reply.req_id not in remaining:
                        others.append(reply)
                        continue
                    del remaining[reply.req_id]
                    found[reply.req_id] = _checked(reply, ignore_err)
                    if callback is not None:
                        callback(reply, remaining)
        finally:
            for reply in others:
                replies.put(reply)
        return [found[payload.req_id] for payload in send_payloads]

    def get_child_attr(self, proc_id: str | int, key: str) -> object:
        """Return an attribute of one worker."""
        payload = SendPayload(int(proc_id), method=ReserveMethod.GETATTR, args=[key])
        self.send(payload)
        return self.recv_all([payload])[0].data

    def __getattr__(self, key: str) -> list[Any]:
        """Return the attribute of every worker."""
        if key.startswith("_") or not self.__dict__.get("_running"):
            raise AttributeError(f"{type(self).__name__} has no attribute {key!r}; its workers have, once they run")
        payloads = [
            SendPayload(number, method=ReserveMethod.GETATTR, args=[key]) for number in range(len(self._children))
        ]
        for payload in payloads:
            self.send(payload)
        return [reply.data for reply in self.recv_all(payloads)]

    def shutdown(self, timeout: float | None = None) -> None:
        """End all workers; :meth:`start_link` creates them again. Repeated calls have no effect."""
        if not self._running:
            return
        self._running = False
        for child in self._children:
            child.shutdown(timeout)
        self._replies = None

    def __del__(self) -> None:
        if self.__dict__.get("_running"):
            self.shutdown(timeout=0.0)


def _checked(reply: RecvPayload, ignore_err: bool) -> RecvPayload:
    if reply.err is not None and not ignore_err:
        raise reply.err
    return reply


def _next_replies(
    replies: "queue.Queue[RecvPayload]", remaining: dict[str, SendPayload], deadline: float | None, ignore_err: bool
) -> list[RecvPayload]:
    """Return the next reply; on time-out one with a TimeoutError for each open call."""
    try:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        return [replies.get(timeout=left)]
    except queue.Empty:
        error = TimeoutError(f"{len(remaining)} replies did not come in time: {_described(remaining)}")
        if not ignore_err:
            raise error from None
        return [RecvPayload(one.proc_id, one.req_id, one.method, err=error) for one in remaining.values()]


def _described(payloads: dict[str, SendPayload]) -> str:
    return ", ".join(f"{one.method} of worker {one.proc_id}" for one in list(payloads.values())[:5])
