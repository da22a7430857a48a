"""A slave: executes the tasks of one master at a time and reports their outcomes."""

from __future__ import annotations

import logging
import secrets
import threading
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ding.interaction.base.addresses import split_http_address
from ding.interaction.base.endpoint import Answer, Call, ResponsibleException
from ding.interaction.base.service import HttpService, NetworkOptions
from ding.interaction.base.token import same_token
from ding.interaction.base.transport import Client
from ding.interaction.config import (
    DEFAULT_HEARTBEAT_SPAN,
    DEFAULT_MASTER_PORT,
    DEFAULT_SLAVE_PORT,
    MIN_HEARTBEAT_SPAN,
)
from ding.interaction.errors import ConnectTimeout, InteractionError, ServiceClosed, WireError
from ding.interaction.exception.response import (
    MasterErrorCode,
    MasterSystemShuttingDown,
    ProtocolErrorCode,
    ResponseException,
    SlaveErrorCode,
    get_master_exception_by_error,
)
from ding.interaction.messages import Connect, Disconnect, Enrol, NewTask, Process, Result, TaskName
from ding.interaction.slave._link import Announcer, Link, LinkState
from ding.interaction.slave._slots import Busy, Job, Outcome, TaskSlots
from ding.interaction.slave.action import (
    ConnectionRefuse,
    DisconnectionRefuse,
    TaskFail,
    TaskRefuse,
    failure_report,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

log = logging.getLogger(__name__)

_LEAVE_TIMEOUT_S = 2.0
_STOP_TIMEOUT_S = 2.0
# The master refuses the result, not the slave: a failure is reported instead.
_UNSENDABLE = (ProtocolErrorCode.BODY_TOO_LARGE, MasterErrorCode.TASK_DATA_INVALID)


@dataclass(frozen=True)
class SlaveStatistics:
    """A snapshot of a slave's counters since its creation."""

    connected: bool
    tasks_running: int
    tasks_accepted: int  # accepted for the first time
    tasks_duplicate: int  # id accepted before
    tasks_busy: int  # refused because all slots were taken
    tasks_refused: int  # refused by _before_task, or malformed
    tasks_completed: int
    tasks_failed: int
    results_dropped: int  # not reported: their connection has ended
    connections: int
    connections_lost: int
    heartbeats: int
    enrolments: int


class Slave(HttpService):
    """A slave that executes tasks: override ``_process_task``, and other hooks as needed.

    The arguments that are not named here are those of :class:`~ding.interaction.base.service.HttpService`; the default
    port is 7236, and ``my_address`` is what the slave announces when it enrols.

    Arguments:
        heartbeat_span: Seconds between two heartbeats, at least 0.2; default 3.
        max_tasks: Maximum number of concurrent tasks; default 1.
        incarnation: Unique identifier of this object; by default a random one.

    Concurrency: ``_before_*`` run in threads of the server and should not wait; ``_process_task`` runs in up to
    ``max_tasks`` threads and may wait; ``_lost_connection`` runs in whatever thread noticed. A connection is lost when
    the master answers a heartbeat or a result with an error, or does not answer at all; the slave is then free for
    another master.
    """

    def __init__(
        self,
        host: str | None = None,
        port: int | str | None = None,
        heartbeat_span: float | None = None,
        request_retries: int | None = None,
        request_retry_waiting: float | None = None,
        channel: int | None = None,
        *,
        max_tasks: int = 1,
        my_address: str | None = None,
        incarnation: str | None = None,
        **options: Unpack[NetworkOptions],
    ) -> None:
        super().__init__(
            host,
            port,
            DEFAULT_SLAVE_PORT,
            SlaveErrorCode,
            request_retries=request_retries,
            request_retry_waiting=request_retry_waiting,
            channel=channel,
            my_address=my_address,
            **options,
        )
        span = DEFAULT_HEARTBEAT_SPAN if heartbeat_span is None else heartbeat_span
        self._heartbeat_span = max(MIN_HEARTBEAT_SPAN, span)
        self._incarnation = secrets.token_hex(8) if incarnation is None else incarnation
        self._state = LinkState()
        self._slots = TaskSlots(max_tasks, self._run_job, self._report)
        self._endpoint.add("POST", "/connect", self._handle_connect, self._checks.peer)
        self._endpoint.add("DELETE", "/disconnect", self._handle_disconnect, self._checks.peer)
        self._endpoint.add("POST", "/task/new", self._handle_task, self._checks.peer, large=True)
        self._announcer: Announcer | None = None
        self._heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    # For subclasses.

    @abstractmethod
    def _process_task(self, task: Mapping[str, Any]) -> object:
        """Do a task and return its result, a JSON value.

        Args:
            task: Data passed to ``new_task`` by the master.

        Raises:
            TaskFail: the task failed with a result. Any other exception fails it too; the master gets its type, text
                and traceback.
        """

    def _before_connection(self, data: Any) -> None:
        """Called when a master asks to connect; raise ``ConnectionRefuse`` to refuse."""

    def _before_disconnection(self, data: Any) -> None:
        """Called when the master asks to disconnect; raise ``DisconnectionRefuse`` to refuse."""

    def _before_task(self, task: Any) -> None:
        """Called when a task arrives; raise ``TaskRefuse`` (or ``TaskInvalid``) to refuse it."""

    def _lost_connection(self, master_address: str, err: Exception) -> None:
        """Called when the connection is lost. Running tasks are no longer reported."""

    def _fenced(self, err: Exception) -> None:
        """Called when the master rejects this process: it was replaced by a newer one, or its enrolment was refused."""
        log.error("the coordinator refused this worker: %s", err)

    # Public.

    @property
    def incarnation(self) -> str:
        """Id of this object, different from its predecessors and successors."""
        return self._incarnation

    @property
    def is_connected(self) -> bool:
        """Whether a master is connected."""
        return self._state.current is not None

    @property
    def refusal(self) -> ResponseException | None:
        """Why the master rejects this process (fenced, refused, wrong token) and announcements ended; else None."""
        return None if self._announcer is None else self._announcer.error

    def statistics(self) -> SlaveStatistics:
        """Return a snapshot of the counters."""
        enrolments = 0 if self._announcer is None else self._announcer.count
        return self._counters.snapshot(
            SlaveStatistics, connected=self.is_connected, tasks_running=self._slots.running, enrolments=enrolments
        )

    def enrol(self, master_address: str, name: str, role: str, resource: Mapping[str, Any] | None = None) -> None:
        """Announce this slave to a master until it connects, and again whenever the connection is lost. Returns at
        once.

        Args:
            master_address: ``http://host:port`` of the master.
            name: Name of the worker; the master keeps one process per name, the newest.
            role: Role of the worker, e.g. ``collector``.
            resource: Resources of the worker.

        Raises:
            ServiceClosed: the slave has not started, or has enrolled already.
        """
        if self._server is None or self._checks.shutting_down.is_set() or self._announcer is not None:
            raise ServiceClosed("enrol once, after start and before shutdown")
        if self._guard.keys is not None:
            self._guard.keys.become(role, name)
        message = Enrol(name, role, self.my_address, self._incarnation, dict(resource or {}))
        client = self._client_at(master_address, None, retries=0)
        self._announcer = Announcer(client, message, self._state, self._fenced)
        self._announcer.start()

    def wait_connected(self, timeout_s: float) -> None:
        """Wait until a master is connected.

        Raises:
            ConnectTimeout: No master connected within ``timeout_s`` seconds.
            ResponseException: The master refused the enrolment.
        """
        announcer = self._announcer
        link = self._state.wait_linked(timeout_s, lambda: announcer is not None and announcer.error is not None)
        if link is not None:
            return
        error = announcer.error if announcer is not None else None
        if error is not None:
            raise error
        raise ConnectTimeout(f"no master connected within {timeout_s} s")

    # Life.

    def _client_at(self, master_address: str, token: str | None, retries: int | None = None) -> Client:
        target = split_http_address(master_address, DEFAULT_MASTER_PORT)
        if self._transport.https and not target[2]:
            raise ValueError(f"{master_address!r}: the token must not be sent without TLS")
        return self._client_to(target, token, get_master_exception_by_error, retries)

    def _begin(self) -> None:
        self._heart.start()

    def _stop(self) -> None:
        link = self._state.close()
        if link is not None:
            try:
                link.client.request("DELETE", "/slave/leave", retries=0, timeout_s=_LEAVE_TIMEOUT_S)
            except InteractionError as error:
                log.info("could not say goodbye to the master: %s", error)
            self._state.drop(link)
        if self._announcer is not None:
            self._announcer.close()
        running = self._slots.close(_STOP_TIMEOUT_S)
        if running:
            log.warning("%d task(s) still run although the slave is closed", running)

    # Answers.

    def _link_of(self, call: Call) -> Link:
        link = self._state.current
        if link is None:
            raise _error(SlaveErrorCode.SLAVE_NOT_CONNECTED, "No master is connected.", 400)
        if not same_token(call.token, link.token):
            raise _error(SlaveErrorCode.MASTER_TOKEN_INVALID, "The token is not that of the connected master.", 403)
        return link

    def _handle_connect(self, call: Call) -> Answer:
        token = call.token
        welcome = Answer("The master is connected.", {"incarnation": self._incarnation})
        link = self._state.current
        if link is not None:
            if same_token(token, link.token):  # sent again because the answer was lost
                return welcome
            raise _error(SlaveErrorCode.SLAVE_ALREADY_CONNECTED, "Another connection holds the slave.", 400)
        body = call.body(Connect)
        address = body.master.address
        try:
            client = self._client_at(address, token)
            self._before_connection(body.data)
        except ConnectionRefuse as error:
            raise _error(SlaveErrorCode.SLAVE_CONNECTION_REFUSED, error.message, 403, error.data) from error
        except ValueError as error:
            text = "The address of the master is not valid."
            raise _error(ProtocolErrorCode.BODY_INVALID, text, 400) from error
        if not self._state.set_if_free(lambda: Link(token, address, client)):
            raise _error(SlaveErrorCode.SLAVE_ALREADY_CONNECTED, "Another connection holds the slave.", 400)
        self._counters.add("connections")
        return welcome

    def _handle_disconnect(self, call: Call) -> Answer:
        link = self._link_of(call)
        body = call.body(Disconnect)
        try:
            self._before_disconnection(body.data)
        except DisconnectionRefuse as error:
            raise _error(SlaveErrorCode.SLAVE_DISCONNECTION_REFUSED, error.message, 403, error.data) from error
        self._state.drop(link)
        return Answer("The master is disconnected.")

    def _handle_task(self, call: Call) -> Answer:
        link = self._link_of(call)
        body = call.body(NewTask)
        task_id, data = body.task.id, body.data
        try:
            if not self._slots.seen(task_id):
                self._check_task(data)
            new = self._slots.take(task_id, data, link)
        except Busy as error:
            self._counters.add("tasks_busy")
            raise _error(SlaveErrorCode.TASK_ALREADY_EXIST, "The slave runs as many tasks as it may.", 400) from error
        self._counters.add("tasks_accepted" if new else "tasks_duplicate")
        return Answer("The task is accepted." if new else "The task was accepted before.")

    def _check_task(self, data: object) -> None:
        if _names_imports(data):
            self._counters.add("tasks_refused")
            raise _error(ProtocolErrorCode.BODY_INVALID, "import_names is not taken from messages.", 400)
        if not self._slots.has_free():
            raise Busy
        try:
            self._before_task(data)
        except TaskRefuse as error:
            self._counters.add("tasks_refused")
            raise _error(SlaveErrorCode.TASK_REFUSED, error.message, error.status_code, error.data) from error

    # Work.

    def _run_job(self, job: Job) -> Outcome:
        try:
            outcome = Outcome(True, self._process_task(job.data))
        except TaskFail as error:
            outcome = Outcome(False, error.result, error.message)
        except BaseException as error:  # SystemExit too: the task has failed, and the master must be informed
            log.exception("task %s failed", job.id)
            outcome = Outcome(False, failure_report(error), f"{type(error).__name__}: {error}")
        self._counters.add("tasks_completed" if outcome.completed else "tasks_failed")
        return outcome

    def _report(self, job: Job) -> None:
        outcome = job.outcome
        if outcome is None:
            raise RuntimeError(f"task {job.id} is reported before it is over")
        link = job.link
        if self._state.current is not link:
            self._counters.add("results_dropped")
            level = logging.INFO if self._checks.shutting_down.is_set() else logging.WARNING
            log.log(level, "the late result of task %s is dropped: its connection is over", job.id)
            return
        try:
            self._send_outcome(job, outcome)
        except WireError as error:
            self._send_failure(job, error)
        except ResponseException as error:
            if error.code in _UNSENDABLE:
                self._send_failure(job, error)
            else:
                self._lose(link, error)
        except InteractionError as error:
            self._lose(link, error)

    def _send_failure(self, job: Job, error: Exception) -> None:
        log.error("the result of task %s cannot be sent: %s", job.id, error)
        job.outcome = Outcome(False, failure_report(error), f"the result cannot be sent: {error}")
        try:
            self._send_outcome(job, job.outcome)
        except InteractionError as second:
            self._lose(job.link, second)

    def _send_outcome(self, job: Job, outcome: Outcome) -> None:
        message = Result(TaskName(job.id), outcome.result, outcome.message, Process(self._incarnation))
        path = "/slave/task/complete" if outcome.completed else "/slave/task/fail"
        job.link.client.request("PUT", path, message)

    def _beat(self) -> None:
        while (link := self._state.wait_linked()) is not None:
            while self._state.wait_changed(link, self._heartbeat_span):
                try:
                    link.client.request("GET", "/slave/heartbeat")
                    self._counters.add("heartbeats")
                except InteractionError as error:
                    self._lose(link, error)

    def _lose(self, link: Link, error: Exception) -> None:
        if not self._state.drop(link) or self._checks.shutting_down.is_set():
            return
        self._counters.add("connections_lost")
        level = logging.INFO if isinstance(error, (ServiceClosed, MasterSystemShuttingDown)) else logging.WARNING
        log.log(level, "lost the master at %s: %s", link.master_address, error)
        try:
            self._lost_connection(link.master_address, error)
        except Exception:
            log.exception("_lost_connection failed")


def _error(code: int, message: str, status: int, data: object = None) -> ResponsibleException:
    return ResponsibleException(code, message, data, status)


def _names_imports(value: object) -> bool:
    """Return whether a message contains a non-empty ``import_names`` anywhere."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if node.get("import_names"):
                return True
            stack.extend(child for child in node.values() if isinstance(child, (dict, list)))
        elif isinstance(node, list):
            stack.extend(child for child in node if isinstance(child, (dict, list)))
    return False
