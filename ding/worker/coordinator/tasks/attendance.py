"""Threads of a coordinator that communicate with the workers, one per task from its start to its end."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ding.worker.coordinator.errors import WorkerLost, WorkerTaskFailed
from ding.worker.coordinator.protocols import CoordinatorCallbacks, WorkerLink
from ding.worker.coordinator.tasks.ledger import TaskLedger
from ding.worker.coordinator.tasks.records import Holder
from ding.worker.coordinator.tasks.session import (
    Cancelled,
    CollectedStatistics,
    Session,
    Timing,
    run_collector,
    run_learner,
)
from ding.worker.coordinator.worker_links import WorkerLinks

_RUN: dict[str, Callable[[Session], dict[str, Any]]] = {"collector": run_collector, "learner": run_learner}


class Attendance:
    """Runs the sessions of all tasks held by workers, and reports how each ended.

    Args:
        ledger: Tasks of the run.
        callbacks: Notified of finished tasks and of local errors.
        links: Connections to the workers.
        back: Called with a finished session and whether its worker may get another task.
        timing: Time-outs of all sessions.
        logger: Text logger.
    """

    def __init__(
        self,
        ledger: TaskLedger,
        callbacks: CoordinatorCallbacks,
        links: WorkerLinks,
        back: Callable[[Session, bool], None],
        timing: Timing,
        logger: logging.Logger,
    ) -> None:
        self._ledger = ledger
        self._callbacks = callbacks
        self._links = links
        self._back = back
        self._timing = timing
        self._logger = logger
        self._lock = threading.Lock()
        self._threads: dict[Holder, threading.Thread] = {}
        self._statistics = CollectedStatistics()
        #: Set when the coordinator closes.
        self.closing = threading.Event()

    def attends(self, holder: Holder) -> bool:
        """Return whether a session with this holder is running."""
        with self._lock:
            return holder in self._threads

    def begin(self, link: WorkerLink, task: dict[str, Any], resume: bool) -> None:
        """Start a session with a worker about a task; ``resume``: the worker has started it already."""
        session = Session(
            *(task, link.holder, link.role, self._ledger, self._callbacks, self._link_of, self.closing, self._timing),
            self._statistics,
        )
        thread = threading.Thread(
            target=self._run, args=(session, resume), name=f"{link.name}:{task['task_id']}", daemon=True
        )
        with self._lock:
            self._threads[link.holder] = thread
        thread.start()

    def close(self, deadline: float) -> None:
        """Cancel all sessions, and wait for their ends until ``deadline`` (of ``time.monotonic()``)."""
        self.closing.set()
        self._links.wake()
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        unfinished = [thread.name for thread in threads if thread.is_alive()]
        if unfinished:
            self._logger.warning("these tasks did not end in time: %s", unfinished)

    def _link_of(self, holder: Holder, wait_s: float) -> WorkerLink | None:
        """Return the connection to a holder; wait up to ``wait_s`` for its reconnection."""

        def standing() -> WorkerLink | None:
            link = self._links.get(holder.worker)
            return link if link is not None and link.holder == holder and link.alive else None

        def decided() -> bool:
            return standing() is not None or self._ledger.is_fenced(holder) or self.closing.is_set()

        self._links.wait_for(decided, wait_s)
        return standing()

    def _run(self, session: Session, resume: bool) -> None:
        """Run a session in its thread. Local errors, which no other worker can repair, are passed on."""
        try:
            usable = self._attend(session, resume)
            self._over(session)
            self._back(session, usable)
        except Exception as error:
            self._logger.exception("the end of task %s failed", session.task_id)
            self._callbacks.broken(error)
        finally:
            self._over(session)
            self._callbacks.workers_changed()

    def _over(self, session: Session) -> None:
        with self._lock:
            if self._threads.get(session.holder) is threading.current_thread():
                del self._threads[session.holder]

    def _attend(self, session: Session, resume: bool) -> bool:
        """Communicate until the task ends; return whether the worker may get another task."""
        name = session.holder.worker
        try:
            if not resume:
                session.start()
            finished = _RUN[session.role](session)
        except Cancelled as reason:
            self._logger.info("task %s at %s is cancelled: %s", session.task_id, name, reason)
            return session.clean_up()
        except WorkerLost as error:
            self._logger.warning("%s is lost: %s", name, error)
            if not self.closing.is_set():
                self._ledger.fence(session.holder, str(error))
            return False
        except Exception as error:
            expected = isinstance(error, WorkerTaskFailed)
            self._logger.error("task %s failed at %s: %s", session.task_id, name, error, exc_info=not expected)
            usable = session.clean_up()
            self._ledger.fail(session.task_id, session.holder, f"{name}: {error}")
            return usable
        if self._ledger.finish(session.task_id, session.holder):
            self._report(session, finished)
        return True

    def _report(self, session: Session, finished: Mapping[str, Any]) -> None:
        callbacks = self._callbacks
        if session.role == "learner":
            callbacks.deal_with_learner_finish_task(session.task_id, dict(finished))
        else:
            callbacks.deal_with_collector_finish_task(session.task_id, dict(finished))
