"""One role as the launcher sees it: its process, what it told, and how often it ended in a row."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import selectors
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ding.entry._role import KILL_SIGNALS, Role, end_text
from ding.entry._role_child import ChildSpec, child_main
from ding.entry._signals import STOP_SIGNALS

logger = logging.getLogger("ding.entry")

_TAIL_BYTES = 4000

# A fork server that has the library loaded makes a process in no time; elsewhere forking is not safe, or not there.
_CONTEXT: Any = get_context("forkserver" if sys.platform.startswith("linux") else "spawn")
_PRELOAD = "ding.entry._role_preload"


def _ready_fork_server() -> None:
    """Have a fork server, and have it blocked to what reaches all processes of a terminal or a service at once.

    It would die of it while it loads the library, and with it every process that it forks; who ends it is the launcher.
    """
    if _CONTEXT.get_start_method() != "forkserver":
        return
    _CONTEXT.set_forkserver_preload([_PRELOAD])
    # First, because it changes the blocked signals at its start.
    multiprocessing.resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def fork_server() -> Iterator[None]:
    """End the fork server with the block, unless somebody had started it before: no process is left after a run."""
    server = (
        getattr(multiprocessing.forkserver, "_forkserver", None) if _CONTEXT.get_start_method() != "spawn" else None
    )
    ours = server is not None and getattr(server, "_forkserver_pid", 1) is None
    try:
        yield
    finally:
        if ours and server is not None and hasattr(server, "_stop"):
            server._stop()


@dataclass(frozen=True)
class RoleEnd:
    """How a process of a role ended."""

    exitcode: int
    result: Any
    error: str | None
    permanent: bool

    @property
    def killed(self) -> bool:
        """Whether it came from outside: a kill, or an orderly end that the launcher did not ask for."""
        return self.error is None and (self.exitcode == 0 or -self.exitcode in KILL_SIGNALS)


class RoleProcess:
    """Starts, watches and ends the processes of one role.

    Attributes:
        state: ``waiting`` (to be started), ``running``, ``stopping`` or ``ended``.
        starts: Number of processes started so far.
        next_start_s: When a waiting role is due, on the clock.
        status: What the process told last about itself.
    """

    def __init__(
        self, role: Role, run_dir: str, log_file: Path, token: str, show_level: int, clock: Callable[[], float]
    ) -> None:
        self.role = role
        self.log_file = log_file
        self.state = "waiting"
        self.starts = 0
        self.failures = 0
        self.kills = 0
        self.next_start_s = 0.0
        self.status: Any = None
        self.last_end: str | None = None
        self.last_error: str | None = None
        self._run_dir = run_dir
        self._token = token
        self._show_level = show_level
        self._clock = clock
        self._process: Any = None
        self._pipe: Connection | None = None
        self._unsent: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._result: Any = None
        self._error: tuple[str, bool] | None = None
        self._started_s = 0.0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None

    def waitables(self) -> list[Any]:
        """What `multiprocessing.connection.wait` should watch."""
        found = [] if self._process is None else [self._process.sentinel]
        return found if self._pipe is None else [*found, self._pipe]

    def start(self, peers: dict[str, Any]) -> None:
        """Start the next incarnation."""
        ours, theirs = _CONTEXT.Pipe()
        spec = ChildSpec(
            self.role,
            self.starts,
            self._run_dir,
            str(self.log_file),
            self._token,
            dict(peers),
            self._show_level,
        )
        # No daemon: a collector may have env processes of its own.
        _ready_fork_server()
        process = _CONTEXT.Process(target=child_main, args=(spec, theirs), name=self.role.name, daemon=False)
        try:
            process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._process, self._pipe = process, ours
        self._unsent.clear()
        self._result = self._error = None
        self._started_s = self._clock()
        self.starts += 1
        self.state = "running"

    def read(self) -> list[tuple[Any, ...]]:
        """Return the messages that came for others: announcements, log lines, a new status (kept here, too)."""
        messages: list[tuple[Any, ...]] = []
        while self._pipe is not None:
            try:
                if not self._pipe.poll():
                    break
                message = self._pipe.recv()
            except (EOFError, OSError):
                self._close_pipe()
                break
            if not self._take(message):
                messages.append(message)
        return messages

    def _take(self, message: tuple[Any, ...]) -> bool:
        if message[0] == "progress":
            self.failures = self.kills = 0
        elif message[0] == "result":
            self._result = message[1]
        elif message[0] == "error":
            self._error = (message[1], message[2])
        else:
            if message[0] == "status":
                self.status = message[1]
            return False
        return True

    def ended(self) -> bool:
        """Whether the process is gone (and not yet collected)."""
        return self._process is not None and self._process.exitcode is not None

    def collect(self) -> RoleEnd:
        """Take leave of a process that ended; counts the end unless it was asked for."""
        exitcode = self._process.exitcode
        self._process.join()
        self._process.close()
        self._process = None
        self._close_pipe()
        error, permanent = self._error if self._error is not None else (None, False)
        end = RoleEnd(exitcode, self._result, error, permanent)
        asked = self.state == "stopping"
        self.state = "ended"
        self.status = None
        if not asked and (self._result is None or not self.role.ends_run):
            self.last_end = end_text(exitcode)
            self.last_error = None if error is None else error.strip().splitlines()[-1]
            if self._clock() - self._started_s >= self.role.restart.healthy_after_s:
                self.failures = self.kills = 0
            if end.killed:
                self.kills += 1
            else:
                self.failures += 1
        return end

    def not_started(self, error: BaseException) -> RoleEnd:
        """Note that a process could not be started: a failure like any other."""
        self.failures += 1
        self.state = "ended"
        self.last_end, self.last_error = f"could not be started ({type(error).__name__}: {error})", None
        return RoleEnd(1, None, None, False)

    def may_restart(self, end: RoleEnd) -> bool:
        """Whether the role may be started again, by its rule."""
        rule = self.role.restart
        return not end.permanent and self.failures < rule.max_failures and self.kills < rule.max_kills

    def schedule(self) -> float:
        """Plan the next start; returns the delay in seconds."""
        delay_s = self.role.restart.delay_after(self.failures + self.kills)
        self.next_start_s = self._clock() + delay_s
        self.state = "waiting"
        return delay_s

    def detail(self, end: RoleEnd) -> str:
        """Return the traceback of the process, or what its log ends with."""
        if end.error is not None:
            return end.error
        return f"the process {end_text(end.exitcode)}; the end of its log:\n{_tail(self.log_file)}"

    def send(self, message: tuple[Any, ...]) -> None:
        """Tell the process something; a process that is going down does not mind.

        The news of each role wait, the newest of them, while the process stands still and its pipe is full: whoever
        writes then would stand still, too.
        """
        subject = message[:2]  # ("stop",) or ("peer", name)
        self._unsent.pop(subject, None)
        self._unsent[subject] = message
        self.flush()

    @property
    def has_unsent(self) -> bool:
        """Whether something waits until the process reads again."""
        return bool(self._unsent) and self._pipe is not None

    def flush(self) -> None:
        """Send what waits, as far as the process reads."""
        while self._unsent and self._pipe is not None and _has_room(self._pipe):
            message = self._unsent.pop(next(iter(self._unsent)))
            with contextlib.suppress(OSError):
                self._pipe.send(message)

    def ask_to_stop(self) -> None:
        """Ask the process to end in order; a role that waits for its next start has ended with that."""
        if self._process is None:
            self.state = "ended"
        elif self.state == "running":
            self.state = "stopping"
            self.send(("stop",))

    def kill(self) -> None:
        """End the process now."""
        if self._process is not None:
            self.state = "stopping"
            self._process.kill()

    def picture(self) -> dict[str, Any]:
        """Return the state of the role for people and programs (JSON-like)."""
        uptime_s = round(self._clock() - self._started_s, 1) if self._process is not None else 0.0
        return {
            "state": self.state,
            "pid": self.pid,
            "restarts": max(0, self.starts - 1),
            "uptime_s": uptime_s,
            "last_end": self.last_end,
            "last_error": self.last_error,
        }

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


def _has_room(pipe: Connection) -> bool:
    """Whether a message can be written without waiting: Linux says so while three quarters of the buffer are free."""
    if sys.platform == "win32":
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_WRITE)
        return bool(selector.select(0))


def _tail(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError as error:
        return f"(it cannot be read: {error})"
