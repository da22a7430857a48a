"""Schedule of a run's snapshots, and checks of disk space for automatic ones."""

import logging
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

logger = logging.getLogger("ding.entry")

#: Default interval between two snapshots in seconds.
SNAPSHOT_EVERY_S = 600.0
# Required free disk space, in multiples of the size of a snapshot.
_DISK_RESERVE = 3
# Minimum size of a snapshot: its networks.
_LEAST_FREE_BYTES = 64_000_000


class SnapshotClock:
    """Schedules snapshots every ``run_state_freq`` train iterations, or if that is 0 every ``run_state_every_s``
    seconds (default 600). In both cases the run also ends with a snapshot. If both are 0, no snapshots are saved.

    Args:
        learn: Section ``policy.learn``.
        clock: Returns the time in seconds.
        agree: Broadcasts the answer of the first process, if several processes train one model.
    """

    def __init__(
        self,
        learn: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
        agree: Callable[[bool], bool] | None = None,
    ) -> None:
        self._freq = int(learn.get("run_state_freq") or 0)
        self._every_s = float(learn.get("run_state_every_s", SNAPSHOT_EVERY_S) or 0)
        self._clock, self._agree = clock, agree
        self._last_iter, self._last_s = 0, clock()

    @property
    def counts_iterations(self) -> bool:
        """Whether all runs with the same config and seed save snapshots at the same train iterations."""
        return self._freq > 0

    @property
    def saves_at_end(self) -> bool:
        """Whether the run ends with a snapshot."""
        return self._freq > 0 or self._every_s > 0

    def is_due(self, train_iter: int) -> bool:
        """Return whether a snapshot is due after ``train_iter`` train iterations."""
        if self._freq:
            return train_iter - self._last_iter >= self._freq
        if not self._every_s:
            return False
        due = self._clock() - self._last_s >= self._every_s
        return due if self._agree is None else self._agree(due)

    def restart(self, train_iter: int) -> None:
        """Count from here."""
        self._last_iter, self._last_s = train_iter, self._clock()


def has_room(folder: Path, size: int) -> bool:
    """Return whether the disk has room for a snapshot with ``size`` bytes of data; a lack of space is logged."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free >= max(_DISK_RESERVE * size, _LEAST_FREE_BYTES):
        return True
    logger.warning(
        "no snapshot is saved: it takes %s, and the disk of %s has %s free, less than three times as much",
        gigabytes(size), folder, gigabytes(free),
    )  # fmt: skip
    return False


def gigabytes(size: int) -> str:
    """Format a number of bytes in gigabytes."""
    return f"{size / 1e9:.2g} GB"
