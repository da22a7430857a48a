"""Life cycles, random tokens, counters, two-sided events and small helpers for functions."""

import dataclasses
import secrets
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

SnapshotT = TypeVar("SnapshotT")
Self = TypeVar("Self", bound="ControllableContext")


def random_token(length: int = 64) -> str:
    """Return ``length`` hexadecimal characters from the system's random source, which no seed makes predictable."""
    if length < 1:
        raise ValueError(f"the length of a token must be positive, got {length}")
    return secrets.token_hex((length + 1) // 2)[:length]


def translate_dict_func(functions: Mapping[str, Callable[..., Any]]) -> Callable[..., dict[str, Any]]:
    """Return a function that calls each of ``functions`` with its own arguments and returns ``{name: result}``."""

    def call(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return {name: function(*args, **kwargs) for name, function in functions.items()}

    return call


def default_func(return_value: object = None) -> Callable[[Callable[..., Any] | None], Callable[..., Any]]:
    """Replace a missing callback: ``default_func(0)(callback)`` is the callback, or for ``None`` a function that
    accepts any arguments and returns 0.
    """

    def stand_in(*_args: Any, **_kwargs: Any) -> object:
        return return_value

    def choose(callback: Callable[..., Any] | None) -> Callable[..., Any]:
        return stand_in if callback is None else callback

    return choose


class ControllableContext(ABC):
    """A resource that is started and closed; ``with`` does both."""

    @abstractmethod
    def start(self) -> object:
        """Start."""

    @abstractmethod
    def close(self) -> object:
        """Close; a second call has no effect."""

    def __enter__(self: Self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: Any) -> None:
        self.close()


class ControllableService(ControllableContext):
    """A context that runs in the background: ``shutdown`` requests its end, ``join`` waits for it."""

    @abstractmethod
    def shutdown(self) -> None:
        """Request the end of the service without waiting."""

    @abstractmethod
    def join(self) -> None:
        """Wait until the service has ended."""

    def close(self) -> None:
        """Call ``shutdown`` and ``join``."""
        self.shutdown()
        self.join()


class Counters:
    """Named counters, initially zero. All methods are atomic."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, name: str, amount: int = 1) -> None:
        """Increase counters."""
        with self._lock:
            self._counts[name] += amount

    def snapshot(self, cls: type[SnapshotT], **values: Any) -> SnapshotT:
        """Return a dataclass ``cls`` with the counters of its fields, and ``values``."""
        with self._lock:
            for spec in dataclasses.fields(cls):  # type: ignore[arg-type]
                values.setdefault(spec.name, self._counts[spec.name])
        return cls(**values)


class DblEvent:
    """A flag that threads can wait on in both directions. All methods are atomic."""

    def __init__(self, opened: bool = False) -> None:
        self._opened = bool(opened)
        self._changed = threading.Condition()

    def open(self) -> None:
        """Open the flag and wake the threads waiting for it to open."""
        self._set(True)

    def close(self) -> None:
        """Close the flag and wake the threads waiting for it to close."""
        self._set(False)

    def is_open(self) -> bool:
        """Return whether the flag is open."""
        return self._opened

    def is_close(self) -> bool:
        """Return whether the flag is closed."""
        return not self._opened

    def wait_for_open(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds (None: no limit) until the flag is open; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._opened, timeout)

    def wait_for_close(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds (None: no limit) until the flag is closed; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._opened, timeout)

    def _set(self, opened: bool) -> None:
        with self._changed:
            self._opened = opened
            self._changed.notify_all()
