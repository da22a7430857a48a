"""Launcher's view of a role: its process, its last reports, and its consecutive ends."""

from __future__ import annotations

import contextlib
import selectors
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ding.parallel.launch.child import ChildSpec
from ding.parallel.launch.forked import ForkServerLost
from ding.parallel.launch.role import Message, ProcessStatus, Role
from ding.parallel.launch.spawner import SpawnedProcess, Spawner
from ding.utils.credentials import worker_token_of

_TAIL_BYTES = 4000
_KILL_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True)
class RoleEnd:
    """End of a role's process.

    Attributes:
        exitcode: Exit code; ``None`` if unknown.
        unknown: Description of the end if there is no exit code.
    """

    exitcode: int | None
    result: Any = None
    error: str | None = None
    permanent: bool = False
    exception: bytes | None = None
    unknown: str = "ended"

    @property
    def killed(self) -> bool:
        """Whether the cause was external: a kill, or an orderly end that the launcher did not request."""
        return self.error is None and (not self.exitcode or -self.exitcode in _KILL_SIGNALS)

    @property
    def text(self) -> str:
        """Description of the exit code."""
        if self.exitcode is None:
            return self.unknown
        if self.exitcode >= 0:
            return f"ended with exit code {self.exitcode}"
        try:
            return f"ended by {signal.Signals(-self.exitcode).name}"
        except ValueError:
            return f"ended by signal {-self.exitcode}"


class RoleProcess:
    """Starts, supervises and ends the processes of one role.

    Attributes:
        state: ``waiting`` (to be started), ``running``, ``stopping`` or ``ended``.
        starts: Number of processes started so far.
        next_start_s: Due time of a waiting role, on the clock.
        status: Last status reported by the process.
        failures, kills: Numbers of consecutive ends by its own fault, and by external causes.
        has_progress: Whether any process of the role has reported progress.
    """

    def __init__(
        self,
        role: Role,
        run_dir: str,
        log_file: Path | None,
        token: str,
        show_level: int,
        clock: Callable[[], float],
        spawner: Spawner,
    ) -> None:
        self.role = role
        self.log_file = log_file
        self.state = "waiting"
        self.starts = self.failures = self.kills = 0
        self.next_start_s = 0.0
        self.status: Any = None
        self.last_end: str | None = None
        self.last_error: str | None = None
        self._run_dir = run_dir
        self._token = worker_token_of(token, role.worker) if spawner.own_processes else token
        self._show_level = show_level
        self._clock = clock
        self._spawner = spawner
        self._process: SpawnedProcess | None = None
        self._pipe: Connection | None = None
        self._unsent: dict[Message, Message] = {}
        self._result: Any = None
        self._error: tuple[str | None, bool, bytes | None] = None, False, None
        self._started_s = 0.0
        self.has_progress = False

    @property
    def alive(self) -> bool:
        return self._process is not None

    def waitables(self) -> list[Any]:
        """Return the objects that ``multiprocessing.connection.wait`` must watch."""
        found: list[Any] = [] if self._process is None else [self._process.end]
        return found if self._pipe is None else [*found, self._pipe]

    def start(self, peers: dict[str, Any]) -> None:
        """Start the next incarnation.

        Raises:
            ForkServerLost, OSError: The process cannot be created.
        """
        ours, theirs = Pipe()
        log_file = None if self.log_file is None else str(self.log_file)
        spec = ChildSpec(self.role, self.starts, self._run_dir, log_file, self._token, dict(peers), self._show_level)
        try:
            self._process = self._spawner.start(spec, theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._pipe = ours
        self._unsent.clear()
        self._result, self._error = None, (None, False, None)
        self._started_s = self._clock()
        self.starts += 1
        self.state = "running"

    def read(self) -> list[Message]:
        """Return the messages for others: announcements, log lines, and a new status, which is also stored here."""
        messages: list[Message] = []
        while self._pipe is not None:
            try:
                if not self._pipe.poll():
                    break
                kind, *data = message = self._pipe.recv()
            except (EOFError, OSError):
                self._close_pipe()
                break
            if kind == "progress":
                self.failures = self.kills = 0
                self.has_progress = True
            elif kind == "result":
                self._result = data[0]
            elif kind == "error":
                self._error = data[0], data[1], data[2]
            else:
                if kind == "status":
                    self.status = data[0]
                messages.append(message)
        return messages

    def ended(self) -> bool:
        """Return whether the process has ended and is not collected yet."""
        return self._process is not None and self._process.has_ended()

    def collect(self) -> RoleEnd:
        """Release the resources of the ended process; count the end unless it was requested."""
        process, self._process = self._process, None
        if process is None:
            raise ValueError(f"{self.role.name} has no process")
        end = RoleEnd(process.exitcode(), self._result, *self._error, process.unknown_end)
        process.close()
        self._close_pipe()
        asked = self.state == "stopping"
        self.state = "ended"
        self.status = None
        if not asked and (end.result is None or not self.role.ends_run):
            self.last_end = end.text
            self.last_error = None if end.error is None else end.error.strip().splitlines()[-1]
            if self._clock() - self._started_s >= self.role.restart.healthy_after_s:
                self.failures = self.kills = 0
            if end.killed:
                self.kills += 1
            else:
                self.failures += 1
        return end

    def not_started(self, error: BaseException) -> RoleEnd:
        """Record a failed start: a normal failure, unless the fork server was killed."""
        if isinstance(error, ForkServerLost):
            self.kills += 1
        else:
            self.failures += 1
        self.state = "ended"
        self.last_end, self.last_error = f"could not be started ({type(error).__name__}: {error})", None
        return RoleEnd(1)

    def may_restart(self, end: RoleEnd) -> bool:
        """Return whether the rule of the role allows a restart."""
        rule = self.role.restart
        return not end.permanent and self.failures < rule.max_failures and self.kills < rule.max_kills

    def schedule(self) -> float:
        """Schedule the next start; return the delay in seconds."""
        delay_s = self.role.restart.delay_after(self.failures + self.kills)
        self.next_start_s = self._clock() + delay_s
        self.state = "waiting"
        return delay_s

    def detail(self, end: RoleEnd) -> str:
        """Return the traceback of the process, or the end of its log."""
        if end.error is not None:
            return end.error
        log = "" if self.log_file is None else f"; the end of its log:\n{_tail(self.log_file)}"
        return f"the process {end.text}{log}"

    def send(self, message: Message) -> None:
        """Send a message to the process once it reads; messages to a stopping process are dropped.

        If the process is stopped and its pipe is full, the newest message of each subject is kept: a write would block.
        """
        subject = message[:2]  # ("stop",) or ("peer", name)
        self._unsent.pop(subject, None)
        self._unsent[subject] = message
        self.flush()

    @property
    def has_unsent(self) -> bool:
        """Return whether messages wait for the process to read."""
        return bool(self._unsent) and self._pipe is not None

    def flush(self) -> None:
        """Send waiting messages as far as the pipe has space."""
        while self._unsent and self._pipe is not None and _is_writable(self._pipe):
            message = self._unsent.pop(next(iter(self._unsent)))
            with contextlib.suppress(OSError):
                self._pipe.send(message)

    def ask_to_stop(self) -> None:
        """Request an orderly end of the process; a role that waits for its next start ends at once."""
        if self._process is None:
            self.state = "ended"
        elif self.state == "running":
            self.state = "stopping"
            self.send(("stop",))

    def kill(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self.state = "stopping"
            self._process.kill()

    def snapshot(self) -> ProcessStatus:
        """Return the state of the role."""
        pid = None if self._process is None else self._process.pid
        uptime_s = round(self._clock() - self._started_s, 1) if self._process is not None else 0.0
        return ProcessStatus(self.state, pid, max(0, self.starts - 1), uptime_s, self.last_end, self.last_error)

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


def _is_writable(pipe: Connection) -> bool:
    """Return whether a message can be written without blocking: on Linux, if three quarters of the buffer are free."""
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
