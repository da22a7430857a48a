"""When a run saves snapshots, and whether the disk has room for one that nobody asked for."""

import logging
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

logger = logging.getLogger("ding.entry")

#: Seconds between the snapshots of a run whose config names no other time.
SNAPSHOT_EVERY_S = 600.0
# Free space on the disk, in multiples of the size of a snapshot.
_DISK_RESERVE = 3
# Of a snapshot with a small buffer, for its networks.
_LEAST_FREE_BYTES = 64_000_000


class SnapshotClock:
    """Says when a run saves a snapshot: every ``run_state_freq`` train iterations, or where that is 0 every
    ``run_state_every_s`` seconds, 600 by default. Either way the run ends with one. Where both are 0 it saves none.

    Args:
        learn: the section ``policy.learn``.
        clock: the time in seconds.
        agree: returns the answer of the first process to all, where several processes train one model.
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
        """Whether all runs of a config and a seed save snapshots at the same train iterations."""
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
    """Return whether the disk has room for a snapshot with ``size`` bytes of data; a line says where it has not."""
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
    """Return a number of bytes as text."""
    return f"{size / 1e9:.2g} GB"
