"""What a role of a parallel run is: a name, what its process does, and when the process is started again.

A *role* is a place in the run (``coordinator``, ``learner0``, ``collector1``). An *incarnation* is one process in that
place, numbered from 0. The launcher knows nothing else of a role, so anything can be put in its places.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ding.entry._role_child import RoleContext


@dataclass(frozen=True)
class RestartRule:
    """When the process of a role is started again, and how long after.

    A failure is an exception, a crash or an exit code other than 0. A kill is an end by SIGKILL, SIGTERM or SIGINT from
    outside, or an end that nobody asked for: the work was not at fault, so more of them are borne. Both counts are
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
        name: Unique in the run; letters, digits and ``_``.
        target: Called in the process with its `RoleContext`; a module-level function. What it returns is the role's
            result (JSON-like), or None.
        payload: Handed to the process as ``context.payload``.
        restart: When the process is started again.
        ends_run: A return of ``target`` that is not None ends the run with that result.
        stop_phase: Roles of phase 0 are asked to stop first; those of phase 1 when they are gone.
        group: Roles of a group live and die together: when the process of one ends, those of the others are killed,
            and all are started again. What they announced is forgotten.
    """

    name: str
    target: Callable[[RoleContext], Any]
    payload: Any = None
    restart: RestartRule = field(default_factory=RestartRule)
    ends_run: bool = False
    stop_phase: int = 1
    group: str | None = None


class RoleFailed(RuntimeError):
    """A role failed too often in a row; ``str(error)`` has the role's own traceback.

    Attributes:
        role: Its name.
        failures: How often it failed in a row.
        detail: The traceback, or what is known of the end of the process.
    """

    def __init__(self, role: str, failures: int, detail: str, log_file: str) -> None:
        times = "once, with an error that another start would not help" if failures == 1 else f"{failures} times"
        super().__init__(f"{role} failed {times} (its log: {log_file}):\n{detail.rstrip()}")
        self.role = role
        self.failures = failures
        self.detail = detail


class PermanentRoleError(RuntimeError):
    """Raised by a role's target for what another start would not help (a port that is taken, a wrong config)."""


KILL_SIGNALS = frozenset(
    number for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP") if (number := getattr(signal, name, None)) is not None
)


def end_text(exitcode: int) -> str:
    """Return what the exit code of a process says, in words."""
    if exitcode >= 0:
        return f"ended with exit code {exitcode}"
    try:
        return f"ended by {signal.Signals(-exitcode).name}"
    except ValueError:
        return f"ended by signal {-exitcode}"
