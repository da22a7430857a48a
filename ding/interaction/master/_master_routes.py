"""What a master answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ding.interaction.base.addresses import split_http_address
from ding.interaction.base.app import ResponsibleException
from ding.interaction.base.checks import Checks
from ding.interaction.base.endpoint import Answer, Call, Endpoint
from ding.interaction.exception.master import MasterErrorCode
from ding.interaction.exception.protocol import ProtocolErrorCode
from ding.interaction.master._parts import MasterParts
from ding.interaction.master.base import EnrolRefuse
from ding.interaction.messages import Enrol, Result

if TYPE_CHECKING:
    from ding.interaction.master.connection import Connection


class MasterRoutes:
    """The handlers of a master, and what follows from them."""

    def __init__(self, parts: MasterParts, checks: Checks, status: Callable[[], object]) -> None:
        self._hooks = parts.hooks
        self._registry = parts.registry
        self._callbacks = parts.callbacks
        self._counters = parts.counters
        self._clock = parts.clock
        self._checks = checks
        self._status = status
        self._lock = threading.Lock()
        self._enrolling: set[tuple[str, str]] = set()

    def add_to(self, endpoint: Endpoint) -> None:
        """Serve the handlers."""
        endpoint.add("GET", "/slave/heartbeat", self._heartbeat)
        endpoint.add("PUT", "/slave/task/complete", lambda call: self._result(call, True))
        endpoint.add("PUT", "/slave/task/fail", lambda call: self._result(call, False))
        endpoint.add("DELETE", "/slave/leave", self._leave)
        endpoint.add("POST", "/slave/enrol", self._enrol)
        endpoint.add("GET", "/status", self._report)

    def _connection_of(self, call: Call) -> Connection:
        connection = self._registry.by_token(self._checks.peer(call))
        if connection is None:
            text = "The connection is over, or was never made."
            raise ResponsibleException(MasterErrorCode.SLAVE_TOKEN_INVALID, text, status_code=403)
        connection.last_seen = self._clock()
        return connection

    def _heartbeat(self, call: Call) -> Answer:
        connection = self._connection_of(call)
        self._counters.add("heartbeats")
        self._callbacks.call(self._hooks._heard, connection)
        return Answer("The heartbeat is taken.")

    def _leave(self, call: Call) -> Answer:
        connection = self._connection_of(call)
        self._registry.lose(connection, f"{connection.name!r} has left", logging.INFO)
        return Answer("Goodbye.")

    def _result(self, call: Call, completed: bool) -> Answer:
        try:
            connection = self._connection_of(call)
        except ResponsibleException as error:
            if error.code == MasterErrorCode.SLAVE_TOKEN_INVALID:
                self._counters.add("results_rejected")
            raise
        message = call.body(Result, MasterErrorCode.TASK_DATA_INVALID)
        incarnation = message.worker.incarnation
        if incarnation is not None and connection.incarnation not in (None, incarnation):
            self._counters.add("results_rejected")
            text = "Another process has this connection."
            raise ResponsibleException(ProtocolErrorCode.INCARNATION_FENCED, text, status_code=409)
        task = connection.take_result(message.task.id)
        if task is None:
            return Answer("The result is ignored: the task is over, or is none of this master.")
        self._counters.add("tasks_completed" if completed else "tasks_failed")
        self._callbacks.call(self._hooks._heard, connection)
        self._callbacks.put(task.finish(completed, message.result, message.message))
        return Answer("The result is taken.")

    def _report(self, call: Call) -> Answer:
        self._checks.alive()
        return Answer("The status of the run.", self._status())

    def _enrol(self, call: Call) -> Answer:
        self._checks.channel(call)
        message = call.body(Enrol)
        worker = (message.name, message.role, message.address, message.incarnation, message.resource)
        try:
            split_http_address(message.address)
            self._hooks._before_enrol(*worker)
        except ValueError as error:
            text = "The address is not valid."
            raise ResponsibleException(ProtocolErrorCode.BODY_INVALID, text, status_code=400) from error
        except EnrolRefuse as error:
            self._counters.add("enrolments_refused")
            raise ResponsibleException(ProtocolErrorCode.ENROL_REFUSED, error.message, status_code=403) from error
        if not self._registry.enrol(message.name, message.incarnation):
            self._counters.add("enrolments_refused")
            text = "A newer process has this name."
            raise ResponsibleException(ProtocolErrorCode.INCARNATION_FENCED, text, status_code=409)
        self._admit(worker)
        return Answer("The worker is enrolled; the master connects to it.")

    def _admit(self, worker: tuple[str, str, str, str, dict[str, Any]]) -> None:
        """Call ``_enrolled`` in a thread, once at a time per process: a slave that waits too long asks again."""
        name, process = worker[0], (worker[0], worker[3])
        with self._lock:
            if process in self._enrolling:
                return
            self._enrolling.add(process)
        self._counters.add("enrolments")
        standing = self._registry.by_name(name)
        if standing is not None:
            self._registry.lose(standing, f"{name!r} has enrolled again")

        def admit() -> None:
            try:
                self._callbacks.call(self._hooks._enrolled, *worker)
            finally:
                with self._lock:
                    self._enrolling.discard(process)

        threading.Thread(target=admit, name=f"enrol-{name}", daemon=True).start()
