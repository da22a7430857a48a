"""What a master answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ding.interaction.base.addresses import split_http_address
from ding.interaction.base.app import ResponsibleException
from ding.interaction.base.endpoint import Answer, Call
from ding.interaction.base.service import HttpService
from ding.interaction.exception.master import MasterErrorCode
from ding.interaction.exception.protocol import ProtocolErrorCode
from ding.interaction.master.base import EnrolRefuse, MasterHooks
from ding.interaction.messages import Enrol, Result

if TYPE_CHECKING:
    from ding.interaction.master._callbacks import CallbackThread
    from ding.interaction.master._registry import Registry
    from ding.interaction.master.connection import Connection

log = logging.getLogger(__name__)


class MasterRoutes(MasterHooks, HttpService):
    """The handlers, and what follows from them."""

    _registry: Registry
    _callbacks: CallbackThread
    _clock: Callable[[], float]

    def _routes(self) -> list[tuple[str, str, Callable[[Call], Answer]]]:
        self._enrolling: set[tuple[str, str]] = set()
        self._enrol_lock = threading.Lock()
        return [
            ("GET", "/slave/heartbeat", self._handle_heartbeat),
            ("PUT", "/slave/task/complete", lambda call: self._handle_result(call, True)),
            ("PUT", "/slave/task/fail", lambda call: self._handle_result(call, False)),
            ("DELETE", "/slave/leave", self._handle_leave),
            ("POST", "/slave/enrol", self._handle_enrol),
            ("GET", "/status", self._handle_status),
        ]

    def _status(self) -> Any:
        raise NotImplementedError

    def _lose(self, connection: Connection, reason: str, level: int = logging.WARNING) -> bool:
        raise NotImplementedError

    def _connection_of(self, call: Call) -> Connection:
        self._check_alive()
        self._check_channel(call)
        token = call.header("Token")
        if not token:
            text = "The request has no connection token."
            raise ResponsibleException(MasterErrorCode.SLAVE_TOKEN_NOT_GIVEN, text, status_code=400)
        connection = self._registry.by_token(token)
        if connection is None:
            text = "The connection is over, or was never made."
            raise ResponsibleException(MasterErrorCode.SLAVE_TOKEN_INVALID, text, status_code=403)
        connection.last_seen = self._clock()
        return connection

    def _handle_heartbeat(self, call: Call) -> Answer:
        connection = self._connection_of(call)
        self._counters.add("heartbeats")
        self._callbacks.call(self._heard, connection)
        return Answer("The heartbeat is taken.")

    def _handle_leave(self, call: Call) -> Answer:
        connection = self._connection_of(call)
        self._lose(connection, f"{connection.name!r} has left", logging.INFO)
        return Answer("Goodbye.")

    def _handle_result(self, call: Call, completed: bool) -> Answer:
        try:
            connection = self._connection_of(call)
        except ResponsibleException as error:
            if error.code == MasterErrorCode.SLAVE_TOKEN_INVALID:
                self._counters.add("results_rejected")
            raise
        body = call.body(Result, MasterErrorCode.TASK_DATA_INVALID)
        incarnation = body.worker.incarnation
        if incarnation is not None and connection.incarnation not in (None, incarnation):
            self._counters.add("results_rejected")
            text = "Another process has this connection."
            raise ResponsibleException(ProtocolErrorCode.INCARNATION_FENCED, text, status_code=409)
        task = connection._take_result(body.task.id)
        if task is None:
            return Answer("The result is ignored: the task is over, or is none of this master.")
        self._counters.add("tasks_completed" if completed else "tasks_failed")
        self._callbacks.call(self._heard, connection)
        self._callbacks.put(task.finish(completed, body.result, body.message))
        return Answer("The result is taken.")

    def _handle_status(self, call: Call) -> Answer:
        self._check_alive()
        return Answer("The status of the run.", self._status())

    def _handle_enrol(self, call: Call) -> Answer:
        self._check_alive()
        self._check_channel(call)
        body = call.body(Enrol)
        name, incarnation = body.name, body.incarnation
        try:
            split_http_address(body.address)
            worker = (name, body.role, body.address, incarnation, body.resource)
            self._before_enrol(*worker)
        except ValueError as error:
            text = "The address is not valid."
            raise ResponsibleException(ProtocolErrorCode.BODY_INVALID, text, status_code=400) from error
        except EnrolRefuse as error:
            self._counters.add("enrolments_refused")
            raise ResponsibleException(ProtocolErrorCode.ENROL_REFUSED, error.message, status_code=403) from error
        if not self._registry.enter(name, incarnation):
            self._counters.add("enrolments_refused")
            text = "A newer process has this name."
            raise ResponsibleException(ProtocolErrorCode.INCARNATION_FENCED, text, status_code=409)
        self._admit(worker)
        return Answer("The worker is enrolled; the master connects to it.")

    def _admit(self, worker: tuple[str, str, str, str, dict[str, Any]]) -> None:
        """Call ``_enrolled`` in a thread, once at a time per process: a slave that waits too long asks again."""
        name, incarnation = worker[0], worker[3]
        key = (name, incarnation)
        with self._enrol_lock:
            if key in self._enrolling:
                return
            self._enrolling.add(key)
        self._counters.add("enrolments")
        standing = self._registry.by_name(name)
        if standing is not None:
            self._lose(standing, f"{name!r} has enrolled again")

        def admit() -> None:
            try:
                self._callbacks.call(self._enrolled, *worker)
            finally:
                with self._enrol_lock:
                    self._enrolling.discard(key)

        threading.Thread(target=admit, name=f"enrol-{name}", daemon=True).start()
