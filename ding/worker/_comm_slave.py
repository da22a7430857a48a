"""What comm collectors and comm learners share: a slave that passes tasks on, and a worker that owns one.

A coordinator gives a worker one task, ``<kind>_start_task``, asks about it, and ends it with ``<kind>_close_task``. Any
of these messages may come twice, or from a coordinator that thinks of another task.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from ding.interaction import Slave, TaskFail, TlsConfig

_MAX_WAIT_S = 60.0

FLASK_CONFIG: dict[str, Any] = {
    "host": None,
    # 0 or 'auto': a free one.
    "port": 0,
    "path_data": "./data",
    "path_policy": "./policy",
    # The coordinator's address, where this worker announces itself; None: it waits to be connected to.
    "coordinator_address": None,
    # The name under which it does; must be its own.
    "name": None,
    # The address at which the coordinator finds this worker; None: where it listens.
    "my_address": None,
    # None: from the environment.
    "run_token": None,
    "heartbeat_span": None,
    # Keyword arguments of TlsConfig.
    "tls": None,
}


class WorkerCallbacks(Protocol):
    """What a slave asks of the worker that owns it. Each method may be called by any thread."""

    def deal_with_resource(self) -> dict[str, Any]:
        """Return what the worker offers, and the ``task_id`` of what it does."""


class CollectorCallbacks(WorkerCallbacks, Protocol):
    """What a slave asks of a comm collector."""

    def deal_with_collector_start(self, task_info: dict[str, Any]) -> None:
        """Begin a task."""

    def deal_with_collector_data(self) -> dict[str, Any]:
        """Return references to new chunks, and the progress.

        A keyword is passed only where the message has it: ``ack``, ``max_wait_s``, ``newest_policy``.
        """

    def deal_with_collector_close(self) -> dict[str, Any]:
        """End the task and return the finish info. ``ack`` is passed where the message has it."""


class LearnerCallbacks(WorkerCallbacks, Protocol):
    """What a slave asks of a comm learner."""

    def deal_with_learner_start(self, task_info: dict[str, Any]) -> None:
        """Begin a task."""

    def deal_with_get_data(self, max_wait_s: float, info_ack: int) -> dict[str, Any]:
        """Return the batches that are wanted, and what the last iterations brought."""

    def deal_with_learner_learn(
        self, batches: Sequence[dict[str, Any]], max_wait_s: float, info_ack: int
    ) -> dict[str, Any]:
        """Take batches; returns as :meth:`deal_with_get_data`."""

    def deal_with_learner_close(self) -> dict[str, Any]:
        """End the task."""


CallbacksT = TypeVar("CallbacksT", bound=WorkerCallbacks)


class TaskSlave(Slave, Generic[CallbacksT]):
    """Passes the tasks of a coordinator on to a worker, and knows which task is the current one.

    Subclasses set ``kind``, fill ``_tasks``, and say what starts and closes a task.

    Args:
        callback_fn: the worker, or its ``deal_with_*`` functions by name.
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

    def _process_task(self, task: Mapping[str, Any]) -> Any:
        """Do a task.

        Raises:
            TaskFail: the task is unknown or malformed.
            BaseException: what the worker failed with; the coordinator gets type, message and traceback.
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
        """A message of a coordinator that thinks of another task must not reach this one."""
        asked, current = task.get("task_id"), self._current_task_info.get("task_id")
        if asked is not None and asked != current:
            text = f"{task['name']}: task {str(asked)[:80]!r} does not run here, but {current!r}"
            raise TaskFail(result={"message": text, **self._ids()}, message=text)

    @staticmethod
    def _wait_and_ack(task: Mapping[str, Any], ack_key: str) -> tuple[float, int]:
        """``max_wait_s`` and the acknowledged number of a message; 0 where they are missing."""
        wait, ack = task.get("max_wait_s") or 0.0, task.get(ack_key) or 0
        if not isinstance(wait, (int, float)) or not 0 <= wait <= _MAX_WAIT_S or type(ack) is not int:
            text = f"{task['name']}: {ack_key} must be an int, max_wait_s 0 to {_MAX_WAIT_S:.0f} seconds"
            raise TaskFail(result={"message": text}, message=text)
        return float(wait), ack


SlaveT = TypeVar("SlaveT", bound=TaskSlave[Any])


class SlaveOwner(Generic[SlaveT]):
    """Mixin of a comm worker that gets its tasks through a slave of its own; comes before the worker's base.

    ``_slave_type`` says which. The constructor of the worker calls :meth:`_make_slave` at its end.
    """

    _slave_type: ClassVar[type[TaskSlave[Any]]]
    _slave: SlaveT
    _cfg: Any
    _end_flag: bool

    def _make_slave(self, **kwargs: Any) -> SlaveT:
        cfg = self._cfg
        slave: Any = self._slave_type(
            cfg.host,
            self._port(),
            cfg.heartbeat_span,
            callback_fn=self,
            run_token=cfg.run_token,
            my_address=cfg.my_address,
            tls=TlsConfig(**cfg.tls) if cfg.tls else None,
            # One that waits for news, and one that closes the task or asks for the resource meanwhile.
            max_tasks=2,
            **kwargs,
        )
        return slave

    def _port(self) -> Any:
        return self._cfg.port

    @property
    def slave(self) -> SlaveT:
        """The slave that gets the tasks; ``slave.my_address`` is where, once it has started."""
        return self._slave

    def start(self) -> None:
        """Listen for tasks, and announce this worker when ``coordinator_address`` is set."""
        worker: Any = super()
        worker.start()
        self._slave.start()
        if self._cfg.coordinator_address:
            kind = self._slave_type.kind
            name = self._cfg.name or f"{kind}_{getattr(self, f'{kind}_uid')}"
            self._slave.enrol(self._cfg.coordinator_address, name, kind, self.deal_with_resource())

    def deal_with_resource(self) -> dict[str, Any]:
        """What this worker offers; given by its base."""
        worker: Any = super()
        return worker.deal_with_resource()

    def close(self) -> None:
        """End the task, tell the coordinator that this worker leaves, and stop listening. May be called again."""
        if self._end_flag:
            return
        worker: Any = super()
        worker.close()
        self._slave.close()

    def __del__(self) -> None:
        # A constructor that failed early leaves nothing to close. The garbage collector may run in any thread, so
        # nothing is waited for when it is one of the own.
        if hasattr(self, "_slave") and threading.current_thread() is threading.main_thread():
            self.close()
