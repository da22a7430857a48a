"""Coordinator of the parallel mode: assigns tasks to workers and indexes the collected data."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from easydict import EasyDict

from ding.parallel.planes import DataPlane, open_planes
from ding.utils import Configurable, build_logger, get_task_uid, import_module
from ding.worker.coordinator.base_parallel_commander import BaseCommander, create_parallel_commander
from ding.worker.coordinator.buffer_manager import BufferManager
from ding.worker.coordinator.buffers.admission import WorkerQuota
from ding.worker.coordinator.comm_coordinator import CommCoordinator
from ding.worker.coordinator.errors import JournalError, TaskGaveUp
from ding.worker.coordinator.protocols import WorkerHub
from ding.worker.coordinator.shards.sharded_buffer import Connect
from ding.worker.coordinator.tasks.command import Command
from ding.worker.coordinator.tasks.dispatcher import Dispatcher
from ding.worker.coordinator.tasks.dispatcher import TaskState as TaskState
from ding.worker.coordinator.tasks.journal import Journal
from ding.worker.coordinator.tasks.ledger import TaskLedger

log = logging.getLogger(__name__)


class Coordinator(Configurable):
    """Receives tasks from a commander, assigns them to workers, keeps the replay buffers, and ends the run.

    Consists of :class:`~ding.worker.coordinator.tasks.dispatcher.Dispatcher` (one thread that creates and assigns
    tasks), :class:`~ding.worker.coordinator.comm_coordinator.CommCoordinator` (one thread per task that communicates
    with its worker and calls the ``deal_with_*`` methods),
    :class:`~ding.worker.coordinator.buffer_manager.BufferManager`, and two journaled parts:
    :class:`~ding.worker.coordinator.tasks.ledger.TaskLedger`, and the commander, which is called under one lock.

    Args:
        cfg: Compiled parallel config: ``main`` and ``system.coordinator``.
        commander, hub, data_plane, journal: Replacements for tests and other backends; by default built from the
            config.
        evaluated: Called after each evaluation with ``last_evaluation`` of the commander's status.
        clock: Monotonic clock, in seconds.
        shards: Provides the shards of a replay buffer; ``None``: shards in this process.

    Persistent state is stored in the journal ``system.coordinator.journal`` (``''``: none). A coordinator that is
    created with the journal of an earlier one continues its tasks and keeps its data.
    """

    config: ClassVar[dict[str, Any]] = {
        # (float) Seconds that a task waits for a worker before it is dropped.
        "collector_task_timeout": 30,
        "learner_task_timeout": 600,
        # Kubernetes operator that starts workers: system_addr, api_version, init_replicas_request, ...
        "operator_server": {},
        # (float) Seconds after which a silent worker loses its task.
        "lease_s": 10.0,
        # (float) Maximum time of a long poll, in seconds.
        "long_poll_s": 1.0,
        # (float) Seconds that a worker may take to start or end a task.
        "start_timeout_s": 120.0,
        # (float) Seconds to wait for the workers whose addresses are in the config.
        "connect_timeout_s": 120.0,
        # (float) Seconds without collectors, without learners or without progress until an alarm, and until the run
        # ends. 0: never.
        "stall_alarm_s": 60.0,
        "stall_end_s": 1200.0,
        # (int) Number of consecutive failures of a task that ends the run.
        "max_task_failures": 3,
        # (str) Path of the journal.
        "journal": "",
        # (str) Type of the planes, and location of the data; consumed chunks are deleted there. '': they are kept.
        "planes": "file",
        "path_data": "",
        # (int) Maximum bytes that the buffers hold per worker; beyond it, its oldest rows are dropped. 'auto': half of
        # the file system of path_data. 0: unlimited.
        "max_worker_bytes": "auto",
    }

    def __init__(
        self,
        cfg: Mapping[str, Any],
        commander: BaseCommander | None = None,
        hub: WorkerHub | None = None,
        data_plane: DataPlane | None = None,
        journal: Journal | None = None,
        clock: Callable[[], float] = time.monotonic,
        shards: Connect | None = None,
        evaluated: Callable[[Mapping[str, Any]], None] = lambda evaluation: None,
    ) -> None:
        self._cfg = cfg
        self._coordinator_cfg = {**self.default_config(), **cfg["system"]["coordinator"]}
        own = self._coordinator_cfg
        self._exp_name = cfg["main"].get("exp_name", "default_experiment")
        self._coordinator_uid = get_task_uid()
        self._logger: logging.Logger = build_logger(f"{self._exp_name}/log", "coordinator", need_tb=False)[0] or log
        import_module(cfg["main"]["policy"]["other"]["commander"].get("import_names", []))
        if commander is None:
            commander = create_parallel_commander(EasyDict({"seed": cfg.get("seed", 0), **cfg["main"]}))
        self._journal = journal or Journal(own["journal"] or ":memory:")
        collect = cfg["main"]["policy"].get("collect", {}).get("collector", {})
        self._command = Command(commander, self._journal, int(collect.get("collector_num", 1)))
        self._ledger = TaskLedger(
            self._journal,
            lease_s=float(own["lease_s"]),
            queue_s={"collector": float(own["collector_task_timeout"]), "learner": float(own["learner_task_timeout"])},
            max_failures=int(own["max_task_failures"]),
            clock=clock,
        )
        if data_plane is None and own["path_data"]:
            data_plane = open_planes(own["planes"], own["path_data"], "").data()
        quota = WorkerQuota.of_config(own["max_worker_bytes"], own["path_data"])
        self._buffers = BufferManager(self._journal, self._ledger, data_plane, self._exp_name, quota, shards)
        self._interaction = CommCoordinator(own, self, self._logger, self._ledger, hub)
        self._dispatcher = Dispatcher(
            self._command, self._ledger, self._buffers, self._interaction, self.info, self.error, self.broken
        )
        self._evaluated = evaluated
        self._closed = False
        self._error: Exception | None = None

    def start(self) -> None:
        """Restore the state of the journal, connect to the workers, and assign tasks.

        Raises:
            WorkersMissing: Configured workers cannot be reached.
            JournalError: The journal is damaged.
        """
        self._restore()
        self._interaction.start()
        self._dispatcher.start()
        self.info("the coordinator runs")

    def close(self) -> None:
        """End all tasks, close all buffers, and stop listening, within about 10 s. May be called repeatedly."""
        if self._closed:
            return
        self._closed = True
        self._journal.stop_waiting()
        self._dispatcher.close()
        try:
            self._buffers.snapshot()
            self._ledger.save_counters()
        except JournalError as error:
            self.error(f"the newest priorities are not written down: {error}")
        self._interaction.close()
        self._buffers.close()
        self._journal.close()
        self._command.commander.close()
        self.info("the coordinator is closed")

    def drop_worker(self, name: str, role: str, reason: str) -> None:
        """Report that a worker has ended for good: its task returns to the queue without waiting for the lease."""
        self._interaction.drop_worker(name, role, reason)

    def __del__(self) -> None:
        if "_closed" in self.__dict__:  # else the constructor failed
            self.close()

    def _restore(self) -> None:
        state = self._journal.load()
        if state.empty:
            return
        self._ledger.restore(state)
        self._buffers.restore(state)
        live = [record for record in state.tasks if not record.phase.final]
        # The previous coordinator was killed between ending a learner's task and closing its buffer.
        for buffer_id in set(state.buffers) - {one.body["buffer_id"] for one in live if one.kind == "learner"}:
            self._buffers.shut(buffer_id)
        for record in live:
            self._dispatcher.enter(record.task_id)
        self._command.restore(state, live)
        self.info(f"goes on with {len(live)} tasks and {len(state.chunks)} chunks of an earlier coordinator")

    def workers_changed(self) -> None:
        """Wake the dispatcher after a change of workers or tasks."""
        self._dispatcher.wake()

    def broken(self, error: Exception) -> None:
        """Stop the run because of an error that no worker can repair."""
        log.error("the run is stopped: %s", error, exc_info=not isinstance(error, TaskGaveUp))
        self.error(f"the run is stopped: {error}")
        self._error = error
        self._command.over = True

    # ------------------------------------------------------------------ reports of collectors

    def deal_with_collector_send_data(self, task_id: str, buffer_id: str, data_id: str, data: dict[str, Any]) -> None:
        """Take one meta dict (classic form). For an unknown task or buffer it is logged and dropped."""
        if task_id not in self._dispatcher.open or not self._buffers.push(buffer_id, data):
            self.error(f"data {data_id} is for task {task_id} and buffer {buffer_id}, which are not both open; dropped")

    def deal_with_collector_judge_finish(self, task_id: str, data: dict[str, Any]) -> bool:
        """Return whether a collector is done; False for an unknown task."""
        if task_id not in self._dispatcher.open:
            self.error(f"a collector reports for task {task_id}, which is not open")
            return False
        with self._command.lock:
            return bool(self._command.commander.judge_collector_finish(task_id, data))

    def deal_with_collector_finish_task(self, task_id: str, finished_task: dict[str, Any]) -> None:
        """Record the end of a collector's task."""
        if not self._leave(task_id):
            return
        with self._command.lock:
            converged = bool(self._command.commander.finish_collector_task(task_id, finished_task))
            if finished_task.get("eval_flag"):
                # Before the commander creates the next evaluation, and before the run ends.
                self._evaluated(self._command.commander.status().get("last_evaluation") or {})
            self._command.over = self._command.over or converged
            self._command.save()
        if converged:
            self.info("the stop value is reached")
        self.workers_changed()

    def deal_with_increase_collector(self) -> None:
        """Add one collector to the configured number."""
        with self._command.lock:
            self._command.commander.increase_collector_task_space()
        self.workers_changed()

    def deal_with_decrease_collector(self) -> None:
        """Remove one collector from the configured number."""
        with self._command.lock:
            self._command.commander.decrease_collector_task_space()

    def scale(self, collectors: int) -> dict[str, int]:
        """Set the number of collectors and adapt the number of concurrent tasks. The number persists across restarts.

        The process that starts collectors reads the number from the status.

        Returns:
            ``{'before', 'collectors'}``.
        """
        with self._command.lock:
            before = self._command.collectors
            self._command.scale(collectors)
            self._command.save()
        self.info(f"{collectors} collectors are wanted, {before} were")
        self.workers_changed()
        return {"before": before, "collectors": collectors}

    # ------------------------------------------------------------------ reports of learners

    def _check_task(self, task_id: str) -> None:
        if task_id not in self._dispatcher.open:
            raise RuntimeError(f"a learner speaks of task {task_id!r}, which is not open")

    def deal_with_learner_get_data(
        self, task_id: str, buffer_id: str, batch_size: int, cur_learner_iter: int
    ) -> list[Any] | None:
        """Return a batch as a list of meta dicts (classic form), or ``None`` if there are too few.

        Raises:
            RuntimeError: The task is unknown.
        """
        self._check_task(task_id)
        buffer = self._buffers.buffers.get(buffer_id)
        if buffer is None:
            self.error(f"a learner asks for data of buffer {buffer_id}, which is not open")
            return None
        sampled = buffer.sample(batch_size, cur_learner_iter)
        return None if sampled is None else list(sampled)

    def deal_with_learner_send_info(self, task_id: str, buffer_id: str, info: dict[str, Any]) -> None:
        """Process the info of a train iteration: priorities go to the buffer, the rest to the commander.

        Raises:
            RuntimeError: The task is unknown.
        """
        self._check_task(task_id)
        buffer = self._buffers.buffers.get(buffer_id)
        if buffer is not None and info.get("priority_info"):
            buffer.update(info["priority_info"])
        if info.get("learner_done"):
            return
        self._command.learner_step = int(info.get("learner_step", self._command.learner_step))
        with self._command.lock:
            if self._command.commander.update_learner_info(task_id, info):
                self._command.save()

    def deal_with_learner_judge_finish(self, task_id: str, info: dict[str, Any]) -> bool:
        """Return whether a learner is done.

        Raises:
            RuntimeError: The task is unknown.
        """
        self._check_task(task_id)
        with self._command.lock:
            return bool(self._command.commander.judge_learner_finish(task_id, info))

    def deal_with_learner_finish_task(self, task_id: str, finished_task: dict[str, Any]) -> None:
        """Record the end of a learner's task, and close the buffer that the commander names."""
        if not self._leave(task_id):
            return
        with self._command.lock:
            buffer_id = self._command.commander.finish_learner_task(task_id, finished_task)
            self._command.save()
            if buffer_id is not None:
                self._buffers.shut(buffer_id)
        self.workers_changed()

    def deal_with_policy_version(self, task: Mapping[str, Any], version: int) -> None:
        """Record a published policy version."""
        self._command.policy_versions[task["policy_id"]] = version

    def newest_policy(self, task: Mapping[str, Any]) -> dict[str, int]:
        """Return the newest versions of the policies that a collector plays."""
        paths = (task.get("collector_cfg") or {}).get("policy_update_path") or []
        paths = [paths] if isinstance(paths, str) else paths
        return {path: self._command.policy_versions[path] for path in paths if path in self._command.policy_versions}

    def _leave(self, task_id: str) -> bool:
        """Remove a finished task; return False if it is not open."""
        known = self._dispatcher.open.pop(task_id, None) is not None
        if not known:
            self.error(f"task {task_id} was reported as finished, but is not open")
        return known

    # ------------------------------------------------------------------ reports

    @property
    def system_shutdown_flag(self) -> bool:
        """Whether the run has ended: converged, or failed (see :attr:`exception`)."""
        return self._command.over

    @property
    def exception(self) -> Exception | None:
        """Error that ended the run; its text includes the traceback of the worker."""
        return self._error

    @property
    def buffers(self) -> BufferManager:
        """Replay buffers."""
        return self._buffers

    @property
    def open_tasks(self) -> list[str]:
        """Ids of the open tasks."""
        return list(self._dispatcher.open)

    def status(self) -> dict[str, Any]:
        """Return a JSON-serialisable snapshot of workers, tasks, buffers and counters."""
        buffers = self._buffers.status()
        return {
            "exp_name": self._exp_name,
            "shutdown": self._command.over,
            "error": None if self._error is None else str(self._error),
            "workers": self._interaction.workers(),
            "tasks": {**vars(self._ledger.counters), "now": self._ledger.phases()},
            "buffers": buffers,
            "duplicates": buffers.get("duplicates", 0),
            **self._command.status(),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return an empty dict: persistent state is stored in the journal."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Do nothing, see :meth:`state_dict`."""

    def info(self, s: str) -> None:
        """Log a line."""
        self._logger.info("[Coordinator(%s)]: %s", self._coordinator_uid, s)

    def error(self, s: str) -> None:
        """Log an error."""
        self._logger.error("[Coordinator(%s)]: %s", self._coordinator_uid, s)
