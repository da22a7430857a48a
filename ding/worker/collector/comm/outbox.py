"""Outgoing messages of a collector: references until they are acknowledged, progress, or a failure."""

import threading
from typing import Any

GATHER_S = 0.1


class Outbox:
    """Numbered references of one task, each kept until it is acknowledged.

    The collector's thread puts references and blocks while too many are unacknowledged; the thread of a coordinator's
    request takes them and blocks while there is no news. Unacknowledged references are returned again, so a lost answer
    loses no data; the receiver skips numbers it has seen.

    Args:
        max_pending: Maximum number of unacknowledged references.
        max_taken: Maximum number of references per answer.
        last_seq: Number before the first reference. A process that repeats a task continues the numbering, so that
            numbers stay unique.
        gather_s: Seconds that a reference waits for more, so that one answer holds many. References that complete a
            grant do not wait, nor do any once the collector is done or half of ``max_pending`` is used.
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
        """Number of the last reference."""
        return self._seq

    def put(self, entry: dict[str, Any]) -> int:
        """Add a reference; block while there are too many. After :meth:`close` the call does not block."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._pending) < self._max_pending)
            self._seq += 1
            self._pending[self._seq] = {**entry, "seq": self._seq}
            self._changed.notify_all()
            return self._seq

    def put_info(self, info: dict[str, Any]) -> None:
        """Replace the reported progress.

        Progress wakes a waiting request only if the collector is done; otherwise it accompanies the next references.
        """
        with self._changed:
            self._info = info
            self._done = bool(info.get("collector_done"))
            if self._done:
                self._changed.notify_all()

    def put_blocked(self, why: "str | None") -> None:
        """Report why the collector waits, or ``None`` when it continues."""
        with self._changed:
            self.blocked = why
            self._blocked_is_new = why is not None
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Record the collector's failure; :meth:`take` raises it after handing out earlier references once."""
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def take(self, ack: int = 0, max_wait_s: float = 0.0) -> tuple[list[dict[str, Any]], "dict[str, Any] | None"]:
        """Drop acknowledged references and return the pending ones.

        Args:
            ack: All numbers up to this one have arrived.
            max_wait_s: Seconds to wait if nothing is pending, or (up to ``gather_s``) for more references. Does not
                wait once the collector is done.

        Returns:
            The references, oldest first, and the progress after them. The progress is ``None`` while one answer cannot
            hold all pending references.

        Raises:
            BaseException: The error of the collector.
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
        """Return the remaining references: those that the receiver may have, and those that it cannot have.

        Args:
            ack: The receiver has exactly the numbers up to this one; ``None``: unknown.
        """
        with self._changed:
            self._forget(-1 if ack is None else ack)
            limit = self._handed_out if ack is None else ack
            refs = [self._pending[seq] for seq in sorted(self._pending)]
            return [ref for ref in refs if ref["seq"] <= limit], [ref for ref in refs if ref["seq"] > limit]

    def close(self) -> None:
        """Wake all blocked callers; later puts do not block."""
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
