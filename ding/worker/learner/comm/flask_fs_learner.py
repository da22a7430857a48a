"""The comm learner of the original API: tasks over HTTP, data and policies through folders."""

from collections.abc import Mapping
from typing import Any

from easydict import EasyDict

from ding.data.exchange import DataPlane, FileDataPlane, FileWeightPlane, WeightPlane
from ding.interaction import TaskFail
from ding.utils import COMM_LEARNER_REGISTRY
from ding.worker._comm_slave import FLASK_CONFIG, LearnerCallbacks, SlaveOwner, TaskSlave
from ding.worker.learner.comm._comm_hooks import SendLearnInfoHook, SendPolicyHook
from ding.worker.learner.comm._plane_learner import PLANE_CONFIG, PlaneLearner

__all__ = ["FlaskFileSystemLearner", "LearnerSlave", "SendLearnInfoHook", "SendPolicyHook"]


class LearnerSlave(TaskSlave[LearnerCallbacks]):
    """Passes the tasks of a coordinator on to a comm learner.

    ========================= ============================================= ===========================================
    ``task['name']``          further keys                                  result
    ========================= ============================================= ===========================================
    ``resource``                                                            what the learner offers
    ``learner_start_task``    ``task_info``                                 a message
    ``learner_get_data_task`` ``max_wait_s``, ``info_ack`` (optional)       ``demand``, ``infos``, ``loaded``, ``done``,
                                                                            ..., ``task_id``, ``buffer_id``
    ``learner_learn_task``    ``batches``, ``max_wait_s``, ``info_ack``     the same
    ``learner_close_task``                                                  ``task_id``, ``buffer_id``, ...
    ========================= ============================================= ===========================================

    Args:
        callback_fn: a comm learner, or its functions ``deal_with_resource``, ``deal_with_learner_start``,
            ``deal_with_get_data``, ``deal_with_learner_learn`` and ``deal_with_learner_close`` by name.
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


@COMM_LEARNER_REGISTRY.register("flask_fs")
class FlaskFileSystemLearner(SlaveOwner[LearnerSlave], PlaneLearner):
    """Tasks over HTTP, chunks and policies in folders.

    Args:
        cfg: :attr:`config`. ``port`` may be a list with one entry per rank; one number is the port of rank 0, and the
            other ranks take those that follow.
    """

    config = {**PLANE_CONFIG, **FLASK_CONFIG}
    _slave_type = LearnerSlave

    def __init__(self, cfg: EasyDict) -> None:
        super().__init__(cfg)
        self._slave = self._make_slave()

    def _make_data_plane(self) -> DataPlane:
        return FileDataPlane(self._cfg.path_data)

    def _make_weight_plane(self, policy_id: str) -> WeightPlane:
        return FileWeightPlane(self._cfg.path_policy, policy_id)

    def _port(self) -> "int | str | None":
        port = self._cfg.port
        if isinstance(port, (list, tuple)):
            return port[self._rank]
        return port + self._rank if isinstance(port, int) and port and self._world_size > 1 else port
