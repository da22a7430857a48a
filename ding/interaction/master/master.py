"""A master: connects to slaves, assigns tasks to them, and receives their results."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ding.interaction.base.addresses import split_http_address
from ding.interaction.base.endpoint import Answer, Call, ResponsibleException
from ding.interaction.base.service import HttpService, NetworkOptions
from ding.interaction.base.transport import Client, Target
from ding.interaction.config import (
    DEFAULT_HEARTBEAT_CHECK_SPAN,
    DEFAULT_HEARTBEAT_TOLERANCE,
    DEFAULT_MASTER_PORT,
    DEFAULT_SLAVE_PORT,
    MIN_HEARTBEAT_CHECK_SPAN,
)
from ding.interaction.errors import InteractionError, ServiceClosed
from ding.interaction.exception.response import MasterErrorCode, ProtocolErrorCode, get_slave_exception_by_error
from ding.interaction.master._registry import CallbackThread, Registry
from ding.interaction.master.connection import Connection, ConnectionHooks
from ding.interaction.messages import Enrol, Result, Scale

if TYPE_CHECKING:
    from typing_extensions import Unpack

log = logging.getLogger(__name__)

_GOODBYE_TIMEOUT_S = 2.0
# Each enrolled worker occupies a thread until it is connected.
_MAX_ENROLLING = 32
_GOODBYE_THREADS = 8
_CALLBACKS_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class MasterStatistics:
    """A snapshot of a master's counters since its creation."""

    connections: int  # currently established
    connections_lost: int
    tasks_started: int
    tasks_refused: int  # refused by an error answer
    tasks_unsent: int  # no answer to the task, or no connection
    tasks_completed: int
    tasks_failed: int
    tasks_expired: int  # not ended at their deadline
    results_duplicate: int  # for a task that had ended
    results_unknown: int  # for a task that was never sent
    results_rejected: int  # from an ended connection, or from a fenced process
    heartbeats: int
    enrolments: int
    enrolments_refused: int
    callback_errors: int


class EnrolRefuse(InteractionError):
    """Raise in ``_before_enrol`` to refuse the worker (code 901)."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or "The master refuses the worker.")
        self.message = str(self)


class Master(ConnectionHooks, HttpService):
    """A master, usable as is; subclasses may override the hooks of :class:`ConnectionHooks`, ``_before_enrol`` and
    ``_enrolled``.

    The arguments that are not named here are those of :class:`~ding.interaction.base.service.HttpService`; the default
    port is 7235.

    Arguments:
        heartbeat_tolerance: Seconds (monotonic) of silence after which a slave is lost; default 17. Lower values detect
            failures sooner, higher ones tolerate slow networks.
        heartbeat_check_span: Seconds between these checks, at least 0.1; default 1.
        status: what ``GET /status`` answers: a function that returns a JSON value and does not wait long.
        scale: what ``POST /scale`` does: a function of the number of collectors that the run is to have, which returns
            a JSON value and does not wait long; None: there is no such path.
        clock: seconds that only grow; for tests.
    """

    def __init__(
        self,
        host: str | None = None,
        port: int | str | None = None,
        heartbeat_tolerance: float | None = None,
        heartbeat_check_span: float | None = None,
        request_retries: int | None = None,
        request_retry_waiting: float | None = None,
        channel: int | None = None,
        my_address: str | None = None,
        *,
        status: Callable[[], Any] | None = None,
        scale: Callable[[int], Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
        **options: Unpack[NetworkOptions],
    ) -> None:
        super().__init__(
            host,
            port,
            DEFAULT_MASTER_PORT,
            MasterErrorCode,
            request_retries=request_retries,
            request_retry_waiting=request_retry_waiting,
            channel=channel,
            my_address=my_address,
            **options,
        )
        self._tolerance = DEFAULT_HEARTBEAT_TOLERANCE if heartbeat_tolerance is None else heartbeat_tolerance
        span = DEFAULT_HEARTBEAT_CHECK_SPAN if heartbeat_check_span is None else heartbeat_check_span
        self._check_span = max(MIN_HEARTBEAT_CHECK_SPAN, span)
        self._clock = clock
        self._status_function = status
        self._callbacks = CallbackThread(self._counters)
        self._registry = Registry(
            self, self._callbacks, self._counters, clock, self._open_client, lambda: self.my_address
        )
        self._enrol_lock = threading.Lock()
        self._enrolling: set[tuple[str, str]] = set()
        add, checks = self._endpoint.add, self._checks
        add("GET", "/slave/heartbeat", self._handle_heartbeat, checks.peer, for_workers=True)
        for path, completed in (("/slave/task/complete", True), ("/slave/task/fail", False)):
            handle = partial(self._handle_result, completed=completed)
            add("PUT", path, handle, checks.peer, large=True, for_workers=True)
        add("DELETE", "/slave/leave", self._handle_leave, checks.peer, for_workers=True)
        add("POST", "/slave/enrol", self._handle_enrol, checks.channel, for_workers=True)
        add("GET", "/status", lambda _: Answer("The status of the run.", self._status()), checks.alive)
        if scale is not None:
            add("POST", "/scale", lambda call: Answer("", scale(call.body(Scale).collectors)))
        self._last_check: float | None = None
        self._watch = threading.Thread(target=self._watch_slaves, name="heartbeat-check", daemon=True)

    # Connections.

    def new_connection(
        self, name: str, host: str, port: int | None = None, https: bool = False, *, incarnation: str | None = None
    ) -> Connection:
        """Create a connection to the slave at ``host`` and ``port`` (default 7236), to be established by ``connect``.

        Args:
            incarnation: connect to this process only, as announced to ``_enrolled``; None: to whatever answers there.

        Raises:
            KeyError: An established connection uses the name.
        """
        self._registry.check_free(name)
        target = (host, DEFAULT_SLAVE_PORT if port is None else port, https, None)
        return Connection(self._registry, name, target, incarnation)

    def _open_client(self, target: Target, token: str, enrolled: str | None) -> Client:
        if self._server is None or self._checks.shutting_down.is_set():
            raise ServiceClosed("the master must be started, and not shut down, to connect")
        return self._client_to(target, token, get_slave_exception_by_error, name=enrolled)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._registry.by_name(name) is not None

    def __getitem__(self, name: str) -> Connection:
        connection = self._registry.by_name(name)
        if connection is None:
            known = ", ".join(sorted(each.name for each in self._registry.standing())) or "none"
            raise KeyError(f"no connection with the name {name!r} stands; these do: {known}")
        return connection

    def __delitem__(self, name: str) -> None:
        self[name].disconnect()

    def lose(self, name: str, reason: str) -> bool:
        """Treat the connection as lost, without asking the slave; return whether it was established.

        For callers with better information than the heartbeats, e.g. that the process has ended.
        """
        connection = self._registry.by_name(name)
        return connection is not None and self._registry.lose(connection, reason)

    def fence(self, name: str, incarnation: str | None = None) -> None:
        """Reject a process of ``name`` from now on, and drop its connection; by default the newest one."""
        self._registry.fence(name, incarnation)

    def check_slaves(self) -> None:
        """Check once for silent slaves and tasks past their deadline; a thread does so every check span.

        If this process itself was stopped or suspended, slaves are given that time.
        """
        now = self._clock()
        asleep = 0.0 if self._last_check is None else now - self._last_check - self._check_span
        self._last_check = now
        for connection in self._registry.standing():
            if asleep > self._tolerance / 2:
                connection.last_seen += asleep
            silent = now - connection.last_seen
            if silent > self._tolerance:
                self._registry.lose(connection, f"{connection.name!r} has been silent for {silent:.1f} s")
            for task in connection.take_due(now):
                self._counters.add("tasks_expired")
                self._callbacks.put(task.expire())

    def statistics(self) -> MasterStatistics:
        """Return a snapshot of the counters."""
        return self._counters.snapshot(MasterStatistics, connections=len(self._registry.standing()))

    def _status(self) -> object:
        """Return the answer to ``GET /status``; by default from the function ``status``, or else the counters."""
        if self._status_function is not None:
            return self._status_function()
        return {
            "statistics": vars(self.statistics()),
            "slaves": sorted(each.name for each in self._registry.standing()),
        }

    # Hooks for subclasses.

    def _before_enrol(self, name: str, role: str, address: str, incarnation: str, resource: dict[str, Any]) -> None:
        """Called when a worker announces itself; raise ``EnrolRefuse`` to refuse it. Blocks a thread of the server."""

    def _enrolled(self, name: str, role: str, address: str, incarnation: str, resource: dict[str, Any]) -> None:
        """Called after a worker announced itself. It expects a connection to ``address`` soon, or announces itself
        again.

        Runs in its own thread and may block, e.g. to connect back.
        """
        log.info("the %s %r at %s has enrolled, but nobody connects to it", role, name, address)

    # Handlers.

    def _connection_of(self, call: Call) -> Connection:
        connection = self._registry.by_token(call.token)
        if connection is None or (call.worker is not None and call.worker.name != connection.name):
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
        self._callbacks.put(lambda: self._left(connection))
        self._registry.lose(connection, f"{connection.name!r} has left", logging.INFO)
        return Answer("Goodbye.")

    def _handle_result(self, call: Call, completed: bool) -> Answer:
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
        self._callbacks.call(self._heard, connection)
        self._callbacks.put(task.finish(completed, message.result, message.message))
        return Answer("The result is taken.")

    def _handle_enrol(self, call: Call) -> Answer:
        message = call.body(Enrol)
        worker = (message.name, message.role, message.address, message.incarnation, message.resource)
        if call.worker is not None and call.worker != (message.role, message.name):
            self._counters.add("enrolments_refused")
            text = f"The token is that of the {call.worker.role} {call.worker.name!r}."
            raise ResponsibleException(ProtocolErrorCode.RUN_TOKEN_INVALID, text, status_code=403)
        try:
            split_http_address(message.address)
            self._before_enrol(*worker)
        except ValueError as error:
            text = "The address is not valid."
            raise ResponsibleException(ProtocolErrorCode.BODY_INVALID, text, status_code=400) from error
        except EnrolRefuse as error:
            self._counters.add("enrolments_refused")
            raise ResponsibleException(ProtocolErrorCode.ENROL_REFUSED, error.message, status_code=403) from error
        with self._enrol_lock:
            is_full = (
                len(self._enrolling) >= _MAX_ENROLLING and (message.name, message.incarnation) not in self._enrolling
            )
        if is_full:
            self._counters.add("enrolments_refused")
            raise ResponsibleException(ProtocolErrorCode.ENROL_LATER, "Too many enrol at once.", status_code=429)
        if not self._registry.enrol(message.name, message.incarnation):
            self._counters.add("enrolments_refused")
            text = "A newer process has this name."
            raise ResponsibleException(ProtocolErrorCode.INCARNATION_FENCED, text, status_code=409)
        if call.worker is not None and self._guard.keys is not None:
            self._guard.keys.enrol(call.worker)
        self._admit(worker)
        return Answer("The worker is enrolled; the master connects to it.")

    def _admit(self, worker: tuple[str, str, str, str, dict[str, Any]]) -> None:
        """Call ``_enrolled`` in a thread, at most one per process: a waiting slave announces itself again."""
        name, process = worker[0], (worker[0], worker[3])
        with self._enrol_lock:
            if process in self._enrolling:
                return
            self._enrolling.add(process)
        self._counters.add("enrolments")
        standing = self._registry.by_name(name)
        if standing is not None:
            self._registry.lose(standing, f"{name!r} has enrolled again", replaced=True)

        def admit() -> None:
            try:
                self._callbacks.call(self._enrolled, *worker)
            finally:
                with self._enrol_lock:
                    self._enrolling.discard(process)

        threading.Thread(target=admit, name=f"enrol-{name}", daemon=True).start()

    # Life.

    def _begin(self) -> None:
        self._callbacks.start()
        self._watch.start()

    def _stop(self) -> None:
        standing = self._registry.standing()
        if standing:
            with ThreadPoolExecutor(_GOODBYE_THREADS) as pool:
                list(pool.map(lambda each: each.say_goodbye(_GOODBYE_TIMEOUT_S), standing))
        for connection in standing:
            self._registry.leave(connection, "the master is shutting down")
        self._callbacks.close(_CALLBACKS_TIMEOUT_S)

    def _watch_slaves(self) -> None:
        while not self._checks.shutting_down.wait(self._check_span):
            self._callbacks.call(self.check_slaves)
