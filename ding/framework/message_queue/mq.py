"""Interface of message queues."""

from abc import ABC, abstractmethod
from typing import Any


class MQ(ABC):
    """Message queue of one process: sends and receives topics with bytes.

    Constructors accept extra keyword arguments, so that the same arguments suit all types.
    """

    @abstractmethod
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    @abstractmethod
    def listen(self) -> None:
        """Start connecting and receiving."""

    @abstractmethod
    def publish(self, topic: str, data: bytes) -> None:
        """Send a message to all connected processes. Blocks while one of them is too far behind."""

    @abstractmethod
    def subscribe(self, topic: str) -> None:
        """Receive this topic; only for queues that filter by topic."""

    @abstractmethod
    def unsubscribe(self, topic: str) -> None:
        """Stop receiving this topic."""

    @abstractmethod
    def recv(self) -> tuple[str, bytes] | None:
        """Wait for a message and return its topic and data, or ``None`` once the queue is stopped."""

    def wait_for_peers(self, num_peers: int, timeout_s: float) -> bool:
        """Wait until ``num_peers`` processes are connected; return False on time-out. Server queues need not wait."""
        return True

    @abstractmethod
    def stop(self) -> None:
        """Close all connections; :meth:`recv` then returns ``None``. Repeated calls have no effect."""
