"""The comm collector of the original API: tasks over HTTP, data and policies through folders."""

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from easydict import EasyDict

from ding.data.exchange import DataPlane, FileDataPlane, FileWeightPlane, WeightPlane
from ding.interaction import Slave, TaskFail, TlsConfig
from ding.utils import COMM_COLLECTOR_REGISTRY
from ding.worker.collector.comm._outbox import failure_report
from ding.worker.collector.comm._plane_collector import PLANE_CONFIG, PlaneCollector
from ding.worker.collector.comm._policy_source import PolicySource

_MAX_WAIT_S = 60.0


class CollectorSlave(Slave):
    """Passes the tasks of a coordinator on to a comm collector.

    ======================== ============================================ ==========================================
    ``task['name']``         further keys                                 result
    ======================== ============================================ ==========================================
    ``resource``                                                          what the collector offers
    ``collector_start_task`` ``task_info``                                a message
    ``collector_data_task``  ``ack``, ``max_wait_s``, ``newest_policy``   ``seq``, ``refs``, ``info``, ``blocked``,
                             (all optional)                               ``buffer_id``, ``task_id``
    ``collector_close_task`` ``ack`` (optional)                           finish info, ``seq``, ``refs``, ``task_id``
    ======================== ============================================ ==========================================

    The last two may name the task under ``task_id``: they fail when it is not the one that runs. A task that is
    closed again answers as the first time.

    Args:
        callback_fn: the functions ``deal_with_resource``, ``deal_with_collector_start``, ``deal_with_collector_data``
            and ``deal_with_collector_close``.
    """

    def __init__(self, *args: Any, callback_fn: Mapping[str, Callable], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._callback_fn = callback_fn
        self._current_task_info: dict[str, Any] = {}
        self._last_close: tuple[Any, dict[str, Any]] = (None, {})
        self._tasks: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "resource": self._resource,
            "collector_start_task": self._start_task,
            "collector_data_task": self._data_task,
            "collector_close_task": self._close_task,
        }

    def _process_task(self, task: Mapping[str, Any]) -> Any:
        """Do a task.

        Raises:
            TaskFail: the task is unknown, or its collector failed; the result then holds type, message and traceback.
        """
        name = task.get("name") if isinstance(task, Mapping) else None
        process = self._tasks.get(name) if isinstance(name, str) else None
        if process is None:
            shown = repr(name)[:60]
            raise TaskFail(result={"message": "task name error"}, message=f"illegal collector task {shown}")
        try:
            return process(task)
        except TaskFail:
            raise
        except BaseException as error:  # SystemExit in an env too: the coordinator must hear of it
            result = {**failure_report(error), **self._ids(), "incarnation": self.incarnation}
            raise TaskFail(result=result, message=f"{type(error).__name__}: {error}") from error

    def _ids(self) -> dict[str, Any]:
        return {key: self._current_task_info.get(key) for key in ("task_id", "buffer_id")}

    def _resource(self, task: Mapping[str, Any]) -> dict[str, Any]:
        return self._callback_fn["deal_with_resource"]()

    def _start_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        info = task.get("task_info")
        if not isinstance(info, dict):
            raise TaskFail(result={"message": "task_info is missing"}, message="collector_start_task needs task_info")
        self._callback_fn["deal_with_collector_start"](info)
        self._current_task_info = dict(info)
        return {"message": "collector task has started"}

    def _data_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        self._require(task)
        options = {key: task[key] for key in ("ack", "max_wait_s", "newest_policy") if task.get(key) is not None}
        ack, max_wait_s = options.get("ack", 0), options.get("max_wait_s", 0.0)
        if type(ack) is not int or not isinstance(max_wait_s, (int, float)) or not 0 <= max_wait_s <= _MAX_WAIT_S:
            message = f"collector_data_task: ack must be an int, max_wait_s 0 to {_MAX_WAIT_S:.0f} seconds"
            raise TaskFail(result={"message": message}, message=message)
        result = self._callback_fn["deal_with_collector_data"](**options)
        return {**result, **self._ids(), "incarnation": self.incarnation}

    def _close_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        task_id, last = self._last_close
        if task_id is not None and task.get("task_id") == task_id and not self._current_task_info:
            return last
        self._require(task)
        ids = self._ids()
        ack = task.get("ack")
        result = self._callback_fn["deal_with_collector_close"](**({} if type(ack) is not int else {"ack": ack}))
        self._current_task_info = {}
        self._last_close = (ids["task_id"], {**result, **ids, "incarnation": self.incarnation})
        return self._last_close[1]

    def _require(self, task: Mapping[str, Any]) -> None:
        named, current = task.get("task_id"), self._current_task_info.get("task_id")
        if named is not None and named != current:
            message = f"task {str(named)[:120]!r} does not run here, but {current!r}"
            raise TaskFail(result={"message": message, **self._ids()}, message=message)


@COMM_COLLECTOR_REGISTRY.register("flask_fs")
class FlaskFileSystemCollector(PlaneCollector):
    """Tasks over HTTP, chunks and policies in folders.

    Args:
        cfg: see :attr:`config`; port 0 or ``'auto'`` is a free one.
    """

    config = {
        **PLANE_CONFIG,
        "host": None,
        "port": 0,
        "path_data": "./data",
        "path_policy": "./policy",
        # The coordinator's address, where this collector announces itself; None: it waits to be connected to.
        "coordinator_address": None,
        # The name under which it does; must be its own.
        "name": None,
        # The address at which the coordinator finds this collector; None: where it listens.
        "my_address": None,
        # None: from the environment.
        "run_token": None,
        "heartbeat_span": None,
        # Keyword arguments of TlsConfig.
        "tls": None,
    }

    def __init__(self, cfg: EasyDict) -> None:
        super().__init__(cfg)
        self._slave = self._make_slave(
            {
                "deal_with_resource": self.deal_with_resource,
                "deal_with_collector_start": self.deal_with_collector_start,
                "deal_with_collector_data": self.deal_with_collector_data,
                "deal_with_collector_close": self.deal_with_collector_close,
            }
        )

    def _make_data_plane(self) -> DataPlane:
        os.makedirs(self._cfg.path_policy, exist_ok=True)
        return FileDataPlane(self._cfg.path_data, max_bytes=self._cfg.max_data_bytes)

    def _make_weight_plane(self, policy_id: str) -> WeightPlane:
        return FileWeightPlane(self._cfg.path_policy, policy_id)

    def _make_policy_source(self) -> PolicySource:
        return PolicySource(self._cfg.path_policy, self._make_weight_plane)

    def _make_slave(self, callback_fn: dict[str, Callable], **kwargs: Any) -> CollectorSlave:
        cfg = self._cfg
        return CollectorSlave(
            cfg.host,
            cfg.port,
            cfg.heartbeat_span,
            callback_fn=callback_fn,
            run_token=cfg.run_token,
            my_address=cfg.my_address,
            tls=TlsConfig(**cfg.tls) if cfg.tls else None,
            # One that waits for data, and one that closes the task or asks for the resource meanwhile.
            max_tasks=2,
            **kwargs,
        )

    @property
    def slave(self) -> CollectorSlave:
        """The slave that gets the tasks; ``slave.my_address`` is where, once it has started."""
        return self._slave

    @property
    def incarnation(self) -> str:
        """The slave's incarnation."""
        return self._slave.incarnation

    def start(self) -> None:
        """Listen for tasks, and announce this collector when ``coordinator_address`` is set."""
        super().start()
        self._slave.start()
        if self._cfg.coordinator_address:
            name = self._cfg.name or f"collector_{self._collector_uid}"
            self._slave.enrol(self._cfg.coordinator_address, name, "collector", self.deal_with_resource())

    def close(self) -> None:
        """End the task, tell the coordinator that this collector leaves, and stop listening."""
        if self._end_flag:
            return
        super().close()
        self._slave.close()

    def __del__(self) -> None:
        # A constructor that failed early leaves nothing to close. The garbage collector may run in any thread, so
        # nothing is waited for when it is one of the own.
        if hasattr(self, "_slave") and threading.current_thread() is threading.main_thread():
            self.close()
