"""Which connections of a master stand, which processes are fenced off, and what becomes of what is over. No I/O."""

from __future__ import annotations

import hashlib
import logging
import threading
from typing import TYPE_CHECKING

from ding.interaction.base.common import Counters
from ding.interaction.master._callbacks import CallbackThread
from ding.interaction.master.base import MasterHooks

if TYPE_CHECKING:
    from ding.interaction.master.connection import Connection

log = logging.getLogger(__name__)


class Registry:
    """All methods are atomic."""

    def __init__(self, hooks: MasterHooks, callbacks: CallbackThread, counters: Counters) -> None:
        self._hooks = hooks
        self._callbacks = callbacks
        self._counters = counters
        self._lock = threading.Lock()
        self._by_token: dict[bytes, Connection] = {}
        self._by_name: dict[str, Connection] = {}
        self._incarnations: dict[str, str] = {}
        self._fenced: dict[str, set[str]] = {}

    def check_free(self, name: str, connection: Connection | None = None) -> None:
        """Raise ``KeyError`` when another connection with the name stands."""
        standing = self.by_name(name)
        if standing is not None and standing is not connection:
            raise KeyError(f"a connection with the name {name!r} stands already; disconnect it first")

    def announce(self, connection: Connection, token: str) -> None:
        """A connection is being made; its slave may already use the token."""
        self.check_free(connection.name, connection)
        with self._lock:
            self._by_token[_key(token)] = connection

    def enter(self, connection: Connection) -> None:
        """A connection stands.

        Raises:
            KeyError: another connection took the name meanwhile; this one is over.
        """
        with self._lock:
            taken = self._by_name.setdefault(connection.name, connection) is not connection
        if taken:
            self.leave(connection, "another connection took the name")
            self.check_free(connection.name, connection)

    def leave(self, connection: Connection, reason: str) -> bool:
        """A connection is over: forget its token, fail its tasks. Returns whether it stood."""
        with self._lock:
            self._by_token = {key: each for key, each in self._by_token.items() if each is not connection}
            if self._by_name.get(connection.name) is connection:
                del self._by_name[connection.name]
        tasks = connection.take_down()
        for task in tasks or ():
            self._counters.add("tasks_failed")
            self._callbacks.put(task.lose(reason))
        return tasks is not None

    def lose(self, connection: Connection, reason: str, level: int = logging.WARNING) -> bool:
        """As :meth:`leave`, for a connection that was not disconnected here."""
        if not self.leave(connection, reason):
            return False
        log.log(level, "lost a slave: %s", reason)
        self._counters.add("connections_lost")
        self._callbacks.put(lambda: self._hooks._lost_connection(connection, reason))
        return True

    def by_token(self, token: str) -> Connection | None:
        """The connection of a token."""
        with self._lock:
            return self._by_token.get(_key(token))

    def by_name(self, name: str) -> Connection | None:
        """The connection that stands under a name."""
        with self._lock:
            return self._by_name.get(name)

    def standing(self) -> list[Connection]:
        """All connections that stand."""
        with self._lock:
            return list(self._by_name.values())

    def fence(self, name: str, incarnation: str | None) -> None:
        """Take nothing from this process of ``name`` any more; default: from the newest one.

        Raises:
            KeyError: no process has the name.
        """
        standing = self.by_name(name)
        with self._lock:
            known = None if standing is None else standing.incarnation
            incarnation = incarnation or self._incarnations.get(name, known)
            if incarnation is None:
                raise KeyError(f"no process with the name {name!r} is known")
            self._fenced.setdefault(name, set()).add(incarnation)
        if standing is not None and standing.incarnation == incarnation:
            self.lose(standing, f"{name!r} was fenced off")

    def enrol(self, name: str, incarnation: str) -> bool:
        """A process announces itself. The one that had the name before is fenced; returns False if this one is."""
        with self._lock:
            fenced = self._fenced.setdefault(name, set())
            if incarnation in fenced:
                return False
            before = self._incarnations.get(name, incarnation)
            if before != incarnation:
                fenced.add(before)
            self._incarnations[name] = incarnation
            return True


def _key(token: str) -> bytes:
    """Tokens are looked up by their hash, so that the time of a lookup says nothing about the token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
