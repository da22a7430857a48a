"""Calls to workers and their replies: the messages, the serving loop, and the open calls.

Every call gets a reply. An exception of the call, including :class:`SystemExit`, is its reply; so is an exception of
the worker's construction. If a process cannot reply, because it was killed or a value cannot be pickled, the reply
holds a :class:`WorkerError`.
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
    """A call has no reply of its own: its worker has ended, or its result cannot be transferred."""


class ReserveMethod(str, enum.Enum):
    """Reserved method names of a payload."""

    SHUTDOWN = "__shutdown__"
    GETATTR = "__getattr__"


@dataclass
class SendPayload:
    """Call of ``method(*args, **kwargs)`` of the worker ``proc_id``."""

    proc_id: int
    req_id: str = field(default_factory=lambda: uuid.uuid1().hex)
    method: str | None = None
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class RecvPayload:
    """Reply with the result ``data``, or with the exception ``err`` of the call."""

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
    """Serve calls until SHUTDOWN. An exception of a call becomes its reply, and the worker continues."""
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
        except BaseException as error:  # noqa: BLE001  the reply; the worker's end is not awaited
            logger.warning("call %r of worker %d failed:\n%s", call.method, proc_id, traceback.format_exc())
            reply.data, reply.err = None, _raisable(error, call)
        answer(reply)


def _raisable(error: BaseException, call: SendPayload) -> Exception:
    """Return the exception if :meth:`Supervisor.recv` may raise it; a worker's SystemExit must not end its caller."""
    if isinstance(error, Exception):
        return error
    return WorkerError(f"call {call.method!r} of worker {call.proc_id} raised {_in_words(error)}")


def _in_words(error: BaseException) -> str:
    """Return the ``repr``, which may raise for foreign classes."""
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
    """Serve in a process that ends with its parent; calls and replies are transferred as pickles."""
    _end_with(parent, by_kernel)
    SeedTree(seed).seed_process("worker", use_cuda=False)

    def next_call() -> SendPayload:
        call: SendPayload = pickle.loads(calls.get())  # noqa: S301  from the parent
        return call

    def answer(reply: RecvPayload) -> None:
        try:
            pickled = ForkingPickler.dumps(reply)
        except Exception as error:  # noqa: BLE001  any error of a reply; the caller must learn of it
            what = "result" if reply.err is None else f"exception ({_in_words(reply.err)})"
            problem = f"the {what} of call {reply.method!r} cannot be pickled: {_in_words(error)}"
            reply.data, reply.extra, reply.err = None, None, WorkerError(problem)
            pickled = ForkingPickler.dumps(reply)
        replies.send_bytes(pickled)

    serve(*served, next_call, answer, *shm)


def _end_with(parent: int, by_kernel: bool) -> None:
    """End this process when its parent is killed, which cannot end its children itself.

    Args:
        parent: Process id of the parent.
        by_kernel: Whether the kernel may do it; it watches the thread that started the process, not only the parent.
    """
    if by_kernel and die_with_parent(signal.SIGKILL):
        if os.getppid() != parent:
            os._exit(1)  # the parent ended before the kernel watched it
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
    """Return an object that ``wait`` reports as soon as a process ends: a pidfd if available.

    The sentinel of multiprocessing is a pipe, which other processes may have inherited and keep open.
    """
    try:
        end = os.pidfd_open(pid)
    except (AttributeError, OSError):  # another kernel; or the process was reaped, and the pipe is at its end
        yield sentinel
        return
    try:
        yield end
    finally:
        os.close(end)


class OpenCalls:
    """Open calls of one process, in the order of the expected replies.

    Each call gets exactly one reply, whatever happens to the process. Any thread may call the methods.
    """

    def __init__(self, calls: Any, replies: Any) -> None:
        self._calls, self._replies = calls, replies
        self._waiting: deque[SendPayload] = deque()
        self._end = ""
        self._lock = threading.Lock()

    def send(self, call: SendPayload) -> None:
        # Pickle here, so that errors reach the caller: the thread of the queue would only print them.
        pickled = bytes(ForkingPickler.dumps(call))
        with self._lock:
            if not self._end:
                self._waiting.append(call)
                self._calls.put(pickled)
                return
        self._fail(call, self._end)

    def receive(self, pickled: bytes) -> None:
        """Deliver the reply to the oldest call."""
        with self._lock:
            call = self._waiting.popleft()
        try:
            reply = pickle.loads(pickled)  # noqa: S301  from the own child
        except Exception as error:  # noqa: BLE001  e.g. an exception whose constructor needs more arguments
            self._fail(call, f"that of worker {call.proc_id} cannot be unpickled: {_in_words(error)}")
        else:
            self._replies.put(reply)

    def end(self, problem: str) -> None:
        """Reply to all open and future calls that the process has ended."""
        with self._lock:
            self._end = problem
            unanswered, self._waiting = self._waiting, deque()
        for call in unanswered:
            if call.method != ReserveMethod.SHUTDOWN:
                self._fail(call, problem)

    def _fail(self, call: SendPayload, problem: str) -> None:
        error = WorkerError(f"no reply to call {call.method!r}: {problem}")
        self._replies.put(RecvPayload(call.proc_id, call.req_id, call.method, err=error))
