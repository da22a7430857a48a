"""Background publication of the newest version of a policy."""

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

import torch

from ding.parallel.planes import StorageError, WeightPlane
from ding.utils.nested import map_leaves

log = logging.getLogger(__name__)

_RETRY_S = 0.5


class PolicyPublisher:
    """Takes versions from the training thread and writes the newest one in a thread, at most once per interval.

    A version that is not written yet is replaced by the next one. :meth:`close` writes the pending version.

    Args:
        planes: Planes that each version is written to.
        interval_s: Minimum interval between two versions during training.
    """

    def __init__(self, planes: Sequence[WeightPlane], interval_s: float) -> None:
        self._planes = list(planes)
        self._interval_s = interval_s
        self._changed = threading.Condition()
        self._next: tuple[dict[str, Any], int] | None = None
        self._writing = False
        self._taken_at = float("-inf")
        self._closed = False
        self.version: int | None = None
        self._thread = threading.Thread(target=self._run, name="policy-publisher", daemon=True)
        self._thread.start()

    def due(self) -> bool:
        """Whether the interval has passed since the last version was taken."""
        return time.monotonic() - self._taken_at >= self._interval_s

    def offer(self, state: dict[str, Any], version: int) -> None:
        """Take a version; its tensors are copied, so training may continue."""
        copied = map_leaves(_own, state)
        with self._changed:
            self._next = (copied, version)
            self._taken_at = time.monotonic()
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all versions are written; return False on time-out."""
        with self._changed:
            return self._changed.wait_for(lambda: self._next is None and not self._writing, timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write the pending version, then end. Repeated calls have no effect."""
        self.flush(timeout_s)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            try:
                for plane in self._planes:
                    plane.publish(taken[0], taken[1], {"iter": taken[1]})
                self.version = taken[1]
            except StorageError as error:
                log.warning("version %d of the policy cannot be published, trying again: %s", taken[1], error)
                self._again(taken)
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _take(self) -> tuple[dict[str, Any], int] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._next is not None or self._closed)
            taken, self._next = self._next, None
            self._writing = taken is not None
            return taken

    def _again(self, taken: tuple[dict[str, Any], int]) -> None:
        with self._changed:
            if not self._closed and self._next is None:
                self._changed.wait_for(lambda: self._closed, _RETRY_S)
                self._next = self._next or taken


def _own(leaf: object) -> object:
    return leaf.detach().to("cpu", copy=True) if isinstance(leaf, torch.Tensor) else leaf
