"""Connections of a master, fenced processes, and clean-up of ended connections. No I/O."""

from __future__ import annotations

import hashlib
import logging
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ding.interaction.base.common import Counters
from ding.interaction.base.transport import Client, Target
from ding.interaction.errors import ConnectionLost

if TYPE_CHECKING:
    from ding.interaction.master.connection import Connection, ConnectionHooks

log = logging.getLogger(__name__)

_NAMES_KEPT = 4096


class CallbackThread:
    """Call functions one after the other in a thread. Errors are logged and counted; the thread continues."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._queue: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="callbacks", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, function: Callable[[], Any] | None) -> None:
        """Queue a function; None is ignored."""
        if function is not None:
            self._queue.put(function)

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a user's function in the calling thread."""
        try:
            function(*args)
        except Exception:
            self._counters.add("callback_errors")
            log.exception("a callback failed")

    def is_current(self) -> bool:
        """Return whether the calling thread is this one."""
        return threading.current_thread() is self._thread

    def close(self, timeout_s: float) -> None:
        """Call the queued functions, then end; wait up to ``timeout_s``."""
        self._queue.put(None)
        if self._thread.is_alive() and not self.is_current():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while (function := self._queue.get()) is not None:
            self.call(function)


class Registry:
    """Connections of a master, with the parts of the master they use. All methods are atomic.

    ``client_to`` and ``my_address`` raise ``ServiceClosed`` before the master is started and after it is shut down.
    """

    def __init__(
        self,
        hooks: ConnectionHooks,
        callbacks: CallbackThread,
        counters: Counters,
        clock: Callable[[], float],
        client_to: Callable[[Target, str, str | None], Client],
        my_address: Callable[[], str],
    ) -> None:
        self.hooks = hooks
        self.callbacks = callbacks
        self.counters = counters
        self.clock = clock
        self.client_to = client_to
        self.my_address = my_address
        self._lock = threading.Lock()
        self._by_token: dict[bytes, Connection] = {}
        self._by_name: dict[str, Connection] = {}
        self._incarnations: dict[str, str] = {}
        self._fenced: dict[str, set[str]] = {}
        # Replaced processes, by name.
        self._succeeded: dict[str, set[str]] = {}

    def check_free(self, name: str, connection: Connection | None = None) -> None:
        """Raise ``KeyError`` if another connection uses the name."""
        standing = self.by_name(name)
        if standing is not None and standing is not connection:
            raise KeyError(f"a connection with the name {name!r} stands already; disconnect it first")

    def announce(self, connection: Connection, token: str) -> None:
        """Register the token of a connection being made; its slave may already use it."""
        self.check_free(connection.name, connection)
        with self._lock:
            self._by_token[_key(token)] = connection

    def enter(self, connection: Connection) -> None:
        """Register an established connection.

        Raises:
            KeyError: Another connection took the name in the meantime; this one is closed.
            ConnectionLost: A newer process took the name in the meantime, or this one was fenced; this one is closed.
        """
        name = connection.name
        with self._lock:
            is_out = self._is_out(name, connection.incarnation)
            taken = not is_out and self._by_name.setdefault(name, connection) is not connection
        if is_out:
            self.leave(connection, "it was connected too late", replaced=True)
            raise ConnectionLost(f"{name!r} was connected too late: a newer process has its name, or it is fenced")
        if taken:
            self.leave(connection, "another connection took the name", replaced=True)
            self.check_free(name, connection)

    def leave(self, connection: Connection, reason: str, *, replaced: bool = False) -> bool:
        """Remove a connection: forget its token and fail its tasks. Returns whether it was established.

        Args:
            replaced: Whether another connection has taken its place, so that the name is not free.
        """
        with self._lock:
            self._by_token = {key: each for key, each in self._by_token.items() if each is not connection}
            if self._by_name.get(connection.name) is connection:
                del self._by_name[connection.name]
        tasks = connection.take_down()
        if tasks is not None and not replaced:
            self._free_name(connection)
        for task in tasks or ():
            self.counters.add("tasks_failed")
            self.callbacks.put(task.lose(reason))
        return tasks is not None

    def lose(
        self, connection: Connection, reason: str, level: int = logging.WARNING, *, replaced: bool = False
    ) -> bool:
        """Like :meth:`leave`, for a connection that was not disconnected by the master."""
        if not self.leave(connection, reason, replaced=replaced):
            return False
        log.log(level, "lost a slave: %s", reason)
        self.counters.add("connections_lost")
        self.callbacks.put(lambda: self.hooks._lost_connection(connection, reason))
        return True

    def by_token(self, token: str) -> Connection | None:
        """Return the connection of a token."""
        with self._lock:
            return self._by_token.get(_key(token))

    def by_name(self, name: str) -> Connection | None:
        """Return the established connection of a name."""
        with self._lock:
            return self._by_name.get(name)

    def standing(self) -> list[Connection]:
        """Return all established connections."""
        with self._lock:
            return list(self._by_name.values())

    def fence(self, name: str, incarnation: str | None) -> None:
        """Reject this process of ``name`` from now on; by default the newest one.

        Raises:
            KeyError: No process has the name.
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
        """Register a process under its name.

        Returns False, without any effect, for a process that is fenced or was replaced by a newer one.
        """
        with self._lock:
            if self._is_out(name, incarnation):
                return False
            succeeded = self._succeeded.setdefault(name, set())
            before = self._incarnations.get(name, incarnation)
            if before != incarnation:
                succeeded.add(before)
            # Newest last, so that stale processes go first.
            self._incarnations.pop(name, None)
            self._incarnations[name] = incarnation
            if len(self._incarnations) > _NAMES_KEPT:
                old = next((one for one in self._incarnations if one not in self._by_name), name)
                self._incarnations.pop(old, None)
                self._succeeded.pop(old, None)
            return True

    def _is_out(self, name: str, incarnation: str | None) -> bool:
        """Return whether a process is fenced or was replaced by a newer one. The lock must be held."""
        return incarnation in self._fenced.get(name, ()) or incarnation in self._succeeded.get(name, ())

    def _free_name(self, connection: Connection) -> None:
        """Free a name whose newest process is lost: the first earlier process to enrol may take it again."""
        with self._lock:
            if self._incarnations.get(connection.name) == connection.incarnation:
                self._succeeded.pop(connection.name, None)


def _key(token: str) -> bytes:
    """Return the hash by which a token is looked up, so that look-up time reveals nothing about the token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
