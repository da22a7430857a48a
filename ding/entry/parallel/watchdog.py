"""Watchdog of a run: raises an alarm, and later ends the run, if it has no workers or no progress for too long."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from ding.parallel.launch import PermanentRoleError

logger = logging.getLogger("ding.entry")

# Maximum time counted between two calls: a suspended process has observed nothing.
_LONGEST_STEP_S = 5.0


class RunStalled(PermanentRoleError):
    """The run had no workers, or no progress, for longer than its config allows."""


class Watchdog:
    """Checks the status of a run repeatedly.

    Args:
        alarm_s: Seconds without workers of a kind, or without progress, until an alarm; 0: never.
        end_s: Seconds until the run ends; 0: never.
        clock: Monotonic clock, in seconds.

    Attributes:
        alarm: Last result of ``look``.
    """

    alarm: str | None = None

    def __init__(self, alarm_s: float, end_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._alarm_s = alarm_s or float("inf")
        self._end_s = end_s or float("inf")
        self._clock = clock
        self._looked_s = clock()
        self._idle_s = {"no collector is connected": 0.0, "no learner is connected": 0.0, "there is no progress": 0.0}
        self._alarmed: set[str] = set()
        self._figures: Any = None

    def look(self, status: Mapping[str, Any]) -> str | None:
        """Return the alarm as a sentence, or ``None``; see ``alarm``.

        Args:
            status: Result of ``Coordinator.status``.

        Raises:
            RunStalled: The condition lasts for too long.
        """
        self.alarm = self._look(status)
        return self.alarm

    def _look(self, status: Mapping[str, Any]) -> str | None:
        now_s = self._clock()
        step_s, self._looked_s = min(now_s - self._looked_s, _LONGEST_STEP_S), now_s
        buffers = status.get("buffers") or {}
        figures = buffers.get("rows"), status.get("train_iter"), (status.get("tasks") or {}).get("done")
        workers = (status.get("workers") or {}).values()
        roles = {worker.get("role") for worker in workers if worker.get("state") != "quarantined"}
        fine = ("collector" in roles, "learner" in roles, figures != self._figures)
        self._figures = figures
        for what, is_fine in zip(self._idle_s, fine):
            self._idle_s[what] = 0.0 if is_fine else self._idle_s[what] + step_s
            if is_fine:
                self._alarmed.discard(what)
        what, idle_s = max(self._idle_s.items(), key=lambda item: item[1])
        if idle_s >= self._end_s:
            raise RunStalled(f"{what}, for {idle_s:.0f} s now: the run ends (system_config.coordinator.stall_end_s)")
        if idle_s < self._alarm_s:
            return None
        text = f"{what}, for {idle_s:.0f} s now"
        if what not in self._alarmed:
            self._alarmed.add(what)
            logger.warning("%s; see system_config.coordinator.stall_end_s", text)
        return text
