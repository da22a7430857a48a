"""The launcher: starts the roles of a run, keeps them running, and ends them all.

It holds no state of the training. It waits for the ends of processes, their messages, signals and the next due start,
all at once and without polling. A process that ends is started again by the `RestartRule` of its role. The run is over
when

* a role with ``ends_run`` returns a result (`Outcome.result`);
* a role failed too often in a row: `RoleFailed`, with its traceback;
* SIGINT or SIGTERM came (`Outcome.signum`).

Then the roles are asked to stop, phase by phase; whoever is still there ``stop_s`` seconds later is killed. A second
signal kills at once. Whatever happens, no process is left when `Launcher.run` returns.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from types import FrameType
from typing import Any

from ding.entry._role import Role, RoleFailed
from ding.entry._role_process import RoleEnd, RoleProcess
from ding.entry._signals import STOP_SIGNALS

logger = logging.getLogger("ding.entry")

LAUNCHER = "launcher"
"""The peer under which the roles find the states of all processes."""

STOP_S = 9.0
PHASE_S = 5.0
_LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Outcome:
    """How a run ended: with a result, or by a signal."""

    result: Any = None
    signum: int | None = None


class SignalInbox:
    """Collects SIGINT and SIGTERM and wakes who waits on `socket`. Outside the main thread it stays empty."""

    def __init__(self) -> None:
        self.socket, self._sender = socket.socketpair()
        self.received: list[int] = []
        self._previous: dict[int, Any] = {}
        self._previous_fd = -1

    def __enter__(self) -> SignalInbox:
        for end in (self.socket, self._sender):
            end.setblocking(False)
        if threading.current_thread() is threading.main_thread():
            self._previous_fd = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
            self._previous = {number: signal.signal(number, self._note) for number in STOP_SIGNALS}
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if self._previous:
            signal.set_wakeup_fd(self._previous_fd)
        self.socket.close()
        self._sender.close()

    def drain(self) -> None:
        """Take the wake-up bytes, so that the next wait waits."""
        with contextlib.suppress(BlockingIOError):
            while self.socket.recv(64):
                pass

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.received.append(signum)


class Launcher:
    """Runs roles. `pictures` may be called from other threads, nothing else.

    Args:
        roles: The roles, with unique names.
        run_dir: The folder that the roles share; it exists.
        log_dir: Folder of the roles' own logs (``<role>_process.txt``); it exists.
        token: The run's token.
        on_change: Called after a process started or ended or told its status; must be quick.
        stop_s: Seconds that the roles have for an orderly end, all together.
        phase_s: Seconds after which the next phase is asked in any case.
        show_level: Log lines of the roles of at least this level are shown here, too.
        peers: What is known of roles that others started.
    """

    def __init__(
        self,
        roles: Sequence[Role],
        run_dir: str,
        log_dir: str,
        token: str,
        on_change: Callable[[Launcher], None] | None = None,
        stop_s: float = STOP_S,
        phase_s: float = PHASE_S,
        show_level: int = logging.WARNING,
        clock: Callable[[], float] = time.monotonic,
        peers: Mapping[str, Any] | None = None,
    ) -> None:
        names = [role.name for role in roles]
        if len(set(names)) != len(names):
            raise ValueError(f"the names of roles must be unique, got {names}")
        self.roles = {
            role.name: RoleProcess(role, run_dir, Path(log_dir) / f"{role.name}_process.txt", token, show_level, clock)
            for role in roles
        }
        self._peers: dict[str, Any] = dict(peers or {})
        self._on_change = on_change
        self._stop_s = stop_s
        self._phase_s = phase_s
        self._clock = clock
        self._outcome: Outcome | None = None
        self._failure: RoleFailed | None = None
        self._stop_began_s: float | None = None
        self._inbox: SignalInbox | None = None

    def run(self) -> Outcome:
        """Run the roles until the run is over; see the module.

        Raises:
            RoleFailed: A role failed too often in a row.
        """
        with SignalInbox() as inbox:
            self._inbox = inbox
            try:
                while not self._over():
                    self._start_due()
                    self._wait()
                    self._take_signals()
                    for process in self.roles.values():
                        self._attend(process)
                    self._drive_stop()
            finally:
                self._kill_all()
        if self._failure is not None:
            raise self._failure
        return self._outcome if self._outcome is not None else Outcome()

    def pictures(self) -> dict[str, dict[str, Any]]:
        """Return the state of every role (JSON-like)."""
        return {name: process.picture() for name, process in self.roles.items()}

    def announced(self, name: str) -> Any:
        """Return what a role announced last, or None."""
        return self._peers.get(name)

    @property
    def stopping(self) -> bool:
        return self._stop_began_s is not None

    def _over(self) -> bool:
        return self.stopping and not any(process.alive for process in self.roles.values())

    def _start_due(self) -> None:
        if self.stopping:
            return
        for process in self.roles.values():
            if process.state == "waiting" and process.next_start_s <= self._clock():
                self._start(process)
                self._changed(tell=True)

    def _start(self, process: RoleProcess) -> None:
        try:
            process.start(self._peers)
        except (EOFError, OSError) as error:
            # The fork server was killed just now, and the next start makes another one; or no more processes may be.
            if process.may_restart(process.not_started(error)):
                delay_s = process.schedule()
                logger.warning("%s %s; it is tried again in %.1f s", process.role.name, process.last_end, delay_s)
            else:
                self._fail(process, str(process.last_end))

    def _wait(self) -> None:
        assert self._inbox is not None
        objects: list[Any] = [self._inbox.socket]
        for process in self.roles.values():
            objects += process.waitables()
        wait(objects, self._timeout_s())
        self._inbox.drain()

    def _timeout_s(self) -> float | None:
        due_s = self._due_s()
        # Nothing tells that a pipe has room again.
        if any(process.has_unsent for process in self.roles.values()):
            return _LOOK_EVERY_S if due_s is None else min(due_s, _LOOK_EVERY_S)
        return due_s

    def _due_s(self) -> float | None:
        now_s = self._clock()
        if self._stop_began_s is not None:
            ends = [self._stop_began_s + self._phase_s, self._stop_began_s + self._stop_s]
            due = [end for end in ends if end > now_s]
            return min(due) - now_s if due else _LOOK_EVERY_S
        due = [process.next_start_s for process in self.roles.values() if process.state == "waiting"]
        return max(0.0, min(due) - now_s) if due else None

    def _take_signals(self) -> None:
        assert self._inbox is not None
        if not self._inbox.received:
            return
        signum = self._inbox.received[0]
        if len(self._inbox.received) > 1:
            self._kill_all()
        if not self.stopping:
            logger.warning("stopping on %s; once more ends it at once", signal.Signals(signum).name)
        if self._outcome is None and self._failure is None:
            self._begin_stop(Outcome(signum=signum))

    def _attend(self, process: RoleProcess) -> None:
        process.flush()
        # The end is looked at first: what a dead process had sent is then read completely.
        ended = process.ended()
        for message in process.read():
            self._on_message(process, message)
        if ended:
            asked = process.state == "stopping"
            self._on_end(process, process.collect(), asked)
            self._changed(tell=True)

    def _on_message(self, process: RoleProcess, message: tuple[Any, ...]) -> None:
        name = process.role.name
        if message[0] == "peer":
            # Of a process that dies with its group nobody may hear any more.
            if process.role.group is None or process.state != "stopping":
                self._tell(name, message[1])
            self._changed()
        elif message[0] == "log":
            logger.log(message[1], "%s: %s", name, message[2])
        else:
            self._changed()

    def _on_end(self, process: RoleProcess, end: RoleEnd, asked: bool) -> None:
        name = process.role.name
        if end.result is not None and process.role.ends_run:
            self._begin_stop(Outcome(result=end.result))
        elif self.stopping:
            if end.error is not None:
                logger.warning("%s failed while it stopped:\n%s", name, end.error)
        elif asked:  # it died with its group
            process.schedule()
        elif process.may_restart(end):
            self._end_group(process)
            delay_s = process.schedule()
            logger.warning("%s %s; it is started again in %.1f s", name, process.last_end, delay_s)
            if process.last_error is not None:
                logger.warning("%s: %s", name, process.last_error)
        else:
            self._fail(process, process.detail(end))

    def _fail(self, process: RoleProcess, detail: str) -> None:
        count = process.failures if process.failures else process.kills
        self._failure = RoleFailed(process.role.name, count, detail, str(process.log_file))
        self._begin_stop(None)

    def _end_group(self, ended: RoleProcess) -> None:
        if ended.role.group is None:
            return
        for name, mate in self.roles.items():
            if mate.role.group != ended.role.group:
                continue
            self._peers.pop(name, None)
            if mate is not ended and mate.alive:
                logger.warning("%s works with %s only: it is ended and started again, too", name, ended.role.name)
                mate.last_end, mate.last_error = f"ended with {ended.role.name}", ended.last_error
                mate.kill()

    def _begin_stop(self, outcome: Outcome | None) -> None:
        if self._outcome is None and outcome is not None and self._failure is None:
            self._outcome = outcome
        if self._stop_began_s is None:
            self._stop_began_s = self._clock()

    def _drive_stop(self) -> None:
        """Ask the phase that is due to stop, and kill who is still there at the end."""
        if self._stop_began_s is None:
            return
        passed_s = self._clock() - self._stop_began_s
        if passed_s >= self._stop_s:
            self._kill_all()
            return
        for phase in sorted({process.role.stop_phase for process in self.roles.values()}):
            members = [process for process in self.roles.values() if process.role.stop_phase == phase]
            for process in members:
                if process.state in ("running", "waiting"):
                    process.ask_to_stop()
            if passed_s < self._phase_s and any(process.alive for process in members):
                return

    def _kill_all(self) -> None:
        alive = [process for process in self.roles.values() if process.alive]
        for process in alive:
            if self.stopping and not process.ended():
                logger.warning("%s did not end by itself; it is killed", process.role.name)
            process.kill()
        for process in alive:
            wait(process.waitables()[:1])
            process.read()
            process.collect()

    def _tell(self, name: str, data: Any) -> None:
        self._peers[name] = data
        for process in self.roles.values():
            if process.role.name != name:
                process.send(("peer", name, data))

    def _changed(self, tell: bool = False) -> None:
        if tell:
            self._tell(LAUNCHER, self.pictures())
        if self._on_change is not None:
            self._on_change(self)
