"""Role of a parallel run: a name, the function of its process, and a restart rule.

A *role* is a place in the run (``coordinator``, ``learner0``, ``collector1``). An *incarnation* is one process of a
role, numbered from 0. The launcher knows nothing else about roles, so they can run any function.
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
    """Conditions and delay of a restart.

    A failure is an exception, a crash or a non-zero exit code. A kill is an end by SIGKILL, SIGTERM or SIGINT from
    outside, or an end that was not requested: as these are not caused by the role, more of them are tolerated. Both are
    counted while consecutive; progress, or a run time of ``healthy_after_s``, resets the counts.
    """

    max_failures: int = 3
    max_kills: int = 10
    first_delay_s: float = 0.0
    delay_s: float = 0.5
    max_delay_s: float = 10.0
    healthy_after_s: float = 60.0

    def delay_after(self, ends_in_a_row: int) -> float:
        """Return the delay of the next start in seconds: 0 after the first end, then doubled each time."""
        if ends_in_a_row <= 1:
            return self.first_delay_s
        return min(self.delay_s * 2.0 ** (ends_in_a_row - 2), self.max_delay_s)


@dataclass(frozen=True)
class Role:
    """Place in a run.

    Args:
        name: Unique name in the run, of letters, digits and ``_``.
        target: Module-level function, called in the process with its ``RoleContext``. It returns the role's result
            (JSON-like) or ``None``.
        payload: Available to the target as ``context.payload``.
        restart: Restart rule.
        ends_run: If ``target`` returns a result other than ``None``, the run ends with that result.
        may_return: A return of ``None`` ends the role, not only its process; the run ends once all of its roles have
            ended this way.
        stop_phase: Roles of phase 0 stop first; those of phase 1 after them.
        group: If the process of one role of a group ends, those of the others are killed, and all are restarted. Their
            announcements are discarded.
        worker: Worker names of the process, the most specific last: it gets the token of this worker
            (``ding.utils.credentials``), or that of the run if there is none.
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
    """Status of a role's process. ``state``: ``waiting`` (to be started), ``running``, ``stopping``, ``ended``."""

    state: str
    pid: int | None = None
    restarts: int = 0
    uptime_s: float = 0.0
    last_end: str | None = None
    last_error: str | None = None


class RoleFailed(RuntimeError):
    """A role failed too often in a row; ``str(error)`` contains the role's traceback.

    Attributes:
        role: Name of the role.
        failures: Number of consecutive failures.
        detail: Traceback, or a description of the end of the process.

        ``__cause__`` is the original exception if it can be pickled.
    """

    def __init__(self, role: str, failures: int, detail: str, log_file: str | None) -> None:
        times = "once and is not started again" if failures == 1 else f"{failures} times"
        log = "" if log_file is None else f" (its log: {log_file})"
        super().__init__(f"{role} failed {times}{log}:\n{detail.rstrip()}")
        self.role = role
        self.failures = failures
        self.detail = detail


class PermanentRoleError(RuntimeError):
    """Raised by a role's target if a restart would not help (e.g. a port in use, an invalid config)."""


class StopRequest:
    """Request to end this process; it cannot be withdrawn."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self.reason: str | None = None

    def set(self, reason: str) -> None:
        """Make the request; later calls have no effect."""
        with self._lock:
            if self.reason is not None:
                return
            self.reason = reason
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def set_soon(self, reason: str) -> None:
        """Make the request in another thread: a signal handler runs in the main thread, which may hold any lock."""
        threading.Thread(target=self.set, args=(reason,), daemon=True).start()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the request up to ``timeout_s``; return whether it was made."""
        return self._event.wait(timeout_s)

    def on_set(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the request is made, or now if it was. The callback must not block."""
        with self._lock:
            if self.reason is None:
                self._callbacks.append(callback)
                return
        callback()


class RoleContext:
    """Context of a role's target.

    Attributes:
        name: Name of the role.
        incarnation: Number of this process in the role, from 0.
        payload: Payload of the ``Role``.
        run_dir: Folder shared by all roles of the run.
        token: Token of the run or of its worker.
        stop: Set when this process must end; the target must then return within seconds.

    Args:
        peers: Announcements of other roles so far.
        send: Takes a message for the launcher, and whether it may be dropped under congestion.
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
        """Send data about this role (e.g. an address) to all others; it replaces the previous announcement."""
        self._send(("peer", data), False)

    def progress(self) -> None:
        """Report useful work of this process, which resets the failure count."""
        self._send(("progress",), False)

    def status(self, data: object) -> None:
        """Report the status of this role (JSON-like). Dropped if the pipe is congested."""
        self._send(("status", data), True)

    def peers(self) -> dict[str, Any]:
        """Return the last announcement of every role."""
        with self._changed:
            return dict(self._peers)

    def wait_for_peer(self, name: str, timeout_s: float) -> Mapping[str, Any] | None:
        """Wait for the first announcement of the role ``name`` and return its last one.

        Returns ``None`` if this process is asked to stop meanwhile.

        Raises:
            TimeoutError: No announcement arrived in time.
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
        """Call ``callback(name, data)`` in the reader thread for every future announcement."""
        with self._changed:
            self._watchers.append(callback)

    def note_peer(self, name: str, data: object) -> None:
        """Record an announcement of the role ``name``."""
        with self._changed:
            self._peers[name] = data
            watchers = list(self._watchers)
            self._changed.notify_all()
        for watcher in watchers:
            watcher(name, data)

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
