"""The connections to workers, by the names of the workers."""

import logging
import threading
from collections.abc import Callable

from ding.worker.coordinator.errors import WorkerLost
from ding.worker.coordinator.protocols import WorkerHub, WorkerLink
from ding.worker.coordinator.tasks.records import Holder


class WorkerLinks:
    """The workers that are connected; one connection per name, the newest. Thread-safe.

    Args:
        hub: makes connections.
        logger: text logger.
    """

    def __init__(self, hub: WorkerHub, logger: logging.Logger) -> None:
        self._hub = hub
        self._logger = logger
        self._changed = threading.Condition()
        self._links: dict[str, WorkerLink] = {}

    def connect(self, name: str, role: str, host: str, port: int) -> WorkerLink | None:
        """Connect to a worker at a known address; ``None`` when it does not answer. :meth:`enter` must follow."""
        try:
            return self._hub.connect(name, role, host, port)
        except WorkerLost as error:
            self._logger.info("%s at %s:%s cannot be reached yet: %s", name, host, port, error)
            return None

    def enter(self, link: WorkerLink) -> WorkerLink | None:
        """A worker is connected; returns the connection that it had before.

        Raises:
            WorkerLost: the connection is over already; the worker may have a newer one, which stays.
        """
        with self._changed:
            if not link.alive:
                raise WorkerLost(f"the connection to {link.name} was over at once")
            former = self._links.get(link.name)
            self._links[link.name] = link
            self._changed.notify_all()
        return former

    def leave(self, link: WorkerLink) -> bool:
        """A connection is over; returns False when the worker has another one, or none."""
        with self._changed:
            if self._links.get(link.name) is not link:
                return False
            del self._links[link.name]
            self._changed.notify_all()
        return True

    def drop(self, name: str) -> WorkerLink | None:
        """Forget the connection of a worker, and return it."""
        with self._changed:
            link = self._links.pop(name, None)
            self._changed.notify_all()
        return link

    def get(self, name: str) -> WorkerLink | None:
        """The connection of a worker."""
        with self._changed:
            return self._links.get(name)

    def all(self) -> list[WorkerLink]:
        """All connections."""
        with self._changed:
            return list(self._links.values())

    def is_present(self, holder: Holder) -> bool:
        """Whether the process of this life of a worker is connected, in this life or a later one."""
        return any(link.holder.process == holder.process for link in self.all())

    def wait_for(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``holds()``, which is asked whenever a connection came or went; returns whether it does."""
        with self._changed:
            return self._changed.wait_for(holds, timeout_s)

    def wake(self) -> None:
        """Have those who wait look again."""
        with self._changed:
            self._changed.notify_all()
