"""Counters that several threads add to."""

import threading

from ding.parallel.planes.protocols import PlaneStats


class Counters:
    """The fields of :class:`PlaneStats`, counted up under a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stats = PlaneStats()

    def add(self, **amounts: int) -> None:
        """Add to the named fields."""
        with self._lock:
            added = {name: getattr(self._stats, name) + amount for name, amount in amounts.items()}
            self._stats = self._stats._replace(**added)

    def snapshot(self) -> PlaneStats:
        """Return the counters now."""
        return self._stats
