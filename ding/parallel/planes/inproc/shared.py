"""Objects that in-process planes of the same name share, like processes share the files of a folder."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Shared = TypeVar("Shared")


class SharedByName(Generic[Shared]):
    """Objects by name, created on first use.

    Args:
        make: Creates an object.
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
        """Remove the object; the next :meth:`get` creates a new one."""
        with self._lock:
            self._objects.pop(name, None)
