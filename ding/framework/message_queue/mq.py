"""What a messenger between processes can do."""

from abc import ABC, abstractmethod
from typing import Any


class MQ(ABC):
    """A message queue of one process: topics and bytes to and from the connected ones.

    A constructor takes further keyword arguments than it needs, so that one set of them serves all kinds.
    """

    @abstractmethod
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    @abstractmethod
    def listen(self) -> None:
        """Begin to receive; connections are made from here on."""

    @abstractmethod
    def publish(self, topic: str, data: bytes) -> None:
        """Send a message to every connected process. Blocks while one of them is too far behind."""

    @abstractmethod
    def subscribe(self, topic: str) -> None:
        """Receive this topic, where the kind of queue chooses by topics."""

    @abstractmethod
    def unsubscribe(self, topic: str) -> None:
        """No longer receive this topic."""

    @abstractmethod
    def recv(self) -> tuple[str, bytes] | None:
        """Wait for a message; returns its topic and data, or ``None`` when the queue has been stopped."""

    def wait_for_peers(self, num_peers: int, timeout_s: float) -> bool:
        """Wait until so many processes are connected; returns whether they are. A queue over a server need not wait."""
        return True

    @abstractmethod
    def stop(self) -> None:
        """Close all connections; :meth:`recv` returns ``None`` from here on. A second call does nothing."""
