"""Counters that several threads add to."""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter
from typing import Any, TypeVar

T = TypeVar("T")


class Counters:
    """Named counters, all zero at first. All methods are atomic."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, name: str, amount: int = 1) -> None:
        """Count."""
        with self._lock:
            self._counts[name] += amount

    def snapshot(self, cls: type[T], **values: Any) -> T:
        """A dataclass ``cls`` with the counters of its fields, and ``values``."""
        with self._lock:
            for spec in dataclasses.fields(cls):  # type: ignore[arg-type]
                values.setdefault(spec.name, self._counts[spec.name])
        return cls(**values)
