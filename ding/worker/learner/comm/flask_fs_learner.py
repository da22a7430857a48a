"""The comm learner of the original API: tasks over HTTP, data and policies through folders."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from easydict import EasyDict

from ding.data.exchange import DataPlane, FileDataPlane, FileWeightPlane, WeightPlane
from ding.interaction import Slave, TaskFail, TlsConfig
from ding.utils import COMM_LEARNER_REGISTRY
from ding.worker.learner.comm._comm_hooks import SendLearnInfoHook, SendPolicyHook
from ding.worker.learner.comm._plane_learner import PLANE_CONFIG, PlaneLearner

__all__ = ["FlaskFileSystemLearner", "LearnerSlave", "SendLearnInfoHook", "SendPolicyHook"]

_MAX_WAIT_S = 60.0


class LearnerSlave(Slave):
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
        callback_fn: the functions ``deal_with_resource``, ``deal_with_learner_start``, ``deal_with_get_data``,
            ``deal_with_learner_learn`` and ``deal_with_learner_close``.
    """

    def __init__(self, *args: Any, callback_fn: Mapping[str, Callable], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._callback_fn = callback_fn
        self._current_task_info: dict[str, Any] = {}
        self._last_end: dict[str, Any] = {}
        self._tasks: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "resource": lambda task: self._callback_fn["deal_with_resource"](),
            "learner_start_task": self._start_task,
            "learner_get_data_task": self._get_data_task,
            "learner_learn_task": self._learn_task,
            "learner_close_task": self._close_task,
        }

    def _process_task(self, task: Mapping[str, Any]) -> Any:
        """Do a task.

        Raises:
            TaskFail: the task is unknown or malformed.
            BaseException: what its learner failed with; the coordinator gets type, message and traceback.
        """
        name = task.get("name") if isinstance(task, Mapping) else None
        process = self._tasks.get(name) if isinstance(name, str) else None
        if process is None:
            shown = repr(name)[:60]
            raise TaskFail(result={"message": "task name error"}, message=f"illegal learner task {shown}")
        return process(task)

    def _ids(self) -> dict[str, Any]:
        return {key: self._current_task_info.get(key) for key in ("task_id", "buffer_id")}

    def _start_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        info = task.get("task_info")
        if not isinstance(info, dict):
            raise TaskFail(result={"message": "task_info is missing"}, message="learner_start_task needs task_info")
        self._callback_fn["deal_with_learner_start"](info)
        self._current_task_info = info
        return {"message": "learner task has started"}

    def _options(self, task: Mapping[str, Any]) -> dict[str, Any]:
        wait, ack = task.get("max_wait_s") or 0.0, task.get("info_ack") or 0
        if not isinstance(wait, (int, float)) or not 0 <= wait <= _MAX_WAIT_S or type(ack) is not int:
            message = f"{task['name']}: info_ack must be an int, max_wait_s 0 to {_MAX_WAIT_S:.0f} seconds"
            raise TaskFail(result={"message": message}, message=message)
        return {"max_wait_s": float(wait), "info_ack": ack}

    def _require(self, task: Mapping[str, Any]) -> None:
        """A message of a coordinator that thinks of another task must not reach this one."""
        asked, current = task.get("task_id"), self._current_task_info.get("task_id")
        if asked is not None and asked != current:
            message = f"{task['name']} is for task {str(asked)[:80]!r}, but {current!r} runs here"
            raise TaskFail(result={"message": message}, message=message)

    def _get_data_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        self._require(task)
        return {**self._callback_fn["deal_with_get_data"](**self._options(task)), **self._ids()}

    def _learn_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        batches = task.get("batches")
        if not isinstance(batches, list) or not all(isinstance(batch, dict) for batch in batches):
            raise TaskFail(result={"message": "batches are missing"}, message="learner_learn_task needs batches")
        self._require(task)
        return {**self._callback_fn["deal_with_learner_learn"](batches, **self._options(task)), **self._ids()}

    def _close_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        ids, asked = self._ids(), task.get("task_id")
        if asked is not None and self._last_end.get("task_id") == asked and asked != ids["task_id"]:
            return self._last_end  # asked again, because the answer was lost
        self._require(task)
        result = self._callback_fn["deal_with_learner_close"]()
        self._current_task_info = {}
        self._last_end = {**result, **ids}
        return self._last_end


@COMM_LEARNER_REGISTRY.register("flask_fs")
class FlaskFileSystemLearner(PlaneLearner):
    """Tasks over HTTP, chunks and policies in folders.

    Args:
        cfg: :attr:`config`. ``port`` may be a list with one entry per rank; one number is the port of rank 0, and the
            other ranks take those that follow.
    """

    config = {
        **PLANE_CONFIG,
        "host": None,
        # 0 or 'auto': a free one.
        "port": 0,
        "path_data": "./data",
        "path_policy": "./policy",
        # The coordinator's address, where this learner announces itself; None: it waits to be connected to.
        "coordinator_address": None,
        # The name under which it does; must be its own.
        "name": None,
        # The address at which the coordinator finds this learner; None: where it listens.
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
                "deal_with_learner_start": self.deal_with_learner_start,
                "deal_with_get_data": self.deal_with_get_data,
                "deal_with_learner_learn": self.deal_with_learner_learn,
                "deal_with_learner_close": self.deal_with_learner_close,
            }
        )

    def _make_data_plane(self) -> DataPlane:
        return FileDataPlane(self._cfg.path_data)

    def _make_weight_plane(self, policy_id: str) -> WeightPlane:
        return FileWeightPlane(self._cfg.path_policy, policy_id)

    def _port(self) -> "int | str | None":
        port = self._cfg.port
        if isinstance(port, (list, tuple)):
            return port[self._rank]
        return port + self._rank if isinstance(port, int) and port and self._world_size > 1 else port

    def _make_slave(self, callback_fn: dict[str, Callable], **kwargs: Any) -> LearnerSlave:
        cfg = self._cfg
        return LearnerSlave(
            cfg.host,
            self._port(),
            cfg.heartbeat_span,
            callback_fn=callback_fn,
            run_token=cfg.run_token,
            my_address=cfg.my_address,
            tls=TlsConfig(**cfg.tls) if cfg.tls else None,
            # One that waits for news, and one that closes the task or asks for the resource meanwhile.
            max_tasks=2,
            **kwargs,
        )

    @property
    def slave(self) -> LearnerSlave:
        """The slave that gets the tasks; ``slave.my_address`` is where, once it has started."""
        return self._slave

    def start(self) -> None:
        """Listen for tasks, and announce this learner when ``coordinator_address`` is set."""
        super().start()
        self._slave.start()
        if self._cfg.coordinator_address:
            name = self._cfg.name or f"learner_{self._learner_uid}"
            self._slave.enrol(self._cfg.coordinator_address, name, "learner", self.deal_with_resource())

    def close(self) -> None:
        """End the task with a checkpoint, tell the coordinator that this learner leaves, and stop listening."""
        if self._end_flag:
            return
        super().close()
        self._slave.close()

    def __del__(self) -> None:
        # The garbage collector may run in any thread: nothing is waited for when it is one of the own.
        if hasattr(self, "_slave") and threading.current_thread() is threading.main_thread():
            self.close()
