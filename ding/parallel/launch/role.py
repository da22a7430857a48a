"""What a role of a parallel run is: a name, what its process does, and when the process is started again.

A *role* is a place in the run (``coordinator``, ``learner0``, ``collector1``). An *incarnation* is one process in that
place, numbered from 0. The launcher knows nothing else of a role, so anything can be put in its places.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ding.utils.credentials import WorkerName

Message = tuple[Any, ...]


@dataclass(frozen=True)
class RestartRule:
    """When the process of a role is started again, and how long after.

    A failure is an exception, a crash or an exit code other than 0. A kill is an end by SIGKILL, SIGTERM or SIGINT from
    outside, or an end that was not asked for: the work was not at fault, so more of them are borne. Both counts are
    of ends in a row: they go back to 0 when the process reports progress, or has run for ``healthy_after_s``.
    """

    max_failures: int = 3
    max_kills: int = 10
    first_delay_s: float = 0.0
    delay_s: float = 0.5
    max_delay_s: float = 10.0
    healthy_after_s: float = 60.0

    def delay_after(self, ends_in_a_row: int) -> float:
        """Seconds to wait before the next start: none after the first end, then twice as long each time."""
        if ends_in_a_row <= 1:
            return self.first_delay_s
        return min(self.delay_s * 2.0 ** (ends_in_a_row - 2), self.max_delay_s)


@dataclass(frozen=True)
class Role:
    """A place in a run.

    Args:
        name: unique in the run; letters, digits and ``_``.
        target: called in the process with its ``RoleContext``; a module-level function. What it returns is the role's
            result (JSON-like), or ``None``.
        payload: handed to the process as ``context.payload``.
        restart: when the process is started again.
        ends_run: a return of ``target`` that is not ``None`` ends the run with that result.
        may_return: a return of ``None`` is the end of the role, not of its process alone; the run is over when all of
            its roles have ended so.
        stop_phase: roles of phase 0 stop first; those of phase 1 when they have ended.
        group: roles of a group live and die together: when the process of one ends, those of the others are killed,
            and all are started again. What they announced is forgotten.
        worker: as which worker its process is known, after those to whom that one belongs: it gets the token of this
            worker (``ding.utils.credentials``); that of the run when there is none.
    """

    name: str
    target: Callable[[RoleContext], Any]
    payload: Any = None
    restart: RestartRule = field(default_factory=RestartRule)
    ends_run: bool = False
    may_return: bool = False
    stop_phase: int = 1
    group: str | None = None
    worker: tuple[WorkerName, ...] = ()


@dataclass(frozen=True)
class ProcessStatus:
    """How the process of a role does. ``state``: ``waiting`` (to be started), ``running``, ``stopping``, ``ended``."""

    state: str
    pid: int | None = None
    restarts: int = 0
    uptime_s: float = 0.0
    last_end: str | None = None
    last_error: str | None = None


class RoleFailed(RuntimeError):
    """A role failed too often in a row; ``str(error)`` has the role's own traceback.

    Attributes:
        role: its name.
        failures: how often it failed in a row.
        detail: the traceback, or what is known of the end of the process.

    ``__cause__`` is the exception itself, where it can be pickled.
    """

    def __init__(self, role: str, failures: int, detail: str, log_file: str | None) -> None:
        times = "once and is not started again" if failures == 1 else f"{failures} times"
        log = "" if log_file is None else f" (its log: {log_file})"
        super().__init__(f"{role} failed {times}{log}:\n{detail.rstrip()}")
        self.role = role
        self.failures = failures
        self.detail = detail


class PermanentRoleError(RuntimeError):
    """Raised by a role's target for what another start would not help (a port that is taken, a wrong config)."""


class StopRequest:
    """The wish that this process ends; it is made once and stays."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self.reason: str | None = None

    def set(self, reason: str) -> None:
        """Make the request; later ones change nothing."""
        with self._lock:
            if self.reason is not None:
                return
            self.reason = reason
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def set_soon(self, reason: str) -> None:
        """As ``set``, in a thread of its own: a signal handler runs in the main thread, which may hold any lock."""
        threading.Thread(target=self.set, args=(reason,), daemon=True).start()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the request, at most ``timeout_s``; returns whether it was made."""
        return self._event.wait(timeout_s)

    def on_set(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the request is made, or now when it was. It must not block."""
        with self._lock:
            if self.reason is None:
                self._callbacks.append(callback)
                return
        callback()


class RoleContext:
    """What the target of a role works with.

    Attributes:
        name: the role.
        incarnation: number of this process in the role, from 0.
        payload: what the ``Role`` carries.
        run_dir: folder that all roles of the run share.
        token: the run's token, or that of its worker.
        stop: set when this process should end; a target returns soon after, within seconds.

    Args:
        peers: what other roles have announced so far.
        send: takes a message for the launcher, and whether it may be dropped when there are too many.
    """

    def __init__(
        self,
        role: Role,
        run_dir: str,
        token: str,
        peers: Mapping[str, Any],
        send: Callable[[Message, bool], None],
        incarnation: int = 0,
    ) -> None:
        self.name = role.name
        self.payload = role.payload
        self.incarnation = incarnation
        self.run_dir = run_dir
        self.token = token
        self.stop = StopRequest()
        self._send = send
        self._peers = dict(peers)
        self._changed = threading.Condition()
        self._watchers: list[Callable[[str, Any], None]] = []

    def announce(self, data: object) -> None:
        """Send all other roles something about this one (an address); it replaces what was announced before."""
        self._send(("peer", data), False)

    def progress(self) -> None:
        """Report that this process did real work: what failed before does not count any more."""
        self._send(("progress",), False)

    def status(self, data: object) -> None:
        """Report how this role does (JSON-like). Dropped when the pipe is congested."""
        self._send(("status", data), True)

    def peers(self) -> dict[str, Any]:
        """What every role announced last."""
        with self._changed:
            return dict(self._peers)

    def wait_for_peer(self, name: str, timeout_s: float) -> Mapping[str, Any] | None:
        """Return what the role ``name`` announced, waiting for its first announcement.

        Returns ``None`` when this process gets the signal to stop meanwhile.

        Raises:
            TimeoutError: nothing came in time.
        """
        deadline_s = time.monotonic() + timeout_s
        self.stop.on_set(self._notify)
        with self._changed:
            while name not in self._peers:
                if self.stop.is_set():
                    return None
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError(f"{self.name}: {name} did not announce itself within {timeout_s:g} s")
                self._changed.wait(left_s)
            announced: Mapping[str, Any] | None = self._peers[name]
            return announced

    def on_peer(self, callback: Callable[[str, Any], None]) -> None:
        """Call ``callback(name, data)`` in the reading thread for every announcement from now on."""
        with self._changed:
            self._watchers.append(callback)

    def note_peer(self, name: str, data: object) -> None:
        """Take what the role ``name`` announced."""
        with self._changed:
            self._peers[name] = data
            watchers = list(self._watchers)
            self._changed.notify_all()
        for watcher in watchers:
            watcher(name, data)

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
