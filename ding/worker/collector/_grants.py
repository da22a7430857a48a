"""Grants of an on-policy collector: a number of env steps with one policy version."""

import threading
from collections.abc import Mapping


class Grants:
    """Holds the collector back while it has no grant. Thread-safe.

    A grant ``{'id', 'version', 'steps'}`` permits that many env steps with a policy version. A duplicate is ignored; a
    newer grant replaces the rest of the previous one.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._grant: Mapping[str, int] | None = None
        self._last_id = -1
        self._closed = False

    def offer(self, grant: Mapping[str, int]) -> None:
        """Accept a grant, unless it is a duplicate."""
        with self._changed:
            if grant["id"] > self._last_id:
                self._last_id, self._grant = grant["id"], grant
                self._changed.notify_all()

    def wait(self) -> Mapping[str, int] | None:
        """Wait for the newest unused grant and return it; ``None`` after :meth:`close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._grant is not None or self._closed)
            return None if self._closed else self._grant

    def use_up(self, grant: Mapping[str, int]) -> None:
        """Mark a grant as used up."""
        with self._changed:
            if self._grant is grant:
                self._grant = None

    def close(self) -> None:
        """Wake blocked callers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
