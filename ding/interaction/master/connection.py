"""A connection of a master to one slave, and its tasks."""

from __future__ import annotations

import logging
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from enum import IntEnum, unique
from typing import Any

from ding.interaction.base.addresses import join_http_address
from ding.interaction.base.common import ControllableContext, random_token
from ding.interaction.base.transport import Client, Target
from ding.interaction.config import DEFAULT_REQUEST_TIMEOUT
from ding.interaction.errors import ConnectionLost, InteractionError, TaskTimeout
from ding.interaction.exception.response import ResponseException, SlaveErrorCode
from ding.interaction.master._registry import Registry
from ding.interaction.messages import Connect, Disconnect, Identifier, Json, NewTask, Peer, TaskName, convert

log = logging.getLogger(__name__)

_FINISHED_KEPT = 4096
_ENROLLED_TIMEOUT_S = 5.0

Callback = Callable[[Any, Any], Any]


@unique
class TaskStatus(IntEnum):
    """IDLE -> STARTING -> STARTED -> COMPLETED or FAILED; STARTING -> START_FAILED if the slave did not accept it."""

    IDLE = 0x00
    STARTING = 0x11
    STARTED = 0x12
    START_FAILED = 0x13
    COMPLETED = 0x21
    FAILED = 0x22


_OVER = (TaskStatus.START_FAILED, TaskStatus.COMPLETED, TaskStatus.FAILED)


class Task:
    """A task, created by ``Connection.new_task``; the methods return the task, so they can be chained.

    Concurrency: all methods are atomic. A task ends once; later results are counted and ignored. Callbacks run in one
    thread of the master, in the order of their registration, and before ``join`` returns; a callback must not ``join``
    another task that has callbacks.
    """

    def __init__(self, connection: Connection, task_id: str, data: object, deadline_s: float | None) -> None:
        #: The connection of the task.
        self.connection = connection
        #: Id of the task, shared by master and slave.
        self.id = task_id
        #: Data of the task, as given to ``new_task``.
        self.task: Any = data
        #: Seconds from the start within which the task must end; None: as long as the connection lives.
        self.deadline_s = deadline_s
        self._lock = threading.Lock()
        self._status = TaskStatus.IDLE
        self._result: Any = None
        self._message = ""
        self._error: Exception | None = None
        self._callbacks: dict[TaskStatus, list[Callback]] = {TaskStatus.COMPLETED: [], TaskStatus.FAILED: []}
        self._over = threading.Event()
        #: Deadline on the clock of the master; None without a deadline or before the start.
        self.due: float | None = None

    def __repr__(self) -> str:
        return f"<Task {self.id} on {self.connection.name!r}: {self._status.name}>"

    @property
    def status(self) -> TaskStatus:
        """Current state of the task."""
        return self._status

    @property
    def result(self) -> Json:
        """Result from the slave; None before it arrives. Without an answer of the slave, ``{"message": ...}``."""
        return self._result

    @property
    def message(self) -> str:
        """Sentence about the outcome of the task."""
        return self._message

    @property
    def error(self) -> Exception | None:
        """Why the slave returned no result: refused, unreachable, connection lost, deadline; else None."""
        return self._error

    def on_complete(self, callback: Callback) -> Task:
        """Call ``callback(data, result)`` when the task completes (in the calling thread if it already has)."""
        return self._on(TaskStatus.COMPLETED, callback)

    def on_fail(self, callback: Callback) -> Task:
        """Call ``callback(data, result)`` when the task fails (in the calling thread if it already has)."""
        return self._on(TaskStatus.FAILED, callback)

    def start(self) -> Task:
        """Send the task to the slave.

        Raises:
            ValueError: The task was started before.
            ResponseException, UnreachableError, ConnectionLost: The slave did not accept it (unless ``_error_new_task``
                of the master is overridden); the status is then START_FAILED.
        """
        with self._lock:
            if self._status != TaskStatus.IDLE:
                raise ValueError(f"task {self.id} was started before; it is {self._status.name}")
            self._status = TaskStatus.STARTING
        self.connection.start_task(self)
        return self

    def join(self, timeout_s: float | None = None) -> Task:
        """Wait until the task ends, at the latest when the connection is lost.

        Raises:
            TaskTimeout: The task has not ended within ``timeout_s`` seconds; it continues.
            RuntimeError: Called by a callback for a task with callbacks, which would deadlock.
        """
        if any(self._callbacks.values()) and not self._over.is_set() and self.connection.in_callback():
            raise RuntimeError("a callback must not join a task that has callbacks: they run in the same thread")
        if not self._over.wait(timeout_s):
            raise TaskTimeout(
                f"task {self.id} on {self.connection.name!r} is not over after {timeout_s} s: {self._status.name}"
            )
        return self

    # Used by the connection.

    def mark_started(self) -> None:
        """Record that the slave has accepted the task (and may have finished it)."""
        with self._lock:
            if self._status == TaskStatus.STARTING:
                self._status = TaskStatus.STARTED

    def mark_start_failed(self, error: Exception) -> bool:
        """Record that the slave did not accept the task; return False if it had already ended."""
        with self._lock:
            if self._status in _OVER:
                return False
            self._status = TaskStatus.START_FAILED
            self._error = error
            self._message = str(error)
        self._over.set()
        return True

    def finish(
        self, completed: bool, result: object, message: str = "", error: InteractionError | None = None
    ) -> Callable[[], None] | None:
        """End the task; ignored if it has already ended.

        Returns:
            A function to call in the callback thread before joiners wake up; None if there is nothing to call.
        """
        status = TaskStatus.COMPLETED if completed else TaskStatus.FAILED
        with self._lock:
            if self._status in _OVER:
                return None
            self._status, self._result, self._message, self._error = status, result, message, error
            callbacks = tuple(self._callbacks[status])
        if not callbacks:
            self._over.set()
            return None

        def call() -> None:
            try:
                for callback in callbacks:
                    self.connection.call_back(callback, self.task, result)
            finally:
                self._over.set()

        return call

    def lose(self, reason: str) -> Callable[[], None] | None:
        """Fail the task because the connection ended; see ``finish``."""
        return self.finish(False, {"message": reason}, reason, ConnectionLost(reason))

    def expire(self) -> Callable[[], None] | None:
        """Fail the task because the deadline passed; see ``finish``."""
        text = f"task {self.id} on {self.connection.name!r} is not over after its deadline of {self.deadline_s} s"
        return self.finish(False, {"message": text}, text, TaskTimeout(text))

    def _on(self, status: TaskStatus, callback: Callback) -> Task:
        with self._lock:
            if self._status not in _OVER:
                self._callbacks[status].append(callback)
                return self
            late = self._status == status
        if late:
            self.connection.call_back(callback, self.task, self._result)
        return self


class ConnectionHooks:
    """Hooks of a master around the requests of its connections; override as needed.

    ``_before_*`` and ``_error_*`` run in the thread that called the method; the default of ``_error_*`` raises the
    error. ``_left`` and ``_lost_connection`` run in the callback thread, ``_heard`` in a server thread, where it must
    not block.
    """

    def _before_connect(self, connection: Connection) -> object:
        """Return the data to send with the request."""

    def _after_connect(
        self, connection: Connection, status_code: int, success: bool, code: int, message: str, data: object
    ) -> object:
        """Called when the slave has accepted."""

    def _error_connect(self, connection: Connection, error: Exception) -> object:
        """Called when the slave refused or did not answer."""
        raise error

    def _before_disconnect(self, connection: Connection) -> object:
        """Return the data to send with the request."""

    def _after_disconnect(
        self, connection: Connection, status_code: int, success: bool, code: int, message: str, data: object
    ) -> object:
        """Called when the slave has accepted."""

    def _error_disconnect(self, connection: Connection, error: Exception) -> object:
        """Called when the slave refused or did not answer."""
        raise error

    def _before_new_task(self, connection: Connection, task: Any) -> object:
        """Return the data to send as the task."""
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
    ) -> object:
        """Called when the slave has accepted the task."""

    def _error_new_task(self, connection: Connection, task: object, error: Exception) -> object:
        """Called when the slave refused the task or did not answer."""
        raise error

    def _lost_connection(self, connection: Connection, reason: str) -> None:
        """Called when a connection ended without a disconnect by the master; its tasks have failed."""

    def _left(self, connection: Connection) -> None:
        """Called when a slave announced that this process leaves for good. Runs before ``_lost_connection``."""

    def _heard(self, connection: Connection) -> None:
        """Called when a slave has sent a heartbeat or a result."""


class Connection(ControllableContext):
    """A connection, created by ``Master.new_connection``; ``with`` connects and disconnects. It can be reconnected
    after a disconnect.

    Concurrency: all methods may be called by several threads. When the connection is lost (no heartbeat, a newer
    process of that name, ``lose``), ``is_connected`` becomes False and all its tasks fail at once.
    """

    def __init__(self, registry: Registry, name: str, target: Target, incarnation: str | None) -> None:
        self._registry = registry
        #: Name of the slave.
        self.name = name
        #: Address of the slave.
        self.address = join_http_address(*target)
        self._target = target
        self._expected = incarnation
        self._lock = threading.RLock()
        self._connected = False
        self._incarnation = incarnation
        self._client: Client | None = None
        self._tasks: dict[str, Task] = {}
        self._finished: OrderedDict[str, None] = OrderedDict()
        #: Time of the last message from the slave, on the clock of the master.
        self.last_seen = 0.0

    def __repr__(self) -> str:
        return f"<Connection {self.name!r} to {self.address}: {'connected' if self._connected else 'not connected'}>"

    @property
    def incarnation(self) -> str | None:
        """Id of the process behind the name, known once connected."""
        return self._incarnation

    @property
    def is_connected(self) -> bool:
        """Whether the connection is established."""
        return self._connected

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Tasks that have not ended."""
        with self._lock:
            return tuple(self._tasks.values())

    def connect(self) -> object:
        """Connect to the slave.

        Returns:
            The result of the master's ``_after_connect``.

        Raises:
            ResponseException, UnreachableError: the slave refuses or does not answer (unless ``_error_connect`` is
                overridden).
            ConnectionLost: Another process than the expected incarnation answers at the address, or a newer one took
                the name in the meantime.
            KeyError: Another connection uses the name.
        """
        registry = self._registry
        token = random_token()
        with self._lock:
            if self._connected:
                raise ValueError(f"{self.name!r} is connected already")
            client = self._client = registry.client_to(
                self._target, token, None if self._expected is None else self.name
            )
        try:
            registry.announce(self, token)
            message = Connect(Peer(registry.my_address()), registry.hooks._before_connect(self) or {})
            # An enrolled slave that is alive comes back by itself; until then it occupies a thread.
            retries, timeout_s = (None, DEFAULT_REQUEST_TIMEOUT) if self._expected is None else (1, _ENROLLED_TIMEOUT_S)
            values = client.request("POST", "/connect", message, retries, timeout_s)
            self._check_incarnation(values.data)
        except BaseException as error:
            registry.leave(self, "the connection was not made")
            client.close()
            if isinstance(error, InteractionError):
                return registry.hooks._error_connect(self, error)
            raise
        with self._lock:
            self._connected = True
            self.last_seen = registry.clock()
        registry.enter(self)
        return registry.hooks._after_connect(self, *values)

    def disconnect(self) -> object:
        """Disconnect from the slave; unfinished tasks fail.

        Returns:
            The result of the master's ``_after_disconnect``.

        Raises:
            ConnectionLost: it is not connected.
            SlaveSlaveDisconnectionRefused: The slave refuses; the connection remains.
            ResponseException, UnreachableError: the slave does not know the connection or does not answer; it is over
                nevertheless.
        """
        with self._lock:
            client = self._client
            if not self._connected or client is None:
                raise ConnectionLost(f"{self.name!r} is not connected")
        registry = self._registry
        try:
            values = client.request("DELETE", "/disconnect", Disconnect(registry.hooks._before_disconnect(self) or {}))
        except InteractionError as error:
            code = error.code if isinstance(error, ResponseException) else None
            if code == SlaveErrorCode.SLAVE_NOT_CONNECTED:  # already disconnected: the request arrived twice
                registry.leave(self, f"{self.name!r} was disconnected")
                return registry.hooks._after_disconnect(self, 200, True, 0, str(error), None)
            if code != SlaveErrorCode.SLAVE_DISCONNECTION_REFUSED:
                registry.leave(self, f"{self.name!r} did not take the disconnection: {error}")
            return registry.hooks._error_disconnect(self, error)
        registry.leave(self, f"{self.name!r} was disconnected")
        return registry.hooks._after_disconnect(self, *values)

    def start(self) -> None:
        """Call ``connect``."""
        self.connect()

    def close(self) -> None:
        """Call ``disconnect`` if connected."""
        if self._connected:
            try:
                self.disconnect()
            except ConnectionLost:
                log.debug("%s was lost while it was closed", self.name)

    def new_task(self, data: object, *, task_id: str | None = None, deadline_s: float | None = None) -> Task:
        """Create a task for the slave; ``start`` sends it.

        Args:
            data: any JSON value, usually ``{"name": ..., ...}``.
            task_id: default: a new one. A slave takes an id once; sent again, it reports the old outcome again.
            deadline_s: the task fails when it is not over so many seconds after its start; None: when the connection is
                lost.

        Raises:
            SchemaError: The id is not an identifier.
        """
        identity = str(uuid.uuid4()) if task_id is None else convert(task_id, Identifier, "task_id")
        return Task(self, identity, data, deadline_s)

    # Used by the task and the master.

    def _check_incarnation(self, data: object) -> None:
        answered = data.get("incarnation") if isinstance(data, dict) else None
        if self._expected is not None and answered != self._expected:
            raise ConnectionLost(f"another process than that which enrolled as {self.name!r} answers at {self.address}")
        self._incarnation = answered if isinstance(answered, str) else self._expected

    def start_task(self, task: Task) -> None:
        """Send a task to the slave."""
        registry = self._registry
        try:
            with self._lock:
                client = self._client
                if not self._connected or client is None:
                    raise ConnectionLost(f"{self.name!r} is not connected")
                if task.id in self._tasks:
                    raise ConnectionLost(f"task {task.id} runs on {self.name!r} already")
                self._tasks[task.id] = task  # before sending: the result may arrive before the answer
                self._finished.pop(task.id, None)
                if task.deadline_s is not None:
                    task.due = registry.clock() + task.deadline_s
            data = registry.hooks._before_new_task(self, task.task)
            values = client.request("POST", "/task/new", NewTask(TaskName(task.id), data))
        except InteractionError as error:
            self._forget(task)
            if task.mark_start_failed(error):
                registry.counters.add("tasks_refused" if isinstance(error, ResponseException) else "tasks_unsent")
                registry.hooks._error_new_task(self, task.task, error)
            return
        task.mark_started()
        registry.counters.add("tasks_started")
        registry.hooks._after_new_task(self, task.task, *values)

    def _forget(self, task: Task) -> None:
        with self._lock:
            if self._tasks.get(task.id) is task:
                del self._tasks[task.id]
                self._remember(task.id)

    def _remember(self, task_id: str) -> None:
        self._finished[task_id] = None
        while len(self._finished) > _FINISHED_KEPT:
            self._finished.popitem(last=False)

    def take_result(self, task_id: str) -> Task | None:
        """Return the task of a result; None, which is counted, if the task has ended or was never sent."""
        with self._lock:
            task = self._tasks.pop(task_id, None)
            if task is not None:
                self._remember(task_id)
                return task
            known = task_id in self._finished
        self._registry.counters.add("results_duplicate" if known else "results_unknown")
        return None

    def take_due(self, now: float) -> list[Task]:
        """Remove and return the tasks whose deadline has passed."""
        with self._lock:
            due = [task for task in self._tasks.values() if task.due is not None and task.due <= now]
            for task in due:
                del self._tasks[task.id]
                self._remember(task.id)
        return due

    def take_down(self) -> list[Task] | None:
        """End the connection; return its tasks, or None if it had already ended."""
        with self._lock:
            if not self._connected:
                return None
            self._connected = False
            client, self._client = self._client, None
            tasks = list(self._tasks.values())
            for task in tasks:
                self._remember(task.id)
            self._tasks.clear()
        if client is not None:
            client.close()
        return tasks

    def say_goodbye(self, timeout_s: float) -> None:
        """Disconnect with a short time-out, for a master that is closing."""
        client = self._client
        if client is None:
            return
        try:
            client.request("DELETE", "/disconnect", Disconnect(), retries=0, timeout_s=timeout_s)
        except InteractionError as error:
            log.info("%s did not take the disconnection: %s", self.name, error)

    def in_callback(self) -> bool:
        """Return whether the calling thread is the callback thread."""
        return self._registry.callbacks.is_current()

    def call_back(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a user's function in the calling thread."""
        self._registry.callbacks.call(function, *args)
