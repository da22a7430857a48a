"""The part of a coordinator that talks to the workers."""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ding.worker.coordinator.errors import WorkerLost, WorkersMissing, WorkerTaskFailed
from ding.worker.coordinator.master_hub import MasterHub
from ding.worker.coordinator.operator_sync import OperatorSync, connect_until
from ding.worker.coordinator.protocols import CoordinatorCallbacks, WorkerHub, WorkerLink, callbacks_of
from ding.worker.coordinator.resource_manager import NaiveResourceManager, WorkerState
from ding.worker.coordinator.tasks.journal import Journal
from ding.worker.coordinator.tasks.ledger import TaskLedger
from ding.worker.coordinator.tasks.records import Holder, TaskPhase
from ding.worker.coordinator.tasks.session import Cancelled, Session, Timing, run_collector, run_learner

_RUN: dict[str, Callable[[Session], dict[str, Any]]] = {"collector": run_collector, "learner": run_learner}
_RESOURCE_TIMEOUT_S = 10.0


class CommCoordinator:
    """Keeps the connections, hands out tasks, and runs one thread per task that talks to its worker.

    Workers announce themselves, or are connected to at the addresses of the config. A worker that comes back in a new
    life fences its former one; one whose connection broke may come back until its lease is over and goes on.

    Args:
        cfg: ``host``, ``port``, ``collector`` and ``learner`` (``{name: [id, host, port]}``), and optionally
            ``long_poll_s``, ``lease_s``, ``start_timeout_s``, ``connect_timeout_s``, ``operator_server``.
        callback_fn: a coordinator, or its ``deal_with_*`` functions by name.
        logger: text logger.
        ledger: the tasks of the run; by default one of its own, that nothing survives.
        hub: makes the connections; by default a ``ding.interaction.Master``.
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
        self._timing = Timing(
            long_poll_s=float(cfg.get("long_poll_s", 1.0)),
            answer_s=float(cfg.get("lease_s", 10.0)),
            start_s=float(cfg.get("start_timeout_s", 120.0)),
        )
        self._resource_manager = NaiveResourceManager()
        self._changed = threading.Condition()
        self._links: dict[str, WorkerLink] = {}
        self._sessions: dict[Holder, threading.Thread] = {}
        self._closing = threading.Event()
        self._started = False
        self._operator: OperatorSync | None = None

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Listen, and connect to the configured workers.

        Raises:
            WorkersMissing: a configured worker cannot be reached, or the operator gave too few.
        """
        self._started = True
        self._hub.start(self._connected, self._disconnected)
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
        """Connect to a worker at a known address; False when it does not answer."""
        try:
            self._connected(self._hub.connect(name, role, host, port))
        except WorkerLost as error:
            self._logger.info("%s at %s:%s cannot be reached yet: %s", name, host, port, error)
            return False
        return self._resource_manager.state(role, name) is not None

    def drop_worker(self, name: str, role: str, reason: str) -> None:
        """Forget a worker that will not come back."""
        with self._changed:
            link = self._links.pop(name, None)
            self._changed.notify_all()
        self._resource_manager.delete(role, name)
        if link is not None:
            self._ledger.fence(link.holder, reason)
            link.close()
        self._callbacks.workers_changed()

    def close(self, timeout_s: float = 8.0) -> None:
        """End all tasks, disconnect, stop listening. May be called again; takes ``timeout_s`` at most, about."""
        if self._closing.is_set():
            return
        self._closing.set()
        deadline = time.monotonic() + timeout_s
        if self._operator is not None:
            self._operator.close()
        with self._changed:
            self._changed.notify_all()
            sessions = list(self._sessions.values())
        for thread in sessions:
            thread.join(max(0.0, deadline - time.monotonic()))
        unfinished = [thread.name for thread in sessions if thread.is_alive()]
        if unfinished:
            self._logger.warning("these tasks did not end in time: %s", unfinished)
        if self._started:
            self._hub.close()

    # ------------------------------------------------------------------ workers

    def _connected(self, link: WorkerLink) -> None:
        """A worker is connected: for the first time, in a new life, or again."""
        if self._closing.is_set():
            link.close()
            return
        if self._ledger.is_fenced(link.holder):
            # The process was silent for longer than its lease. What it did is void; it may begin anew.
            lives = (Holder(link.name, f"{link.holder.process}+{number}") for number in itertools.count(1))
            link.holder = next(life for life in lives if not self._ledger.is_fenced(life))
        with self._changed:
            former = self._links.get(link.name)
            self._links[link.name] = link
            self._changed.notify_all()
        if former is not None and former.holder != link.holder:
            self._ledger.fence(former.holder, f"another process took the place of {link.name}")
            former.close()
        try:
            self._welcome(link)
        except (WorkerLost, WorkerTaskFailed) as error:
            self._logger.warning("%s is connected, but does not answer: %s", link.name, error)
            self._disconnected(link)
            link.close()  # it comes again by itself, if it lives
        self._callbacks.workers_changed()

    def _welcome(self, link: WorkerLink) -> None:
        info = dict(link.call({"name": "resource"}, _RESOURCE_TIMEOUT_S) or {})
        held = self._ledger.task_of(link.holder)
        with self._changed:
            talks = link.holder in self._sessions
        if held is not None and talks:
            self._resource_manager.update(link.role, link.name, info, busy=True)
            return
        if held is not None and held.phase is TaskPhase.RUNNING:
            self._logger.info("%s goes on with task %s", link.name, held.task_id)
            self._resource_manager.update(link.role, link.name, info, busy=True)
            self._begin(link, held.body, resume=True)
            return
        if held is not None:
            self._ledger.fail(held.task_id, link.holder, "it is not known whether the task was begun")
        if info.pop("task_id", None) is not None:
            ended = link.call({"name": f"{link.role}_close_task"}, self._timing.start_s)
            self._discard(ended)
        self._resource_manager.update(link.role, link.name, info)
        self._logger.info("%s %s is ready: %s", link.role, link.name, info)

    def _discard(self, ended: object) -> None:
        """Delete what a collector that is not heard any more had to tell, unless it was heard before."""
        refs = ended.get("refs") if isinstance(ended, Mapping) else None
        if refs:
            self._callbacks.buffers.discard([ref["chunk"] for ref in refs])

    def is_present(self, holder: Holder) -> bool:
        """Whether the process of this life of a worker is connected, in this life or a later one."""
        with self._changed:
            links = list(self._links.values())
        return any(link.holder.process == holder.process for link in links)

    def _disconnected(self, link: WorkerLink) -> None:
        """A connection broke; the worker may come back."""
        with self._changed:
            if self._links.get(link.name) is not link:
                return
            del self._links[link.name]
            self._changed.notify_all()
        if self._resource_manager.state(link.role, link.name) is WorkerState.IDLE:
            self._resource_manager.delete(link.role, link.name)
        self._callbacks.workers_changed()

    def _link_of(self, holder: Holder, wait_s: float) -> WorkerLink | None:
        """The connection to this life of a worker, waiting for it to come back."""

        def there() -> bool:
            link = self._links.get(holder.worker)
            return (
                (link is not None and link.holder == holder and link.alive)
                or self._ledger.is_fenced(holder)
                or self._closing.is_set()
            )

        with self._changed:
            self._changed.wait_for(there, wait_s)
            link = self._links.get(holder.worker)
            return link if link is not None and link.holder == holder and link.alive else None

    @property
    def resource_manager(self) -> NaiveResourceManager:
        """Which workers there are."""
        return self._resource_manager

    def workers(self) -> dict[str, dict[str, Any]]:
        """``{name: {'role', 'state', 'task_id'}}`` of the connected workers."""
        with self._changed:
            links = dict(self._links)
        result = {}
        for name, link in links.items():
            state, held = self._resource_manager.state(link.role, name), self._ledger.task_of(link.holder)
            result[name] = {
                "role": link.role,
                "state": None if state is None else state.value,
                "task_id": None if held is None else held.task_id,
            }
        return result

    # ------------------------------------------------------------------ tasks

    def send_collector_task(self, collector_task: dict[str, Any]) -> bool:
        """Give a task to an idle collector; False when there is none. Does not wait for it to begin."""
        return self._send("collector", collector_task)

    def send_learner_task(self, learner_task: dict[str, Any]) -> bool:
        """Give a task to an idle learner; False when there is none. Does not wait for it to begin."""
        return self._send("learner", learner_task)

    def _send(self, kind: str, task: dict[str, Any]) -> bool:
        while not self._closing.is_set():
            assigned = self._resource_manager.assign(kind)
            if assigned is None:
                return False
            name = assigned[f"{kind}_id"]
            with self._changed:
                link = self._links.get(name)
            if link is None:
                self._resource_manager.delete(kind, name)
                continue
            task.update(assigned)
            if self._ledger.record(task["task_id"]) is None:
                self._ledger.submit(kind, task)
            self._ledger.send(task["task_id"], link.holder)
            self._begin(link, task, resume=False)
            return True
        return False

    def _begin(self, link: WorkerLink, task: dict[str, Any], resume: bool) -> None:
        session = Session(
            task, link.holder, link.role, self._ledger, self._callbacks, self._link_of, self._closing, self._timing
        )
        thread = threading.Thread(
            target=self._run, args=(session, resume), name=f"{link.name}:{task['task_id']}", daemon=True
        )
        with self._changed:
            self._sessions[link.holder] = thread
        thread.start()

    def _run(self, session: Session, resume: bool) -> None:
        """The thread of a session. What fails here and not at the worker, no other worker can mend: it is passed on."""
        try:
            self._attend(session, resume)
        except Exception as error:
            self._logger.exception("the end of task %s failed", session.task_id)
            self._callbacks.broken(error)
        finally:
            with self._changed:
                self._sessions.pop(session.holder, None)
            self._callbacks.workers_changed()

    def _attend(self, session: Session, resume: bool) -> None:
        name = session.holder.worker
        try:
            finished = self._converse(session, resume)
        except Cancelled as reason:
            self._logger.info("task %s at %s is cancelled: %s", session.task_id, name, reason)
            self._back(session, session.clean_up())
        except WorkerLost as error:
            self._logger.warning("%s is lost: %s", name, error)
            if not self._closing.is_set():
                self._ledger.fence(session.holder, str(error))
            self._back(session, usable=False)
        except Exception as error:
            self._logger.error("task %s failed at %s: %s", session.task_id, name, error, exc_info=_unexpected(error))
            usable = session.clean_up()
            self._ledger.fail(session.task_id, session.holder, f"{name}: {error}")
            self._back(session, usable)
        else:
            if finished is not None and self._ledger.finish(session.task_id, session.holder):
                callbacks = self._callbacks
                learner = session.role == "learner"
                finish = (
                    callbacks.deal_with_learner_finish_task if learner else callbacks.deal_with_collector_finish_task
                )
                finish(session.task_id, finished)
            self._back(session, usable=True)

    def _converse(self, session: Session, resume: bool) -> dict[str, Any] | None:
        if not resume:
            session.start()
        return _RUN[session.role](session)

    def _back(self, session: Session, usable: bool) -> None:
        """The worker has no more tasks, or is lost."""
        name, role = session.holder.worker, session.role
        with self._changed:
            self._sessions.pop(session.holder, None)
            link = self._links.get(name)
        if link is not None and link.holder != session.holder:
            return  # another life has its place, and said itself what it does
        if not usable or link is None or self._ledger.is_fenced(session.holder):
            self._resource_manager.delete(role, name)
            if link is not None:
                with self._changed:
                    self._links.pop(name, None)
                link.close()  # it comes again by itself, if it lives
            return
        self._resource_manager.update(role, name, session.task.get("resource_info") or {})


def _unexpected(error: Exception) -> bool:
    return not isinstance(error, WorkerTaskFailed)


def _addresses(workers: Mapping[str, Sequence[Any]] | None) -> list[tuple[str, str, int]]:
    """``(id, host, port)`` of ``{key: [id, host, port]}``; entries without a port announce themselves."""
    entries = [tuple(entry) for entry in (workers or {}).values()]
    return [(str(name), str(host), int(port)) for name, host, port in entries if port not in (None, 0, "auto")]
