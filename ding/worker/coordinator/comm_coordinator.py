"""Communication of a coordinator with its workers."""

import itertools
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ding.worker.coordinator.errors import WorkerLost, WorkersMissing, WorkerTaskFailed
from ding.worker.coordinator.master_hub import MasterHub
from ding.worker.coordinator.operator_sync import OperatorSync, connect_until
from ding.worker.coordinator.protocols import CoordinatorCallbacks, WorkerHub, WorkerLink, callbacks_of
from ding.worker.coordinator.resource_manager import NaiveResourceManager, WorkerState
from ding.worker.coordinator.tasks.attendance import Attendance
from ding.worker.coordinator.tasks.journal import Journal
from ding.worker.coordinator.tasks.ledger import TaskLedger
from ding.worker.coordinator.tasks.records import Holder, TaskPhase
from ding.worker.coordinator.tasks.session import Session, Timing, checked_answer
from ding.worker.coordinator.worker_links import WorkerLinks

_RESOURCE_TIMEOUT_S = 10.0


class CommCoordinator:
    """Connects to the workers and hands out tasks.

    Consists of :class:`~ding.worker.coordinator.worker_links.WorkerLinks` (connections),
    :class:`~ding.worker.coordinator.resource_manager.NaiveResourceManager` (idle workers), and
    :class:`~ding.worker.coordinator.tasks.attendance.Attendance` (one thread per task that communicates with its
    worker).

    Workers enrol, or are contacted at the addresses of the config. A restarted worker fences its former process; a
    worker whose connection broke may reconnect within its lease and continue.

    Args:
        cfg: ``host``, ``port``, ``collector`` and ``learner`` (``{name: [id, host, port]}``), and optionally
            ``long_poll_s``, ``lease_s``, ``start_timeout_s``, ``connect_timeout_s``, ``operator_server``.
        callback_fn: A coordinator, or its ``deal_with_*`` functions by name.
        logger: Text logger.
        ledger: Tasks of the run; by default an in-memory ledger.
        hub: Creates the connections; by default a ``ding.interaction.Master``.
    """

    def __init__(
        self,
        cfg: Mapping[str, Any],
        callback_fn: CoordinatorCallbacks | Mapping[str, Callable[..., Any]],
        logger: logging.Logger,
        ledger: TaskLedger | None = None,
        hub: WorkerHub | None = None,
    ) -> None:
        self._cfg = cfg
        self._callbacks = callbacks_of(callback_fn)
        self._logger = logger
        self._ledger = ledger or TaskLedger(Journal(), lease_s=float(cfg.get("lease_s", 10.0)))
        self._hub = hub or MasterHub(cfg)
        timing = Timing(
            long_poll_s=float(cfg.get("long_poll_s", 1.0)),
            answer_s=float(cfg.get("lease_s", 10.0)),
            start_s=float(cfg.get("start_timeout_s", 120.0)),
        )
        self._start_s = timing.start_s
        self._resource_manager = NaiveResourceManager()
        self._links = WorkerLinks(self._hub, logger)
        self._ledger.has_other = self._has_other
        self._attendance = Attendance(self._ledger, self._callbacks, self._links, self._back, timing, logger)
        self._closing = self._attendance.closing
        self._started = False
        self._operator: OperatorSync | None = None

    def start(self) -> None:
        """Listen, and connect to the configured workers.

        Raises:
            WorkersMissing: A configured worker cannot be reached, or the operator provided too few.
        """
        self._started = True
        self._hub.start(self._connected, self._disconnected, self._gone)
        deadline = time.monotonic() + float(self._cfg.get("connect_timeout_s", 120.0))
        missing = [
            name
            for role in ("learner", "collector")
            for name, host, port in _addresses(self._cfg.get(role))
            if not connect_until(self, (name, role, host, port), self._closing, deadline)
        ]
        if missing:
            raise WorkersMissing(f"no connection to {', '.join(missing)}")
        if self._cfg.get("operator_server"):
            self._operator = OperatorSync(self._cfg["operator_server"], self, self._callbacks, self._logger)
            self._operator.start(deadline)

    def connect_worker(self, name: str, role: str, host: str, port: int) -> bool:
        """Connect to a worker at a known address; return False if it does not answer."""
        link = self._links.connect(name, role, host, port)
        if link is None:
            return False
        self._connected(link)
        return self._resource_manager.state(role, name) is not None

    def drop_worker(self, name: str, role: str, reason: str) -> None:
        """Remove a worker that will not return."""
        link = self._links.drop(name)
        self._resource_manager.delete(role, name)
        if link is not None:
            self._ledger.fence(link.holder, reason)
            link.close()
        self._callbacks.workers_changed()

    def close(self, timeout_s: float = 8.0) -> None:
        """End all tasks, disconnect, and stop listening, in about ``timeout_s`` seconds. May be called repeatedly."""
        if self._closing.is_set():
            return
        deadline = time.monotonic() + timeout_s
        self._closing.set()
        if self._operator is not None:
            self._operator.close()
        self._attendance.close(deadline)
        if self._started:
            self._hub.close()

    def _connected(self, link: WorkerLink) -> None:
        """Handle a connection: of a new worker, a restarted one, or a reconnection."""
        if self._closing.is_set():
            link.close()
            return
        if self._ledger.is_fenced(link.holder):
            # The process was silent longer than its lease. Its work is void; it may start again.
            lives = (Holder(link.name, f"{link.holder.process}+{number}") for number in itertools.count(1))
            link.holder = next(life for life in lives if not self._ledger.is_fenced(life))
        try:
            former = self._links.enter(link)
        except WorkerLost as error:
            self._logger.info("%s", error)
            return
        # A holder from an earlier coordinator has no connection here.
        before = {*self._ledger.lives_of(link.name), *(() if former is None else [former.holder])} - {link.holder}
        for holder in before:
            self._ledger.fence(holder, f"another process took the place of {link.name}")
        if former is not None and former.holder in before:
            former.close()
        try:
            self._welcome(link)
        except (WorkerLost, WorkerTaskFailed) as error:
            self._logger.warning("%s is connected, but does not answer: %s", link.name, error)
            if isinstance(error, WorkerTaskFailed):
                self._ledger.blame(link.holder, str(error))
            self._disconnected(link)
            link.close()  # a live worker reconnects by itself
        self._callbacks.workers_changed()

    def _has_other(self, kind: str, names: Collection[str]) -> bool:
        """Return whether another worker than the given ones can be assigned a task."""
        return any(
            link.role == kind and link.name not in names and self._ledger.quarantine_of(link.holder) is None
            for link in self._links.all()
        )

    def _welcome(self, link: WorkerLink) -> None:
        if self._ledger.quarantine_of(link.holder) is not None:
            self._resource_manager.quarantine(link.role, link.name)
            return
        answer = link.call({"name": "resource"}, _RESOURCE_TIMEOUT_S)
        info = dict(checked_answer(answer or {}, "resource", link.name))
        held = self._ledger.task_of(link.holder)
        if held is not None and self._attendance.attends(link.holder):
            self._resource_manager.update(link.role, link.name, info, busy=True)
            return
        if held is not None and (
            held.phase is TaskPhase.RUNNING
            # A killed coordinator did not learn that the worker had started; the worker reports it.
            or (info.get("task_id") == held.task_id and self._ledger.started(held.task_id, link.holder))
        ):
            self._logger.info("%s goes on with task %s", link.name, held.task_id)
            self._resource_manager.update(link.role, link.name, info, busy=True)
            self._attendance.begin(link, held.body, resume=True)
            return
        if held is not None:
            self._ledger.fail(held.task_id, link.holder, "it is not known whether the task was begun", False)
        if info.pop("task_id", None) is not None:
            name = f"{link.role}_close_task"
            self._discard(checked_answer(link.call({"name": name}, self._start_s), name, link.name))
        self._resource_manager.update(link.role, link.name, info)
        self._logger.info("%s %s is ready: %s", link.role, link.name, info)

    def _discard(self, ended: Mapping[str, Any]) -> None:
        """Delete the pending chunks of a collector that lost its task, except those already taken."""
        refs = ended.get("refs")
        if refs:
            self._callbacks.buffers.discard([ref["chunk"] for ref in refs])

    def _gone(self, link: WorkerLink) -> None:
        """Reassign the task of a worker that signed off, without waiting for its lease."""
        if self._links.get(link.name) is link:
            self.drop_worker(link.name, link.role, f"{link.name} has left")

    def _disconnected(self, link: WorkerLink) -> None:
        """Handle a broken connection; the worker may reconnect."""
        if not self._links.leave(link):
            return
        if self._resource_manager.state(link.role, link.name) is WorkerState.IDLE:
            self._resource_manager.delete(link.role, link.name)
        self._callbacks.workers_changed()

    @property
    def resource_manager(self) -> NaiveResourceManager:
        """State of the workers."""
        return self._resource_manager

    def is_present(self, holder: Holder) -> bool:
        """Return whether the process of a holder is connected, possibly as a later incarnation."""
        return self._links.is_present(holder)

    def workers(self) -> dict[str, dict[str, Any]]:
        """Return ``{name: {'role', 'state', 'task_id'}}`` by worker; quarantined ones also have ``error``."""
        result = {}
        for link in self._links.all():
            state, held = self._resource_manager.state(link.role, link.name), self._ledger.task_of(link.holder)
            result[link.name] = {
                "role": link.role,
                "state": None if state is None else state.value,
                "task_id": None if held is None else held.task_id,
            }
            if state is WorkerState.QUARANTINED:
                result[link.name]["error"] = self._ledger.quarantine_of(link.holder)
        return result

    def send_collector_task(self, collector_task: dict[str, Any]) -> bool:
        """Assign a task to an idle collector without waiting for its start; return False if none is idle."""
        return self._send("collector", collector_task)

    def send_learner_task(self, learner_task: dict[str, Any]) -> bool:
        """Assign a task to an idle learner without waiting for its start; return False if none is idle."""
        return self._send("learner", learner_task)

    def _send(self, kind: str, task: dict[str, Any]) -> bool:
        while not self._closing.is_set():
            record = self._ledger.record(task["task_id"])
            assigned = self._resource_manager.assign(kind, () if record is None else record.failed_on)
            if assigned is None:
                return False
            name = assigned[f"{kind}_id"]
            link = self._links.get(name)
            if link is None:
                self._resource_manager.delete(kind, name)
                continue
            task.update(assigned)
            if record is None:
                self._ledger.submit(kind, task)
            self._ledger.send(task["task_id"], link.holder)
            self._attendance.begin(link, task, resume=False)
            return True
        return False

    def _back(self, session: Session, usable: bool) -> None:
        """Record that the worker has no more tasks, or is lost."""
        name, role = session.holder.worker, session.role
        link = self._links.get(name)
        if link is not None and link.holder != session.holder:
            return  # another incarnation took its place and reported its own state
        reason = self._ledger.quarantine_of(session.holder)
        if link is not None and reason is not None:
            self._logger.error("%s is quarantined and gets no more tasks: %s", name, reason)
            self._resource_manager.quarantine(role, name)
            return
        if not usable or link is None or self._ledger.is_fenced(session.holder):
            self._resource_manager.delete(role, name)
            if link is not None:
                self._links.leave(link)
                link.close()  # a live worker reconnects by itself
            return
        self._resource_manager.update(role, name, session.task.get("resource_info") or {})


def _addresses(workers: Mapping[str, Sequence[Any]] | None) -> list[tuple[str, str, int]]:
    """Return ``(id, host, port)`` of each entry ``{key: [id, host, port]}``; entries without a port are skipped."""
    entries = [tuple(entry) for entry in (workers or {}).values()]
    return [(str(name), str(host), int(port)) for name, host, port in entries if port not in (None, 0, "auto")]
