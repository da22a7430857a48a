"""A task as the master sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import IntEnum, unique
from typing import TYPE_CHECKING, Any

from ding.interaction.errors import ConnectionLost, InteractionError, TaskTimeout

if TYPE_CHECKING:
    from ding.interaction.master.connection import Connection

Callback = Callable[[Any, Any], Any]


@unique
class TaskStatus(IntEnum):
    """IDLE -> STARTING -> STARTED -> COMPLETED or FAILED; STARTING -> START_FAILED when the slave did not take it."""

    IDLE = 0x00
    STARTING = 0x11
    STARTED = 0x12
    START_FAILED = 0x13
    COMPLETED = 0x21
    FAILED = 0x22


_OVER = (TaskStatus.START_FAILED, TaskStatus.COMPLETED, TaskStatus.FAILED)


class Task:
    """Made by ``Connection.new_task``; the methods return the task, so that they can be chained.

    Concurrency: all methods are atomic. A task ends once; what comes later is counted and ignored. Callbacks run in one
    thread of the master, in the order of their registration, and before ``join`` returns; a callback must not ``join``
    another task that has callbacks.
    """

    def __init__(self, connection: Connection, task_id: str, data: object, deadline_s: float | None) -> None:
        #: Where the task goes to.
        self.connection = connection
        #: The id under which master and slave speak of the task.
        self.id = task_id
        #: The data of the task, as given to ``new_task``.
        self.task: Any = data
        #: How long the task may take from its start; None: as long as the connection lives.
        self.deadline_s = deadline_s
        self._lock = threading.Lock()
        self._status = TaskStatus.IDLE
        self._result: Any = None
        self._message = ""
        self._error: Exception | None = None
        self._callbacks: dict[TaskStatus, list[Callback]] = {TaskStatus.COMPLETED: [], TaskStatus.FAILED: []}
        self._over = threading.Event()
        #: When the task has to be over, on the clock of the master; None without a deadline, or before the start.
        self.due: float | None = None

    def __repr__(self) -> str:
        return f"<Task {self.id} on {self.connection.name!r}: {self._status.name}>"

    @property
    def status(self) -> TaskStatus:
        """Where the task is in its life."""
        return self._status

    @property
    def result(self) -> Any:
        """What the slave answered; None before that. Without an answer of the slave it is ``{"message": ...}``."""
        return self._result

    @property
    def message(self) -> str:
        """A sentence about how the task ended."""
        return self._message

    @property
    def error(self) -> Exception | None:
        """Why the slave gave no result: refused, unreachable, connection lost, deadline; else None."""
        return self._error

    def on_complete(self, callback: Callback) -> Task:
        """Call ``callback(data, result)`` when the task is completed (in the calling thread if it already is)."""
        return self._on(TaskStatus.COMPLETED, callback)

    def on_fail(self, callback: Callback) -> Task:
        """Call ``callback(data, result)`` when the task has failed (in the calling thread if it already has)."""
        return self._on(TaskStatus.FAILED, callback)

    def start(self) -> Task:
        """Send the task to the slave.

        Raises:
            ValueError: it was started before.
            ResponseException, UnreachableError, ConnectionLost: the slave did not take it (unless ``_error_new_task``
                of the master is overridden); the status is then START_FAILED.
        """
        with self._lock:
            if self._status != TaskStatus.IDLE:
                raise ValueError(f"task {self.id} was started before; it is {self._status.name}")
            self._status = TaskStatus.STARTING
        self.connection.start_task(self)
        return self

    def join(self, timeout_s: float | None = None) -> Task:
        """Wait until the task is over. It ends at the latest when the connection is lost.

        Raises:
            TaskTimeout: it is not over after ``timeout_s`` seconds; it goes on.
            RuntimeError: called by a callback for a task with callbacks: the wait would have no end.
        """
        if any(self._callbacks.values()) and not self._over.is_set() and self.connection.in_callback():
            raise RuntimeError("a callback must not join a task that has callbacks: they run in the same thread")
        if not self._over.wait(timeout_s):
            raise TaskTimeout(
                f"task {self.id} on {self.connection.name!r} is not over after {timeout_s} s: {self._status.name}"
            )
        return self

    # For the connection.

    def mark_started(self) -> None:
        """The slave has taken it (and may be done already)."""
        with self._lock:
            if self._status == TaskStatus.STARTING:
                self._status = TaskStatus.STARTED

    def mark_start_failed(self, error: Exception) -> bool:
        """The slave has not taken it; returns False when the task was over already."""
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
        """The task is over; ignored when it was before.

        Returns:
            What is still to be called in the thread of the callbacks, before joiners go on; None if there is nothing.
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
        """The connection is over; see ``finish``."""
        return self.finish(False, {"message": reason}, reason, ConnectionLost(reason))

    def expire(self) -> Callable[[], None] | None:
        """The deadline has passed; see ``finish``."""
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
