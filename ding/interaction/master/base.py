"""The hooks of a master: what a subclass may override."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ding.interaction.errors import InteractionError

if TYPE_CHECKING:
    from ding.interaction.master.connection import Connection

log = logging.getLogger(__name__)


class EnrolRefuse(InteractionError):
    """Raised in ``_before_enrol``: the master does not want the worker (code 901)."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or "The master refuses the worker.")
        self.message = str(self)


class MasterHooks:
    """Override what you need.

    ``_before_*`` and ``_error_*`` run in the thread that called the method; the default of ``_error_*`` raises the
    error. ``_before_enrol`` runs in a thread of the server and must not wait; ``_heard`` too. ``_enrolled`` has a
    thread of its own and may wait, e.g. to connect back. ``_lost_connection`` runs in the thread of the callbacks.
    """

    def _before_connect(self, connection: Connection) -> Any:
        """Returns the data that is sent along."""

    def _after_connect(
        self, connection: Connection, status_code: int, success: bool, code: int, message: str, data: object
    ) -> Any:
        """The slave has accepted."""

    def _error_connect(self, connection: Connection, error: Exception) -> Any:
        """The slave refused or did not answer."""
        raise error

    def _before_disconnect(self, connection: Connection) -> Any:
        """Returns the data that is sent along."""

    def _after_disconnect(
        self, connection: Connection, status_code: int, success: bool, code: int, message: str, data: object
    ) -> Any:
        """The slave has accepted."""

    def _error_disconnect(self, connection: Connection, error: Exception) -> Any:
        """The slave refused or did not answer."""
        raise error

    def _before_new_task(self, connection: Connection, task: Any) -> Any:
        """Returns the data that is sent as the task."""
        return task

    def _after_new_task(
        self,
        connection: Connection,
        task: object,
        status_code: int,
        success: bool,
        code: int,
        message: str,
        data: object,
    ) -> Any:
        """The slave has taken the task."""

    def _error_new_task(self, connection: Connection, task: object, error: Exception) -> Any:
        """The slave refused the task or did not answer."""
        raise error

    def _lost_connection(self, connection: Connection, reason: str) -> None:
        """A connection is over without having been disconnected here; its tasks have failed."""

    def _heard(self, connection: Connection) -> None:
        """A slave has sent a heartbeat or a result."""

    def _before_enrol(self, name: str, role: str, address: str, incarnation: str, resource: dict[str, Any]) -> None:
        """A worker announces itself; raise ``EnrolRefuse`` to refuse it."""

    def _enrolled(self, name: str, role: str, address: str, incarnation: str, resource: dict[str, Any]) -> None:
        """A worker has announced itself; it expects a connection to ``address`` soon, else it comes again."""
        log.info("the %s %r at %s has enrolled, but nobody connects to it", role, name, address)
