"""Calls to workers and their replies: what they consist of, what answers them, and which of them are open.

Every call has a reply. What it raises is the reply, also :class:`SystemExit` and its like; so is what the making of the
worker raised. Where a process cannot give one, because it was killed or because what is to be sent cannot be pickled,
the reply holds a :class:`WorkerError`.
"""

import contextlib
import enum
import logging
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any

from ding.utils import SeedTree
from ding.utils.system_helper import die_with_parent

logger = logging.getLogger(__name__)


class WorkerError(RuntimeError):
    """A call has no reply of its own: its worker has ended, or what it returned or raised cannot be handed over."""


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


def serve(
    init: Any,
    proc_id: int,
    next_call: Callable[[], SendPayload],
    answer: Callable[[RecvPayload], None],
    shm_buffer: Any = None,
    shm_callback: Callable[[RecvPayload, Any], None] | None = None,
) -> None:
    """Answer calls until SHUTDOWN. An exception of a call is its reply; the worker goes on."""
    worker, failure = None, None
    try:
        worker = init() if callable(init) else init
    except BaseException as error:  # noqa: BLE001  the reply to every call
        failure = error
    while (call := next_call()).method != ReserveMethod.SHUTDOWN:
        reply = RecvPayload(proc_id, call.req_id, call.method)
        try:
            if failure is not None:
                raise failure
            if call.method == ReserveMethod.GETATTR:
                reply.data = getattr(worker, call.args[0])
            else:
                reply.data = getattr(worker, str(call.method))(*call.args, **call.kwargs)
            if shm_buffer is not None and shm_callback is not None:
                shm_callback(reply, shm_buffer)
        except BaseException as error:  # noqa: BLE001  it is the reply; nobody waits for the end of the worker
            logger.warning("call %r of worker %d failed:\n%s", call.method, proc_id, traceback.format_exc())
            reply.data, reply.err = None, _raisable(error, call)
        answer(reply)


def _raisable(error: BaseException, call: SendPayload) -> Exception:
    """The exception, if :meth:`Supervisor.recv` may raise it: a SystemExit of a worker is not for its caller."""
    if isinstance(error, Exception):
        return error
    return WorkerError(f"call {call.method!r} of worker {call.proc_id} raised {_in_words(error)}")


def _in_words(error: BaseException) -> str:
    """As ``repr``, which may raise for classes of others."""
    return "".join(traceback.format_exception_only(error)).strip()


def serve_in_process(
    served: tuple[Any, int],
    calls: Any,
    replies: Connection,
    shm: tuple[Any, Any],
    parent: int,
    by_kernel: bool,
    seed: int,
) -> None:
    """Serve in a process that ends with its parent; calls come and replies go as pickles."""
    _end_with(parent, by_kernel)
    SeedTree(seed).seed_process("worker", use_cuda=False)

    def next_call() -> SendPayload:
        call: SendPayload = pickle.loads(calls.get())  # noqa: S301  of the parent
        return call

    def answer(reply: RecvPayload) -> None:
        try:
            pickled = ForkingPickler.dumps(reply)
        except Exception as error:  # noqa: BLE001  whatever the parts of a reply raise; the caller shall know
            what = "result" if reply.err is None else f"exception ({_in_words(reply.err)})"
            problem = f"the {what} of call {reply.method!r} cannot be pickled: {_in_words(error)}"
            reply.data, reply.extra, reply.err = None, None, WorkerError(problem)
            pickled = ForkingPickler.dumps(reply)
        replies.send_bytes(pickled)

    serve(*served, next_call, answer, *shm)


def _end_with(parent: int, by_kernel: bool) -> None:
    """Let this process end when its parent is killed, which then has no time to end it.

    Args:
        parent: the process id.
        by_kernel: the kernel may do it; it ties a process to the thread that started it, not only to its process.
    """
    if by_kernel and die_with_parent(signal.SIGKILL):
        if os.getppid() != parent:
            os._exit(1)  # it ended before the kernel watched it
        return
    threading.Thread(target=_exit_after, args=(parent,), name="parent-watch", daemon=True).start()


def _exit_after(parent: int) -> None:
    process = multiprocessing.parent_process()
    if process is not None:
        with end_of(parent, process.sentinel) as end:
            wait([end])
        os._exit(1)


@contextlib.contextmanager
def end_of(pid: int, sentinel: int) -> Iterator[int]:
    """What ``wait`` reports as soon as a process has ended: a pidfd where there is one.

    The sentinel of multiprocessing is a pipe, which is also held open by each process that happened to inherit it.
    """
    try:
        end = os.pidfd_open(pid)
    except (AttributeError, OSError):  # another kernel; or the process has been reaped, then the pipe is at its end
        yield sentinel
        return
    try:
        yield end
    finally:
        os.close(end)


class OpenCalls:
    """The calls of one process that have no reply yet, in their order, which is that of the replies.

    Each call gets one reply, whatever becomes of the process. All methods may be called from any thread.
    """

    def __init__(self, calls: Any, replies: Any) -> None:
        self._calls, self._replies = calls, replies
        self._waiting: deque[SendPayload] = deque()
        self._end = ""
        self._lock = threading.Lock()

    def send(self, call: SendPayload) -> None:
        # Here, so that the caller hears of what cannot be pickled: the thread of the queue would only print that.
        pickled = bytes(ForkingPickler.dumps(call))
        with self._lock:
            if not self._end:
                self._waiting.append(call)
                self._calls.put(pickled)
                return
        self._fail(call, self._end)

    def receive(self, pickled: bytes) -> None:
        """Hand on the reply to the oldest call."""
        with self._lock:
            call = self._waiting.popleft()
        try:
            reply = pickle.loads(pickled)  # noqa: S301  of the own child
        except Exception as error:  # noqa: BLE001  as of an exception whose constructor wants more than it keeps
            self._fail(call, f"that of worker {call.proc_id} cannot be unpickled: {_in_words(error)}")
        else:
            self._replies.put(reply)

    def end(self, problem: str) -> None:
        """Say to all who wait, and will, that the process has ended."""
        with self._lock:
            self._end = problem
            unanswered, self._waiting = self._waiting, deque()
        for call in unanswered:
            if call.method != ReserveMethod.SHUTDOWN:
                self._fail(call, problem)

    def _fail(self, call: SendPayload, problem: str) -> None:
        error = WorkerError(f"no reply to call {call.method!r}: {problem}")
        self._replies.put(RecvPayload(call.proc_id, call.req_id, call.method, err=error))
