"""What the in-process planes of one name have in common, as files of one folder are common to processes."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Shared = TypeVar("Shared")


class SharedByName(Generic[Shared]):
    """Objects by name, made when they are first asked for.

    Args:
        make: makes one.
    """

    def __init__(self, make: Callable[[], Shared]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._objects: dict[str, Shared] = {}

    def get(self, name: str) -> Shared:
        """Return the object of this name."""
        with self._lock:
            if name not in self._objects:
                self._objects[name] = self._make()
            return self._objects[name]

    def forget(self, name: str) -> None:
        """Make a new one when the name is next asked for."""
        with self._lock:
            self._objects.pop(name, None)
