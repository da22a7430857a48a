"""A collector that collects nothing, for tests of a coordinator."""

import os
import threading
from collections.abc import Mapping
from typing import Any

from ding.interaction import Slave, TaskFail
from ding.utils.file_helper import save_file

_DATA_TASKS = 19


class NaiveCollector(Slave):
    """A slave that answers the tasks of a coordinator as a collector would.

    The first 19 data tasks give one transition each, in the file ``./<prefix>_<task id>_<number>``; the 20th says that
    the collector is done. There is nothing to close: ``collector_close_task`` is an unknown task.

    Args:
        prefix: begins the names of the files.
    """

    def __init__(self, *args: Any, prefix: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._prefix = prefix
        self._task_info: dict[str, Any] = {}
        self._count = 0
        self._lock = threading.Lock()

    def _process_task(self, task: Mapping[str, Any]) -> Any:
        """Do a task; raises :class:`TaskFail` for an unknown one."""
        name = task["name"]
        if name == "resource":
            return {"cpu": "20", "gpu": "1"}
        if name == "collector_start_task":
            with self._lock:
                self._task_info = dict(task["task_info"])
                self._count = 0
            return {"message": "collector task has started"}
        if name == "collector_data_task":
            with self._lock:
                self._count += 1
                return self._data(self._count)
        raise TaskFail(result={"message": "task name error"}, message=f"illegal collector task <{name}>")

    def _data(self, number: int) -> dict[str, Any]:
        """The answer to the data task of this number, in the original form and in that of references."""
        ids = {"task_id": self._task_info["task_id"], "buffer_id": self._task_info["buffer_id"]}
        if number > _DATA_TASKS:
            info = {"collector_done": True, "cur_episode": 1, "cur_step": 314, "cur_sample": 314}
            return {**ids, **info, "seq": _DATA_TASKS, "refs": [], "info": info}
        data_id = f"{self._prefix}_{ids['task_id']}_{number}"
        save_file(f"./{data_id}", self._get_timestep())
        ref = {"seq": number, "chunk": data_id, "rows": 1, "bytes": os.path.getsize(data_id), "data_id": data_id}
        ref = {**ref, **ids, "policy_iter": 0, "collect_iter": 0, "unroll_split_begin": 0}
        return {**ids, "data_id": data_id, "unroll_split_begin": 0, "seq": number, "refs": [ref], "info": None}

    def _get_timestep(self) -> list[dict[str, Any]]:
        """One transition."""
        return [{"obs": [0.0] * 4, "next_obs": [0.0] * 4, "action": [0], "reward": [0.0], "done": False}]
