"""Slaves of comm collectors and comm learners: they forward the tasks of a coordinator to their worker.

A coordinator starts a task with ``<kind>_start_task``, polls it, and ends it with ``<kind>_close_task``. Any of these
messages may arrive twice, or refer to another task than the current one.
"""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from easydict import EasyDict

from ding.interaction import Slave, TaskFail, TlsConfig
from ding.interaction.slave.action import failure_report

_MAX_WAIT_S = 60.0

SLAVE_CONFIG: dict[str, Any] = {
    "host": None,
    # Port to listen on; 0 or 'auto': a free port.
    "port": 0,
    # Address of the coordinator at which this worker enrols; None: wait for the coordinator to connect.
    "coordinator_address": None,
    # Name of this worker; must be unique.
    "name": None,
    # Address at which the coordinator reaches this worker; None: the address it listens on.
    "my_address": None,
    # None: read from the environment.
    "run_token": None,
    "heartbeat_span": None,
    # Keyword arguments of TlsConfig.
    "tls": None,
    # Network transport; None: that of the machine.
    "transport": None,
}


class WorkerCallbacks(Protocol):
    """Callbacks of a worker that its slave calls, possibly from any thread."""

    def deal_with_resource(self) -> dict[str, Any]:
        """Return the resources of the worker and the ``task_id`` of its current task."""


class CollectorCallbacks(WorkerCallbacks, Protocol):
    """Callbacks of a comm collector."""

    def deal_with_collector_start(self, task_info: dict[str, Any]) -> None:
        """Start a task."""

    def deal_with_collector_data(self) -> dict[str, Any]:
        """Return references to new chunks, and the progress.

        ``ack``, ``max_wait_s``, ``newest_policy`` and ``grant`` are passed only if the message contains them.
        """

    def deal_with_collector_close(self) -> dict[str, Any]:
        """End the task and return its summary. ``ack`` is passed only if the message contains it."""


class LearnerCallbacks(WorkerCallbacks, Protocol):
    """Callbacks of a comm learner."""

    def deal_with_learner_start(self, task_info: dict[str, Any]) -> None:
        """Start a task."""

    def deal_with_get_data(self, max_wait_s: float, info_ack: int) -> dict[str, Any]:
        """Return the demand for batches and the infos of the latest train iterations."""

    def deal_with_learner_learn(
        self, data: Sequence[dict[str, Any]], max_wait_s: float, info_ack: int
    ) -> dict[str, Any]:
        """Pass batches to the learner and return the same as :meth:`deal_with_get_data`."""

    def deal_with_learner_close(self) -> dict[str, Any]:
        """End the task."""


CallbacksT = TypeVar("CallbacksT", bound=WorkerCallbacks)


class TaskSlave(Slave, Generic[CallbacksT]):
    """Forwards the tasks of a coordinator to a worker and tracks the current task.

    Subclasses set ``kind``, fill ``_tasks``, and define how a task starts and closes.

    Args:
        callback_fn: The worker, or its ``deal_with_*`` functions by name.
    """

    kind: ClassVar[str]

    def __init__(self, *args: Any, callback_fn: CallbacksT | Mapping[str, Callable[..., Any]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._callbacks: CallbacksT = (
            cast("CallbacksT", SimpleNamespace(**callback_fn)) if isinstance(callback_fn, Mapping) else callback_fn
        )
        self._current_task_info: dict[str, Any] = {}
        self._last_close: dict[str, Any] = {}
        self._tasks: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "resource": lambda task: self._callbacks.deal_with_resource(),
            f"{self.kind}_start_task": self._start_task,
            f"{self.kind}_close_task": self._close_task,
        }

    def _start(self, task_info: dict[str, Any]) -> None:
        raise NotImplementedError

    def _close(self, task: Mapping[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _process_task(self, task: Mapping[str, Any]) -> object:
        """Process a task.

        Raises:
            TaskFail: The task is unknown or malformed.
            BaseException: The worker failed; the coordinator receives type, message and traceback.
        """
        name = task.get("name") if isinstance(task, Mapping) else None
        process = self._tasks.get(name) if isinstance(name, str) else None
        if process is None:
            text = f"illegal {self.kind} task {repr(name)[:60]}"
            raise TaskFail(result={"message": "task name error"}, message=text)
        return process(task)

    def _ids(self) -> dict[str, Any]:
        return {key: self._current_task_info.get(key) for key in ("task_id", "buffer_id")}

    def _start_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        info = task.get("task_info")
        if not isinstance(info, dict):
            text = f"{self.kind}_start_task needs task_info"
            raise TaskFail(result={"message": "task_info is missing"}, message=text)
        self._start(info)
        self._current_task_info = dict(info)
        return {"message": f"{self.kind} task has started"}

    def _close_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        ids, asked = self._ids(), task.get("task_id")
        if asked is not None and self._last_close.get("task_id") == asked and asked != ids["task_id"]:
            return self._last_close  # asked again, because the answer was lost
        self._require(task)
        result = self._close(task)
        self._current_task_info = {}
        self._last_close = {**result, **ids}
        return self._last_close

    def _require(self, task: Mapping[str, Any]) -> None:
        """Reject a message that refers to another task than the current one."""
        asked, current = task.get("task_id"), self._current_task_info.get("task_id")
        if asked is not None and asked != current:
            text = f"{task['name']}: task {str(asked)[:80]!r} does not run here, but {current!r}"
            raise TaskFail(result={"message": text, **self._ids()}, message=text)

    @staticmethod
    def _wait_and_ack(task: Mapping[str, Any], ack_key: str) -> tuple[float, int]:
        """Return ``max_wait_s`` and the acknowledged number of a message; 0 if missing."""
        wait, ack = task.get("max_wait_s") or 0.0, task.get(ack_key) or 0
        if not isinstance(wait, (int, float)) or not 0 <= wait <= _MAX_WAIT_S or type(ack) is not int:
            text = f"{task['name']}: {ack_key} must be an int, max_wait_s 0 to {_MAX_WAIT_S:.0f} seconds"
            raise TaskFail(result={"message": text}, message=text)
        return float(wait), ack


class CollectorSlave(TaskSlave[CollectorCallbacks]):
    """Forwards the tasks of a coordinator to a comm collector.

    ======================== ============================================ ==========================================
    ``task['name']``         further keys                                 result
    ======================== ============================================ ==========================================
    ``resource``                                                          resources of the collector
    ``collector_start_task`` ``task_info``                                a message
    ``collector_data_task``  ``ack``, ``max_wait_s``, ``newest_policy``,  ``seq``, ``refs``, ``info``, ``blocked``,
                             ``grant`` (all optional)                     ``buffer_id``, ``task_id``
    ``collector_close_task`` ``ack`` (optional)                           finish info, ``seq``, ``refs``, ``task_id``
    ======================== ============================================ ==========================================

    The last two may contain ``task_id`` and fail if it is not the current task. Closing a closed task again returns the
    first answer.

    Args:
        callback_fn: A comm collector, or its functions ``deal_with_resource``, ``deal_with_collector_start``,
            ``deal_with_collector_data`` and ``deal_with_collector_close`` by name.
    """

    kind = "collector"

    def __init__(
        self, *args: Any, callback_fn: CollectorCallbacks | Mapping[str, Callable[..., Any]], **kwargs: Any
    ) -> None:
        super().__init__(*args, callback_fn=callback_fn, **kwargs)
        self._tasks["collector_data_task"] = self._data_task

    def _process_task(self, task: Mapping[str, Any]) -> object:
        """Process a task.

        Raises:
            TaskFail: The task is unknown, or its collector failed; the result holds type, message and traceback.
        """
        try:
            return super()._process_task(task)
        except TaskFail:
            raise
        except BaseException as error:  # includes SystemExit in an env: report it to the coordinator
            result = {**failure_report(error), **self._ids(), "incarnation": self.incarnation}
            raise TaskFail(result=result, message=f"{type(error).__name__}: {error}") from error

    def _data_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        self._require(task)
        self._wait_and_ack(task, "ack")
        keys = ("ack", "max_wait_s", "newest_policy", "grant")
        options = {key: task[key] for key in keys if task.get(key) is not None}
        result = self._callbacks.deal_with_collector_data(**options)
        return {**result, **self._ids(), "incarnation": self.incarnation}

    def _close_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        return {**super()._close_task(task), "incarnation": self.incarnation}

    def _start(self, task_info: dict[str, Any]) -> None:
        self._callbacks.deal_with_collector_start(task_info)

    def _close(self, task: Mapping[str, Any]) -> dict[str, Any]:
        options = {"ack": task["ack"]} if type(task.get("ack")) is int else {}
        return self._callbacks.deal_with_collector_close(**options)


class LearnerSlave(TaskSlave[LearnerCallbacks]):
    """Forwards the tasks of a coordinator to a comm learner.

    ========================= ============================================= ===========================================
    ``task['name']``          further keys                                  result
    ========================= ============================================= ===========================================
    ``resource``                                                            resources of the learner
    ``learner_start_task``    ``task_info``                                 a message
    ``learner_get_data_task`` ``max_wait_s``, ``info_ack``, ``env_step``,   ``demand``, ``infos``, ``loaded``, ``done``,
                              ``statistics`` (all optional)                 ..., ``task_id``, ``buffer_id``
    ``learner_learn_task``    ``batches`` and the keys above                the same
    ``learner_close_task``                                                  ``task_id``, ``buffer_id``, ...
    ========================= ============================================= ===========================================

    Args:
        callback_fn: A comm learner, or its functions ``deal_with_resource``, ``deal_with_learner_start``,
            ``deal_with_get_data``, ``deal_with_learner_learn`` and ``deal_with_learner_close`` by name; optionally also
            ``note_env_step`` and ``note_statistics``.
    """

    kind = "learner"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tasks.update(learner_get_data_task=self._get_data_task, learner_learn_task=self._learn_task)

    def _start(self, task_info: dict[str, Any]) -> None:
        self._callbacks.deal_with_learner_start(task_info)

    def _close(self, task: Mapping[str, Any]) -> dict[str, Any]:
        return self._callbacks.deal_with_learner_close()

    def _options(self, task: Mapping[str, Any]) -> dict[str, Any]:
        env_step, note = task.get("env_step"), getattr(self._callbacks, "note_env_step", None)
        if type(env_step) is int and note is not None:
            note(env_step)
        statistics, note = task.get("statistics"), getattr(self._callbacks, "note_statistics", None)
        if isinstance(statistics, dict) and note is not None:
            note(statistics)
        wait_s, ack = self._wait_and_ack(task, "info_ack")
        return {"max_wait_s": wait_s, "info_ack": ack}

    def _get_data_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        self._require(task)
        return {**self._callbacks.deal_with_get_data(**self._options(task)), **self._ids()}

    def _learn_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        batches = task.get("batches")
        if not isinstance(batches, list) or not all(isinstance(batch, dict) for batch in batches):
            raise TaskFail(result={"message": "batches are missing"}, message="learner_learn_task needs batches")
        self._require(task)
        return {**self._callbacks.deal_with_learner_learn(batches, **self._options(task)), **self._ids()}


SlaveT = TypeVar("SlaveT", bound=TaskSlave[Any])


def make_slave(
    slave_type: type[SlaveT], worker: WorkerCallbacks, cfg: EasyDict, port: "int | str | None", **options: Any
) -> SlaveT:
    """Return the slave through which a comm worker receives its tasks.

    Args:
        slave_type: Class of the slave.
        worker: Worker that executes the tasks.
        cfg: Config of the worker, see :data:`SLAVE_CONFIG`.
        port: Port to listen on; 0 or ``'auto'``: a free port.
        options: Further arguments of ``slave_type``.
    """
    return slave_type(
        cfg.host,
        port,
        cfg.heartbeat_span,
        callback_fn=worker,
        run_token=cfg.run_token,
        my_address=cfg.my_address,
        tls=TlsConfig(**cfg.tls) if cfg.tls else None,
        transport=cfg.transport,
        # Two threads: one may block in a data request while the other closes the task or returns the resources.
        max_tasks=2,
        **options,
    )


def start_slave(slave: TaskSlave[Any], worker: WorkerCallbacks, cfg: EasyDict, uid: str) -> None:
    """Listen for tasks, and enrol at the coordinator if ``cfg.coordinator_address`` is set."""
    slave.start()
    if cfg.coordinator_address:
        name = cfg.name or f"{slave.kind}_{uid}"
        slave.enrol(cfg.coordinator_address, name, slave.kind, worker.deal_with_resource())
