"""Roles that leave a run while it continues."""

import logging
from collections.abc import Iterator, Mapping

from ding.parallel.launch.process import RoleProcess

logger = logging.getLogger("ding.entry")


class Leaving:
    """Roles that were asked to leave, with their deadlines.

    Args:
        patience_s: Seconds that a role has for an orderly end.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._until_s: dict[str, float] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._until_s)

    def ask(self, process: RoleProcess, now_s: float) -> None:
        """Ask a role to stop; repeated calls have no effect."""
        process.ask_to_stop()
        self._until_s.setdefault(process.role.name, now_s + self._patience_s)

    @property
    def due_s(self) -> list[float]:
        """Return the deadlines of the roles."""
        return list(self._until_s.values())

    def look(self, roles: Mapping[str, RoleProcess], now_s: float) -> list[str]:
        """Kill roles past their deadline; return, once, the names of the roles that have ended."""
        for name, until_s in self._until_s.items():
            if roles[name].alive and now_s >= until_s:
                logger.warning("%s did not end by itself; it is killed", name)
                roles[name].kill()
                self._until_s[name] = now_s + self._patience_s
        gone = [name for name in self._until_s if roles[name].state == "ended"]
        for name in gone:
            del self._until_s[name]
        return gone
