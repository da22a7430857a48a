"""Counters that several threads add to."""

import threading

from ding.data.exchange.protocols import PlaneStats


class Counters:
    """The fields of :class:`PlaneStats`, counted up under a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values = dict.fromkeys(PlaneStats._fields, 0)

    def add(self, **amounts: int) -> None:
        """Add to the named fields."""
        with self._lock:
            for name, amount in amounts.items():
                self._values[name] += amount

    def snapshot(self, cached_bytes: int) -> PlaneStats:
        """The counters now."""
        with self._lock:
            return PlaneStats(**{**self._values, "cached_bytes": cached_bytes})
