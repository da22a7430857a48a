"""Which connections of a master stand, which processes are fenced off, and what becomes of what is over. No I/O."""

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
    """Calls functions one after the other. What a function raises is logged and counted; the thread goes on."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._queue: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="callbacks", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def put(self, function: Callable[[], Any] | None) -> None:
        """Call ``function`` in its turn; None is nothing to call."""
        if function is not None:
            self._queue.put(function)

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function of a user here and now."""
        try:
            function(*args)
        except Exception:
            self._counters.add("callback_errors")
            log.exception("a callback failed")

    def is_current(self) -> bool:
        """Return whether the calling thread is this one."""
        return threading.current_thread() is self._thread

    def close(self, timeout_s: float) -> None:
        """Call what is waiting, then end; waits up to ``timeout_s``."""
        self._queue.put(None)
        if self._thread.is_alive() and not self.is_current():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while (function := self._queue.get()) is not None:
            self.call(function)


class Registry:
    """The connections of a master, with the parts of the master that they need. All methods are atomic.

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
        # By name, the processes in whose place a newer one is.
        self._succeeded: dict[str, set[str]] = {}

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
            ConnectionLost: a newer process took the name meanwhile, or this one was fenced; this one is over.
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
        """A connection is over: forget its token, fail its tasks. Returns whether it stood.

        Args:
            replaced: another connection has its place, so that the name is not free.
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
        """As :meth:`leave`, for a connection that was not disconnected here."""
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
        """Return the connection that stands under a name."""
        with self._lock:
            return self._by_name.get(name)

    def standing(self) -> list[Connection]:
        """Return all connections that stand."""
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
        """A process announces itself and has the name from now on.

        Returns False, and nothing changes, for one that is fenced, or in whose place a newer one is.
        """
        with self._lock:
            if self._is_out(name, incarnation):
                return False
            succeeded = self._succeeded.setdefault(name, set())
            before = self._incarnations.get(name, incarnation)
            if before != incarnation:
                succeeded.add(before)
            # The newest last, so that ghosts go first.
            self._incarnations.pop(name, None)
            self._incarnations[name] = incarnation
            if len(self._incarnations) > _NAMES_KEPT:
                old = next((one for one in self._incarnations if one not in self._by_name), name)
                self._incarnations.pop(old, None)
                self._succeeded.pop(old, None)
            return True

    def _is_out(self, name: str, incarnation: str | None) -> bool:
        """Return whether a process is fenced, or a newer one is in its place. The lock must be held."""
        return incarnation in self._fenced.get(name, ()) or incarnation in self._succeeded.get(name, ())

    def _free_name(self, connection: Connection) -> None:
        """The newest process of a name is lost: those before it may have its place again, the first that comes."""
        with self._lock:
            if self._incarnations.get(connection.name) == connection.incarnation:
                self._succeeded.pop(connection.name, None)


def _key(token: str) -> bytes:
    """Tokens are looked up by their hash, so that the time of a lookup says nothing about the token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
