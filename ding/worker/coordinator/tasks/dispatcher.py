"""Thread of a coordinator that requests tasks, assigns them, and cleans up after finished ones."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ding.utils.nested import Tree
from ding.worker.coordinator.buffer_manager import BufferManager
from ding.worker.coordinator.comm_coordinator import CommCoordinator
from ding.worker.coordinator.errors import TaskGaveUp
from ding.worker.coordinator.tasks.command import Command
from ding.worker.coordinator.tasks.ledger import TaskLedger
from ding.worker.coordinator.tasks.records import TaskPhase

_LOOK_EVERY_S = 1.0
_SNAPSHOT_EVERY_S = 5.0
_JOIN_S = 5.0


class TaskState(NamedTuple):
    """An open task.

    Attributes:
        task_id: Id of the task.
        start_time: Start time, of the monotonic clock in seconds.
    """

    task_id: str
    start_time: float


class Dispatcher:
    """Moves tasks from the commander through the ledger to the workers.

    The thread waits for :meth:`wake`, and checks deadlines once a second.

    Args:
        command: Commander of the run.
        ledger: Tasks of the run.
        buffers: Replay buffers; the buffer of a learner's task is opened with it.
        comm: Assigns tasks to workers.
        info, error: Log a line.
        broken: Called with an error that ends the run.
    """

    def __init__(
        self,
        command: Command,
        ledger: TaskLedger,
        buffers: BufferManager,
        comm: CommCoordinator,
        info: Callable[[str], None],
        error: Callable[[str], None],
        broken: Callable[[Exception], None],
    ) -> None:
        self._command = command
        self._ledger = ledger
        self._buffers = buffers
        self._comm = comm
        self._info = info
        self._error = error
        self._broken = broken
        #: Open tasks.
        self.open: dict[str, TaskState] = {}
        self._dirty = threading.Condition()
        self._changes = 1
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="dispatch", daemon=True)

    def enter(self, task_id: str) -> None:
        """Register a task that was created here or by an earlier coordinator."""
        self.open[task_id] = TaskState(task_id, time.monotonic())

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread and wait for it. Repeated calls have no effect."""
        self._closing = True
        self.wake()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    def wake(self) -> None:
        """Reconsider the assignments after a change of workers or tasks."""
        with self._dirty:
            self._changes += 1
            self._dirty.notify_all()

    def _run(self) -> None:
        seen, next_snapshot = 0, time.monotonic() + _SNAPSHOT_EVERY_S
        while not self._closing:
            with self._dirty:
                if self._changes == seen and not self._closing:
                    self._dirty.wait(_LOOK_EVERY_S)
                seen = self._changes
            if self._closing:
                return
            try:
                self._settle_expired()
                self._produce()
                self._assign()
                self._sweep()
                if time.monotonic() >= next_snapshot:
                    next_snapshot = time.monotonic() + _SNAPSHOT_EVERY_S
                    self._buffers.snapshot()
                    self._ledger.save_counters()
            except Exception as error:  # noqa: BLE001 - reported to the owner of the run, who ends it
                self._broken(error)
                return

    def _settle_expired(self) -> None:
        """Report tasks that no worker took in time or that failed too often."""
        self._ledger.expire()
        for task_id in list(self.open):
            record = self._ledger.record(task_id)
            if record is None or not record.phase.final:
                continue
            self._ledger.drop(task_id)
            self.open.pop(task_id, None)
            with self._command.lock:
                getattr(self._command.commander, f"notify_fail_{record.kind}_task")(record.body)
                if record.kind == "learner":
                    self._buffers.shut(record.body["buffer_id"])
            if record.phase is TaskPhase.FAILED:
                self._broken(TaskGaveUp(task_id, record.failures, record.error))
            else:
                self._error(f"no {record.kind} took task {task_id} in time; it is dropped")

    def _produce(self) -> None:
        """Queue the tasks of the commander."""
        for kind in ("learner", "collector"):
            while not self._closing and not self._command.over:
                # One lock for a task and its buffer: the previous task may have had a buffer of the same name, which is
                # closed when that task ends.
                with self._command.lock:
                    task = getattr(self._command.commander, f"get_{kind}_task")()
                    if task is None:
                        break
                    task = without_imports(task)
                    if kind == "learner":
                        buffer_cfg = task.pop("replay_buffer_cfg", None)
                        self._buffers.open(task["buffer_id"], buffer_cfg or {})
                        task["replay_buffer_size"] = self._buffers.size_of(task["buffer_id"])
                self.enter(task["task_id"])
                self._ledger.submit(kind, task)
                self._command.save()

    def _assign(self) -> None:
        """Assign queued tasks to idle workers."""
        for kind, send in (
            ("learner", self._comm.send_learner_task),
            ("collector", self._comm.send_collector_task),
        ):
            for task in self._ledger.queued(kind):
                if task["buffer_id"] in self._buffers.buffers and not send(task):
                    break

    def _sweep(self) -> None:
        """Delete untaken chunks of dead collectors."""
        over = self._ledger.unswept(self._comm.is_present)
        swept = self._buffers.sweep({holder.process for holder in over})
        self._ledger.swept(over)
        if swept:
            self._info(f"{swept} chunks of {sorted(holder.worker for holder in over)} that nobody took are deleted")


def without_imports(task: Any) -> Tree:
    """Copy nested dicts and lists without ``import_names``: workers import only the modules of their own config."""
    if isinstance(task, Mapping):
        return {key: without_imports(value) for key, value in task.items() if key != "import_names"}
    if isinstance(task, (list, tuple)):
        return [without_imports(value) for value in task]
    return task
