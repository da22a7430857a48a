"""Launcher: starts the roles of a run, restarts them, and ends them all.

It holds no training state. It waits, without polling, for ended processes, their messages, signals and the next due
start. An ended process is restarted according to the ``RestartRule`` of its role. The run ends when

* a role with ``ends_run`` returns a result (``Outcome.result``), or all roles with ``may_return`` have returned;
* a role failed too often in a row: ``RoleFailed``, with its traceback;
* SIGINT or SIGTERM arrives (``Outcome.signum``).

Roles may join and leave during the run (``Launcher.add``, ``Launcher.retire``). At the end the roles are asked to stop,
phase by phase, and killed after ``stop_s`` seconds. A second signal kills at once. No process is left when
``Launcher.run`` returns.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ding.parallel.launch.forked import ForkServerLost, ForkSpawner
from ding.parallel.launch.leaving import Leaving
from ding.parallel.launch.process import RoleEnd, RoleProcess
from ding.parallel.launch.role import Message, ProcessStatus, Role, RoleFailed
from ding.parallel.launch.signals import SignalInbox
from ding.parallel.launch.spawner import Spawner

logger = logging.getLogger("ding.entry")

LAUNCHER = "launcher"
"""Peer name under which the roles find the states of all processes: name -> a ``ProcessStatus`` as a dict."""

STOP_S = 9.0
PHASE_S = 5.0
"""Seconds after which the next stop phase starts in any case."""

_LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run: a result, or a signal."""

    result: Any = None
    signum: int | None = None


class Launcher:
    """Runs roles. Only ``snapshots`` may be called from other threads.

    Args:
        roles: Roles with unique names.
        run_dir: Existing folder shared by the roles.
        log_dir: Folder of the roles' logs (``<role>_process.txt``), created if missing; ``None``: use the output of
            this process.
        token: Token of the run.
        on_change: Called after a process has started, ended or reported its status; must return quickly.
        stop_s: Total seconds that the roles have for an orderly end.
        boot_stop_s: The same before any role has reported progress, when there is nothing to save; ``None``:
            ``stop_s``.
        fail_s: The same after a role has failed; ``None``: ``stop_s``.
        show_level: Minimum level of the roles' log lines that are shown here, too.
        peers: Announcements of roles that were started elsewhere.
        preload: Modules that all roles need, imported once; see ``fork_server``.
        spawner: Place where the roles run; ``None``: processes on this machine.
    """

    def __init__(
        self,
        roles: Sequence[Role],
        run_dir: str,
        log_dir: str | None,
        token: str,
        on_change: Callable[[Launcher], None] | None = None,
        *,
        stop_s: float = STOP_S,
        boot_stop_s: float | None = None,
        fail_s: float | None = None,
        show_level: int = logging.WARNING,
        clock: Callable[[], float] = time.monotonic,
        peers: Mapping[str, Any] | None = None,
        preload: Sequence[str] = (),
        spawner: Spawner | None = None,
    ) -> None:
        if log_dir is not None:
            os.makedirs(log_dir, exist_ok=True)
        self._log_dir, self._token, self._show_level = log_dir, token, show_level
        self._spawner = ForkSpawner() if spawner is None else spawner
        # Replaced at each change instead of modified, because loops over it may change it.
        self.roles: dict[str, RoleProcess] = {}
        self.leaving = Leaving(stop_s)
        self._peers: dict[str, Any] = dict(peers or {})
        self._run_dir = run_dir
        self._preload = preload
        self._on_change = on_change
        self._stop_s = stop_s
        self._boot_stop_s = stop_s if boot_stop_s is None else boot_stop_s
        self._fail_s = stop_s if fail_s is None else fail_s
        self._clock = clock
        for role in roles:
            self.add(role)
        self._outcome: Outcome | None = None
        self._failure: RoleFailed | None = None
        self._stop_began_s: float | None = None

    def run(self) -> Outcome:
        """Run the roles until the run ends; see the module.

        Raises:
            RoleFailed: A role failed too often in a row.
        """
        with SignalInbox() as inbox, self._spawner.opened(self._run_dir, self._preload) as place:
            try:
                while not place.is_ready() and not inbox.received:
                    wait([inbox.socket, place.news])
                    inbox.drain()
                self._take_signals(inbox.received)
                while not (self.stopping and not any(process.alive for process in self.roles.values())):
                    self._start_due()
                    watched = [one for process in self.roles.values() for one in process.waitables()]
                    wait([inbox.socket, *watched], self._timeout_s())
                    inbox.drain()
                    self._take_signals(inbox.received)
                    for process in self.roles.values():
                        self._attend(process)
                    self._let_retired_go()
                    self._drive_stop()
            finally:
                self._kill_all()
        if self._failure is not None:
            raise self._failure
        return self._outcome if self._outcome is not None else Outcome()

    def end(self) -> None:
        """Stop the roles in order, as after a signal; for ``on_change``. The result may then be ``None``."""
        self._begin_stop(None)

    def add(self, role: Role) -> None:
        """Add a role with a unique name, which starts soon; for ``on_change``.

        Raises:
            ValueError: A role of this name exists.
        """
        if role.name in self.roles:
            raise ValueError(f"the names of roles must be unique, {role.name!r} is there")
        log_file = None if self._log_dir is None else Path(self._log_dir) / f"{role.name}_process.txt"
        process = RoleProcess(role, self._run_dir, log_file, self._token, self._show_level, self._clock, self._spawner)
        self.roles = {**self.roles, role.name: process}

    def retire(self, name: str) -> None:
        """Stop a role in order and remove it; for ``on_change``. It is killed after ``stop_s`` seconds."""
        self.leaving.ask(self.roles[name], self._clock())

    def snapshots(self) -> dict[str, ProcessStatus]:
        """Return the state of every role."""
        return {name: process.snapshot() for name, process in self.roles.items()}

    def announced(self, name: str) -> Mapping[str, Any] | None:
        """Return the last announcement of a role, or ``None``."""
        return self._peers.get(name)

    @property
    def stopping(self) -> bool:
        return self._stop_began_s is not None

    def _start_due(self) -> None:
        for process in self.roles.values():
            if not self.stopping and process.state == "waiting" and process.next_start_s <= self._clock():
                self._start(process)
                self._changed(processes=True)

    def _start(self, process: RoleProcess) -> None:
        try:
            process.start(self._peers)
        except (ForkServerLost, OSError) as error:
            # The fork server was just killed and will be replaced by the next start; or the process limit is reached.
            if process.may_restart(process.not_started(error)):
                delay_s = process.schedule()
                logger.warning("%s %s; it is tried again in %.1f s", process.role.name, process.last_end, delay_s)
            else:
                self._fail(process, RoleEnd(1), str(process.last_end))

    def _timeout_s(self) -> float | None:
        """Return the seconds until the next timed event; ``None`` if there is none."""
        if self._stop_began_s is not None:
            due = [self._stop_began_s + PHASE_S, self._stop_began_s + self._stop_s]
            due = [end for end in due if end > self._clock()] or [self._clock() + _LOOK_EVERY_S]
        else:
            due = [process.next_start_s for process in self.roles.values() if process.state == "waiting"]
            due += self.leaving.due_s
        # No event signals that a full pipe has become writable.
        if any(process.has_unsent for process in self.roles.values()):
            due.append(self._clock() + _LOOK_EVERY_S)
        return max(0.0, min(due) - self._clock()) if due else None

    def _take_signals(self, received: Sequence[int]) -> None:
        if not received:
            return
        if len(received) > 1:
            self._kill_all()
        if not self.stopping:
            logger.warning("stopping in order on %s; a second signal quits at once", signal.Signals(received[0]).name)
        if self._outcome is None and self._failure is None:
            if not any(process.has_progress for process in self.roles.values()):
                self._stop_s = min(self._stop_s, self._boot_stop_s)
            self._begin_stop(Outcome(signum=received[0]))

    def _attend(self, process: RoleProcess) -> None:
        process.flush()
        # Check the end first, so that all messages of a dead process are read afterwards.
        ended = process.ended()
        for message in process.read():
            self._on_message(process, message)
        if ended:
            asked = process.state == "stopping"
            self._on_end(process, process.collect(), asked)
            self._changed(processes=True)

    def _on_message(self, process: RoleProcess, message: Message) -> None:
        name = process.role.name
        if message[0] == "log":
            logger.log(message[1], "%s: %s", name, message[2])
            return
        # Announcements of a process that is killed with its group must not persist.
        if message[0] == "peer" and (process.role.group is None or process.state != "stopping"):
            self._share(name, message[1])
        self._changed()

    def _on_end(self, process: RoleProcess, end: RoleEnd, asked: bool) -> None:
        name = process.role.name
        if end.result is not None and process.role.ends_run:
            self._begin_stop(Outcome(result=end.result))
        elif process.role.may_return and end.exitcode == 0 and not self.stopping:
            if all(one.state == "ended" for one in self.roles.values()):
                self._begin_stop(Outcome())
        elif self.stopping or name in self.leaving:
            if end.error is not None:
                logger.warning("%s failed while it stopped:\n%s", name, end.error)
        elif asked:  # it was killed with its group
            process.schedule()
        elif process.may_restart(end):
            self._end_group(process)
            delay_s = process.schedule()
            logger.warning("%s %s; it is started again in %.1f s", name, process.last_end, delay_s)
            if process.last_error is not None:
                logger.warning("%s: %s", name, process.last_error)
        else:
            self._fail(process, end, process.detail(end))

    def _fail(self, process: RoleProcess, end: RoleEnd, detail: str) -> None:
        count = process.failures if process.failures else process.kills
        log_file = None if process.log_file is None else str(process.log_file)
        self._failure = RoleFailed(process.role.name, count, detail, log_file)
        if end.exception is not None:
            self._failure.__cause__ = cloudpickle.loads(end.exception)
        self._stop_s = self._fail_s
        self._begin_stop(None)

    def _let_retired_go(self) -> None:
        """Remove the roles that have left."""
        gone = self.leaving.look(self.roles, self._clock())
        if gone:
            self.roles = {name: process for name, process in self.roles.items() if name not in gone}
            self._peers = {name: data for name, data in self._peers.items() if name not in gone}
            self._changed(processes=True)

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
        """Ask the due phase to stop, and kill processes that are still running at the end."""
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
            if passed_s < PHASE_S and any(process.alive for process in members):
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

    def _share(self, name: str, data: object) -> None:
        """Store the announcement of a role, and send it to all others."""
        self._peers[name] = data
        for process in self.roles.values():
            if process.role.name != name:
                process.send(("peer", name, data))

    def _changed(self, processes: bool = False) -> None:
        if processes:
            self._share(LAUNCHER, {name: asdict(one) for name, one in self.snapshots().items()})
        if self._on_change is not None:
            self._on_change(self)
