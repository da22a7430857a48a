"""Which connections stand, by name and by token, and which incarnations are fenced off. No I/O."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ding.interaction.master.connection import token_key

if TYPE_CHECKING:
    from ding.interaction.master.connection import Connection


class Registry:
    """All methods are atomic."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_token: dict[bytes, Connection] = {}
        self._key_of: dict[Connection, bytes] = {}
        self._by_name: dict[str, Connection] = {}
        self._incarnations: dict[str, str] = {}
        self._fenced: dict[str, set[str]] = {}

    def add_token(self, connection: Connection, token: str) -> None:
        """A connection is being made; its slave may already use the token.

        Raises:
            KeyError: another connection with the name stands.
        """
        key = token_key(token)
        with self._lock:
            self._check_free(connection.name, connection)
            self._by_token[key] = connection
            self._key_of[connection] = key

    def add(self, connection: Connection) -> None:
        """A connection stands.

        Raises:
            KeyError: another connection with the name stands.
        """
        with self._lock:
            self._check_free(connection.name, connection)
            self._by_name[connection.name] = connection

    def remove(self, connection: Connection) -> None:
        """A connection is over; its token is unknown from now on."""
        with self._lock:
            key = self._key_of.pop(connection, None)
            if key is not None:
                self._by_token.pop(key, None)
            if self._by_name.get(connection.name) is connection:
                del self._by_name[connection.name]

    def check_free(self, name: str) -> None:
        """Raise ``KeyError`` when a connection with the name stands."""
        with self._lock:
            self._check_free(name, None)

    def by_token(self, token: str) -> Connection | None:
        """The connection of a token."""
        with self._lock:
            return self._by_token.get(token_key(token))

    def by_name(self, name: str) -> Connection | None:
        """The connection that stands under a name."""
        with self._lock:
            return self._by_name.get(name)

    def standing(self) -> list[Connection]:
        """All connections that stand."""
        with self._lock:
            return list(self._by_name.values())

    def incarnation(self, name: str) -> str | None:
        """The newest process of a name that has enrolled."""
        with self._lock:
            return self._incarnations.get(name)

    def fence(self, name: str, incarnation: str) -> None:
        """Take nothing from this process of ``name`` any more."""
        with self._lock:
            self._fenced.setdefault(name, set()).add(incarnation)

    def enter(self, name: str, incarnation: str) -> bool:
        """A process announces itself. The one that had the name before is fenced; returns False if this one is."""
        with self._lock:
            fenced = self._fenced.setdefault(name, set())
            if incarnation in fenced:
                return False
            before = self._incarnations.get(name)
            if before is not None and before != incarnation:
                fenced.add(before)
            self._incarnations[name] = incarnation
            return True

    def _check_free(self, name: str, connection: Connection | None) -> None:
        standing = self._by_name.get(name)
        if standing is not None and standing is not connection:
            raise KeyError(f"a connection with the name {name!r} stands already; disconnect it first")
