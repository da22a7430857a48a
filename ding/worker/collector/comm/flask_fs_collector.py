"""The comm collector of the original API: tasks over HTTP, data and policies through folders."""

import os
from collections.abc import Mapping
from typing import Any

from easydict import EasyDict

from ding.data.exchange import DataPlane, FileDataPlane, FileWeightPlane, WeightPlane
from ding.interaction import TaskFail
from ding.utils import COMM_COLLECTOR_REGISTRY
from ding.worker._comm_slave import FLASK_CONFIG, CollectorCallbacks, SlaveOwner, TaskSlave
from ding.worker.collector.comm._outbox import failure_report
from ding.worker.collector.comm._plane_collector import PLANE_CONFIG, PlaneCollector
from ding.worker.collector.comm._policy_source import PolicySource


class CollectorSlave(TaskSlave[CollectorCallbacks]):
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
        callback_fn: a comm collector, or its functions ``deal_with_resource``, ``deal_with_collector_start``,
            ``deal_with_collector_data`` and ``deal_with_collector_close`` by name.
    """

    kind = "collector"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tasks["collector_data_task"] = self._data_task

    def _process_task(self, task: Mapping[str, Any]) -> Any:
        """Do a task.

        Raises:
            TaskFail: the task is unknown, or its collector failed; the result then holds type, message and traceback.
        """
        try:
            return super()._process_task(task)
        except TaskFail:
            raise
        except BaseException as error:  # SystemExit in an env too: the coordinator must hear of it
            result = {**failure_report(error), **self._ids(), "incarnation": self.incarnation}
            raise TaskFail(result=result, message=f"{type(error).__name__}: {error}") from error

    def _data_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        self._require(task)
        self._wait_and_ack(task, "ack")
        options = {key: task[key] for key in ("ack", "max_wait_s", "newest_policy") if task.get(key) is not None}
        result = self._callbacks.deal_with_collector_data(**options)
        return {**result, **self._ids(), "incarnation": self.incarnation}

    def _close_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        return {**super()._close_task(task), "incarnation": self.incarnation}

    def _start(self, task_info: dict[str, Any]) -> None:
        self._callbacks.deal_with_collector_start(task_info)

    def _close(self, task: Mapping[str, Any]) -> dict[str, Any]:
        options = {"ack": task["ack"]} if type(task.get("ack")) is int else {}
        return self._callbacks.deal_with_collector_close(**options)


@COMM_COLLECTOR_REGISTRY.register("flask_fs")
class FlaskFileSystemCollector(SlaveOwner[CollectorSlave], PlaneCollector):
    """Tasks over HTTP, chunks and policies in folders.

    Args:
        cfg: see :attr:`config`; port 0 or ``'auto'`` is a free one.
    """

    config = {**PLANE_CONFIG, **FLASK_CONFIG}
    _slave_type = CollectorSlave

    def __init__(self, cfg: EasyDict) -> None:
        super().__init__(cfg)
        self._slave = self._make_slave()

    def _make_data_plane(self) -> DataPlane:
        os.makedirs(self._cfg.path_policy, exist_ok=True)
        return FileDataPlane(self._cfg.path_data, self.incarnation, max_bytes=self._cfg.max_data_bytes)

    def _make_weight_plane(self, policy_id: str) -> WeightPlane:
        return FileWeightPlane(self._cfg.path_policy, policy_id)

    def _make_policy_source(self) -> PolicySource:
        return PolicySource(self._cfg.path_policy, self._make_weight_plane)

    def _make_slave(self, **kwargs: Any) -> CollectorSlave:
        return super()._make_slave(incarnation=self.incarnation, **kwargs)
