"""Parent's view of one worker process: start, orders and end."""

import contextlib
import os
import select
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any

from ding.envs.env_manager._errors import describe_exit
from ding.envs.env_manager._workers.protocol import CLOSE, Command, Message, send_message
from ding.envs.env_manager._workers.shared_columns import SharedColumns
from ding.envs.env_manager._workers.worker import DUMP_SIGNAL, WorkerSetup, worker_main
from ding.utils.compression_helper import CloudPickleWrapper
from ding.utils.own_code import own_code

# Seconds that a hanging worker has to write its traceback.
DUMP_GRACE_S = 1.0
CRASH_LOG_BYTES = 1 << 16


class WorkerProcess:
    """One worker process, its pipe and its pending commands.

    Attributes:
        env_ids: Ids of its envs.
        pending: Unanswered commands, in order.
        were_reset: Envs that were reset in this process.
        generation: Number of earlier starts; completions of earlier generations are void.
    """

    def __init__(self, context: BaseContext, env_ids: list[int], env_fns: list[CloudPickleWrapper]) -> None:
        self.env_ids = env_ids
        self.pending: deque[tuple[Command, int]] = deque()
        self.were_reset: set[int] = set()
        self.generation = -1
        self.alive = False
        self._context: Any = context
        self._env_fns = env_fns
        self._process: Any = None
        self._conn: Connection | None = None
        self._fd = -1
        self._crash_log: Any = None

    @property
    def pid(self) -> int:
        """Process id."""
        return int(self._process.pid)

    @property
    def conn(self) -> Connection:
        """Parent's end of the pipe."""
        if self._conn is None:
            raise OSError("the worker has no pipe: it is not running")
        return self._conn

    @property
    def sentinel(self) -> int:
        """Descriptor that becomes readable when the process ends."""
        return int(self._process.sentinel)

    # life cycle

    def start(self, completions: Connection, close_inherited: Callable[[], None], seeds: Sequence[int | None]) -> None:
        """Start the process and order it to build its envs, with random generators seeded by ``seeds``.

        Raises:
            TypeError, AttributeError, PicklingError: The env functions cannot be sent (not with the start method fork).
        """
        self.generation += 1
        forked = self._context.get_start_method() == "fork"
        parent_conn, child_conn = self._context.Pipe(duplex=True)
        self._conn = parent_conn
        self._fd = parent_conn.fileno()
        self._crash_log = tempfile.TemporaryFile()  # noqa: SIM115 - kept until the process is cleaned up
        setup = WorkerSetup(
            env_ids=self.env_ids,
            generation=self.generation,
            env_fns=self._env_fns,
            conn=child_conn,
            completions=completions,
            parent_pid=os.getpid(),
            # The kernel ties the child to the thread that starts it, so only the main thread may request that.
            die_with_parent=self._context.get_start_method() != "forkserver" and _is_main_thread(),
            own_code=() if forked else own_code(),
        )
        args = (setup, close_inherited) if forked else (setup,)
        self._process = self._context.Process(target=worker_main, args=args, daemon=True, name=f"env-{self.env_ids[0]}")
        try:
            self._start_process(forked)
        except BaseException:
            self.hang_up()
            self._crash_log.close()
            raise
        finally:
            child_conn.close()
        self.alive = True
        self.pending.clear()
        self.were_reset.clear()
        self.send(Message("crash_log"), handle=self._crash_log.fileno())
        self.send(Message("build", (list(seeds),)))
        self.pending.extend((Command.BUILD, env_id) for env_id in self.env_ids)

    def _start_process(self, forked: bool) -> None:
        with warnings.catch_warnings():
            if forked:
                # Python 3.12 warns of threads at any fork. The child uses none of the parent's thread pools.
                warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()

    def kill(self, sig: int = signal.SIGKILL) -> None:
        """Send a signal; a process that has ended is ignored."""
        if self.alive and self._process.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, sig)

    def end_hanging(self) -> str:
        """Kill an unresponsive worker. Return the traceback of its threads, as far as it could write it."""
        self.kill(DUMP_SIGNAL)
        if not wait_readable([self.sentinel], DUMP_GRACE_S):
            self.kill()
        return self.bury()[1]

    def bury(self) -> tuple[str, str]:
        """Reap the ended (or just killed) process and free its resources.

        Returns:
            A description of its end, and the content of its crash log.
        """
        self._process.join()
        cause = describe_exit(self._process.exitcode)
        text = os.pread(self._crash_log.fileno(), CRASH_LOG_BYTES, 0).decode("utf-8", "replace")
        self._crash_log.close()
        self._process.close()
        self.hang_up()
        self.alive = False
        self.pending.clear()
        return cause, text

    def hang_up(self) -> None:
        """Close the parent's end of the pipe: the worker ends at its next read or write."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None
            self._fd = -1

    # orders

    def send(self, message: Message, handle: int | None = None) -> None:
        """Send an order, with a descriptor if it needs one. The end of a worker is reported by its sentinel."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            send_message(self.conn, message)
            if handle is not None:
                reduction.send_handle(self.conn, handle, self._process.pid)

    def send_bytes(self, orders: bytes) -> None:
        """Send orders of one byte each."""
        try:
            os.write(self._fd, orders)
        except (BrokenPipeError, ConnectionResetError):
            return  # its sentinel reports that

    def attach(self, key: str, shared: SharedColumns) -> None:
        """Share memory with the worker."""
        self.send(Message("attach", (key, shared.schema, shared.num_rows)), handle=shared.fd)

    def ask_to_close(self) -> None:
        """Order the worker to close its envs and end."""
        if self.alive:
            self.send_bytes(bytes([CLOSE]))
            # Unblocks a worker that waits for the parent to read a long answer.
            self.hang_up()


def close_all(workers: list[WorkerProcess], grace_s: float) -> None:
    """End all workers: ask them, wait ``grace_s`` seconds in total, kill the rest, reap."""
    for worker in workers:
        worker.ask_to_close()
    deadline = time.monotonic() + grace_s
    for worker in workers:
        if worker.alive and not wait_readable([worker.sentinel], deadline - time.monotonic()):
            worker.kill()
    for worker in workers:
        if worker.alive:
            worker.bury()


def kill_all(workers: list[WorkerProcess], owner_pid: int) -> None:
    """Kill all workers as a last resort, if a manager is collected or the interpreter ends without ``close``."""
    if os.getpid() != owner_pid:
        return
    for worker in workers:
        worker.kill()
    for worker in workers:
        if worker.alive:
            worker.bury()


def wait_readable(fds: list[int], timeout_s: float) -> bool:
    """Wait until one of the descriptors is readable; return False on time-out."""
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return bool(poller.poll(max(0.0, timeout_s) * 1000.0))


def _is_main_thread() -> bool:
    return sys.platform == "linux" and threading.current_thread() is threading.main_thread()
