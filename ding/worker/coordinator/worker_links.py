"""Connections to workers, by worker name."""

import logging
import threading
from collections.abc import Callable

from ding.worker.coordinator.errors import WorkerLost
from ding.worker.coordinator.protocols import WorkerHub, WorkerLink
from ding.worker.coordinator.tasks.records import Holder


class WorkerLinks:
    """Connected workers, with the newest connection per name. Thread-safe.

    Args:
        hub: Creates connections.
        logger: Text logger.
    """

    def __init__(self, hub: WorkerHub, logger: logging.Logger) -> None:
        self._hub = hub
        self._logger = logger
        self._changed = threading.Condition()
        self._links: dict[str, WorkerLink] = {}

    def connect(self, name: str, role: str, host: str, port: int) -> WorkerLink | None:
        """Connect to a worker at a known address; ``None`` if it does not answer. :meth:`enter` must follow."""
        try:
            return self._hub.connect(name, role, host, port)
        except WorkerLost as error:
            self._logger.info("%s at %s:%s cannot be reached yet: %s", name, host, port, error)
            return None

    def enter(self, link: WorkerLink) -> WorkerLink | None:
        """Register a connection and return the worker's previous one.

        Raises:
            WorkerLost: The connection is closed already; a newer connection of the worker is kept.
        """
        with self._changed:
            if not link.alive:
                raise WorkerLost(f"the connection to {link.name} was over at once")
            former = self._links.get(link.name)
            self._links[link.name] = link
            self._changed.notify_all()
        return former

    def leave(self, link: WorkerLink) -> bool:
        """Remove a closed connection; return False if the worker has another one, or none."""
        with self._changed:
            if self._links.get(link.name) is not link:
                return False
            del self._links[link.name]
            self._changed.notify_all()
        return True

    def drop(self, name: str) -> WorkerLink | None:
        """Remove the connection of a worker and return it."""
        with self._changed:
            link = self._links.pop(name, None)
            self._changed.notify_all()
        return link

    def get(self, name: str) -> WorkerLink | None:
        """Return the connection of a worker."""
        with self._changed:
            return self._links.get(name)

    def all(self) -> list[WorkerLink]:
        """Return all connections."""
        with self._changed:
            return list(self._links.values())

    def is_present(self, holder: Holder) -> bool:
        """Return whether the process of a holder is connected, possibly as a later incarnation."""
        return any(link.holder.process == holder.process for link in self.all())

    def wait_for(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``holds()``, evaluated after every change of the connections; return its value."""
        with self._changed:
            return self._changed.wait_for(holds, timeout_s)

    def wake(self) -> None:
        """Make waiting threads evaluate their conditions."""
        with self._changed:
            self._changed.notify_all()
