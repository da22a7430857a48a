"""A learner that learns nothing, for tests of a coordinator."""

import threading
from collections.abc import Mapping
from typing import Any

from ding.interaction import Slave, TaskFail
from ding.utils.file_helper import save_file

_INFOS_BEFORE_DONE = 5


class NaiveLearner(Slave):
    """A slave that answers the tasks of a coordinator as a learner would, one batch of 2 after the other.

    The first five infos hold priorities; from the sixth on they say that the learner is done, and the file
    ``./<prefix>_final_model.pth`` is there.

    Args:
        prefix: begins the name of the file.
    """

    def __init__(self, *args: Any, prefix: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._prefix = prefix
        self._task_info: dict[str, Any] = {}
        self._count = 0
        self._lock = threading.Lock()

    def _process_task(self, task: Mapping[str, Any]) -> Any:
        """Do a task; raises :class:`TaskFail` for an unknown one, or for ``learner_learn_task`` without data."""
        name = task["name"]
        if name == "resource":
            return {"cpu": "20", "gpu": "1"}
        with self._lock:
            if name == "learner_start_task":
                self._task_info = dict(task["task_info"])
                self._count = 0
                return {"message": "learner task has started"}
            ids = {key: self._task_info.get(key) for key in ("task_id", "buffer_id")}
            if name == "learner_get_data_task":
                return {**ids, "batch_size": 2, "cur_learner_iter": 1}
            if name == "learner_learn_task":
                if task.get("data") is None:
                    raise TaskFail(result={"message": "no data"}, message="learner_learn_task needs data")
                return {**ids, "info": self._learn(task["data"])}
            if name == "learner_close_task":
                self._task_info = {}
                return ids
        raise TaskFail(result={"message": "task name error"}, message=f"illegal learner task <{name}>")

    def _learn(self, data: list[dict[str, Any]]) -> dict[str, Any]:
        self._count += 1
        info: dict[str, Any] = {
            "learner_step": self._count,
            "priority_info": {
                "replay_unique_id": [meta["replay_unique_id"] for meta in data],
                "replay_buffer_idx": [meta["replay_buffer_idx"] for meta in data],
                "priority": [1.0 for _ in data],
            },
        }
        if self._count > _INFOS_BEFORE_DONE:
            info["learner_done"] = True
            save_file(f"./{self._prefix}_final_model.pth", {})
        return info
