"""What a collector has for its coordinator: references until they are acknowledged, progress, or a failure."""

import threading
from typing import Any

GATHER_S = 0.1


class Outbox:
    """The references of one task, numbered upwards, each kept until it is acknowledged.

    The collector's thread puts and waits while too many are not acknowledged; the thread of a coordinator's request
    takes and waits while there is nothing to tell. What was taken and not acknowledged is given again, so that a lost
    answer loses nothing; the receiver passes over numbers that it has seen.

    Args:
        max_pending: how many references may wait to be acknowledged.
        max_taken: how many one answer holds.
        last_seq: the number before the first. A process that takes a task for the second time goes on counting, so
            that no number means two things.
        gather_s: how long a reference waits for more of them, so that one answer holds many. Nothing else waits, nor
            does a reference that completes a grant, nor any when the collector is done or half of the places are
            taken.
    """

    def __init__(
        self, max_pending: int = 64, max_taken: int = 256, last_seq: int = 0, gather_s: float = GATHER_S
    ) -> None:
        if max_pending < 1 or max_taken < 1:
            raise ValueError(f"max_pending and max_taken must be at least 1, found {max_pending} and {max_taken}")
        self._max_pending = max_pending
        self._max_taken = max_taken
        self._gather_s = gather_s
        self._changed = threading.Condition()
        self._pending: dict[int, dict[str, Any]] = {}
        self._seq = last_seq
        self._handed_out = last_seq
        self._info: dict[str, Any] | None = None
        self._done = False
        self.blocked: str | None = None
        self._blocked_is_new = False
        self._failure: BaseException | None = None
        self._failure_waits = True
        self._closed = False

    @property
    def last_seq(self) -> int:
        """The number of the last reference."""
        return self._seq

    def put(self, entry: dict[str, Any]) -> int:
        """Add a reference; waits while there are too many. After :meth:`close` it is added without waiting."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._pending) < self._max_pending)
            self._seq += 1
            self._pending[self._seq] = {**entry, "seq": self._seq}
            self._changed.notify_all()
            return self._seq

    def put_info(self, info: dict[str, Any]) -> None:
        """Replace the progress that is reported.

        Progress alone wakes nobody, it goes with the next references; only the news that the collector is done does.
        """
        with self._changed:
            self._info = info
            self._done = bool(info.get("collector_done"))
            if self._done:
                self._changed.notify_all()

    def put_blocked(self, why: "str | None") -> None:
        """Tell why the collector waits, or that it goes on."""
        with self._changed:
            self.blocked = why
            self._blocked_is_new = why is not None
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """The collector failed; :meth:`take` raises it, once it has had one chance to hand out what came before."""
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def take(self, ack: int = 0, max_wait_s: float = 0.0) -> tuple[list[dict[str, Any]], "dict[str, Any] | None"]:
        """Forget what is acknowledged and return what there is to tell.

        Args:
            ack: all numbers up to this one have arrived.
            max_wait_s: how long to wait when there is nothing, or (up to ``gather_s``) for more than there is. A
                collector that is done keeps nobody waiting.

        Returns:
            The references, oldest first, and the progress. The progress is that after these references: as long as an
            answer cannot hold all of them, it is ``None``.

        Raises:
            BaseException: what the collector failed with.
        """
        with self._changed:
            self._forget(ack)
            self._changed.wait_for(self._has_news, max_wait_s)
            self._changed.wait_for(self._is_urgent, min(self._gather_s, max_wait_s))
            if self._failure is not None:
                if not self._pending or not self._failure_waits:
                    raise self._failure
                self._failure_waits = False
            refs = [self._pending[seq] for seq in sorted(self._pending)[: self._max_taken]]
            self._blocked_is_new = False
            self._handed_out = max([self._handed_out, *(ref["seq"] for ref in refs)])
            complete = len(refs) == len(self._pending)
            return refs, self._info if complete else None

    def rest(self, ack: "int | None" = None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """What is left at the end: references that the receiver may know, and such that it certainly does not.

        Args:
            ack: the receiver has all numbers up to this one and no other; ``None``: it does not say.
        """
        with self._changed:
            self._forget(-1 if ack is None else ack)
            limit = self._handed_out if ack is None else ack
            refs = [self._pending[seq] for seq in sorted(self._pending)]
            return [ref for ref in refs if ref["seq"] <= limit], [ref for ref in refs if ref["seq"] > limit]

    def close(self) -> None:
        """Wake all who wait; what is put from now on does not wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _forget(self, ack: int) -> None:
        gone = [seq for seq in self._pending if seq <= ack]
        for seq in gone:
            del self._pending[seq]
        if gone:
            self._changed.notify_all()

    def _has_news(self) -> bool:
        return bool(self._pending) or self._is_urgent()

    def _is_urgent(self) -> bool:
        half_full = 2 * len(self._pending) >= self._max_pending
        granted = any("grant" in entry for entry in self._pending.values())
        return half_full or granted or self._done or self._blocked_is_new or self._failure is not None or self._closed
