"""Base class of the parallel commanders, which create tasks, and :class:`NaiveCommander` for tests."""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar

from ding.utils import COMMANDER_REGISTRY, Configurable, LimitedSpaceContainer

__all__ = ["BaseCommander", "NaiveCommander", "create_parallel_commander", "get_parallel_commander_cls"]


class BaseCommander(Configurable):
    """Interface between a coordinator and its commander. The coordinator calls one method at a time.

    Args:
        cfg: Main config; the commander reads ``policy.other.commander``.
    """

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        self._cfg = cfg
        own = {**self.default_config(), **cfg["policy"]["other"]["commander"]}
        self._commander_cfg = own
        self._collector_task_space = LimitedSpaceContainer(0, int(own.get("collector_task_space", 1)))
        self._learner_task_space = LimitedSpaceContainer(0, int(own.get("learner_task_space", 1)))

    @property
    def open_tasks(self) -> dict[str, int]:
        """Number of open tasks by kind (``collector``, ``learner``)."""
        return {"collector": self._collector_task_space.cur, "learner": self._learner_task_space.cur}

    @property
    def max_tasks(self) -> dict[str, int]:
        """Maximum number of open tasks by kind."""
        return {"collector": self._collector_task_space.max_val, "learner": self._learner_task_space.max_val}

    @abstractmethod
    def get_collector_task(self) -> dict[str, Any] | None:
        """Return the next collector (or evaluator) task, or ``None`` if there is none at present."""

    @abstractmethod
    def get_learner_task(self) -> dict[str, Any] | None:
        """Return the next learner task, or ``None`` if there is none at present."""

    def judge_collector_finish(self, task_id: str, info: Mapping[str, Any]) -> bool:
        """Return whether a collector that reports ``info`` is done."""
        return bool(info.get("collector_done", False))

    def judge_learner_finish(self, task_id: str, info: Mapping[str, Any]) -> bool:
        """Return whether a learner that reports ``info`` is done."""
        return bool(info.get("learner_done", False))

    def finish_collector_task(self, task_id: str, finished_task: dict[str, Any]) -> bool:
        """Record the end of a collector task; True ends the run."""
        self._collector_task_space.release_space()
        return False

    def finish_learner_task(self, task_id: str, finished_task: dict[str, Any]) -> str | None:
        """Record the end of a learner task; return the id of the buffer to close."""
        self._learner_task_space.release_space()
        return finished_task.get("buffer_id")

    def notify_fail_collector_task(self, task: Mapping[str, Any]) -> None:
        """Record that a collector task was dropped."""
        self._collector_task_space.release_space()

    def notify_fail_learner_task(self, task: Mapping[str, Any]) -> None:
        """Record that a learner task was dropped."""
        self._learner_task_space.release_space()

    def update_learner_info(self, task_id: str, info: dict[str, Any]) -> bool | None:
        """Record the info of a train iteration; return True if :meth:`state_dict` must be saved at once."""

    def increase_collector_task_space(self) -> None:
        """Allow one more concurrent collector task."""
        self._collector_task_space.increase_space()

    def decrease_collector_task_space(self) -> None:
        """Allow one concurrent collector task less."""
        self._collector_task_space.decrease_space()

    # ------------------------------------------------------------------ restart

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a commander needs after a restart of the coordinator, as JSON values."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any], collectors: int = 0, learners: int = 0) -> None:
        """Continue from the state of an earlier commander.

        Args:
            state: Its ``state_dict``.
            collectors, learners: Number of open tasks.
        """
        self._collector_task_space.cur = collectors
        self._learner_task_space.cur = learners

    def status(self) -> dict[str, Any]:
        """Return a summary for displays of the run."""
        return {}

    def close(self) -> None:
        """End the run; no further tasks are created."""


@COMMANDER_REGISTRY.register("naive")
class NaiveCommander(BaseCommander):
    """Commander for tests, with numbered tasks of fixed content."""

    config: ClassVar[dict[str, Any]] = {
        # (int) Number of concurrent tasks of each kind.
        "collector_task_space": 1,
        "learner_task_space": 1,
        # (float) Seconds between evaluations; not used.
        "eval_interval": 60,
    }

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        super().__init__(cfg)
        self._collector_task_count = 0
        self._learner_task_count = 0
        self.finished_tasks: list[str] = []
        self.learner_info: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)

    def get_collector_task(self) -> dict[str, Any] | None:
        if not self._collector_task_space.acquire_space():
            return None
        self._collector_task_count += 1
        collector_cfg = {
            **self._cfg["policy"].get("collect", {}).get("collector", {}),
            "collect_setting": {"eps": 0.9},
            "eval_flag": False,
            "policy": self._cfg["policy"],
            "policy_update_path": "test.pth",
            "env": self._cfg.get("env", {}),
            "exp_name": self._cfg.get("exp_name", "default_experiment"),
        }
        return {
            "task_id": f"collector_task_id{self._collector_task_count}",
            "buffer_id": "test",
            "collector_cfg": collector_cfg,
        }

    def get_learner_task(self) -> dict[str, Any] | None:
        if not self._learner_task_space.acquire_space():
            return None
        self._learner_task_count += 1
        learner_cfg = {
            **self._cfg["policy"].get("learn", {}).get("learner", {}),
            "exp_name": self._cfg.get("exp_name", "default_experiment"),
        }
        return {
            "task_id": f"learner_task_id{self._learner_task_count}",
            "policy_id": "test.pth",
            "buffer_id": "test",
            "learner_cfg": learner_cfg,
            "replay_buffer_cfg": dict(self._cfg["policy"].get("other", {}).get("replay_buffer", {})),
            "policy": self._cfg["policy"],
        }

    def finish_collector_task(self, task_id: str, finished_task: dict[str, Any]) -> bool:
        super().finish_collector_task(task_id, finished_task)
        self.finished_tasks.append(task_id)
        return False

    def finish_learner_task(self, task_id: str, finished_task: dict[str, Any]) -> str | None:
        self.finished_tasks.append(task_id)
        return super().finish_learner_task(task_id, finished_task)

    def update_learner_info(self, task_id: str, info: dict[str, Any]) -> None:
        self.learner_info[task_id].append(info)


def create_parallel_commander(cfg: Mapping[str, Any]) -> BaseCommander:
    """Create the commander of ``cfg.policy.other.commander.type`` with the whole main config.

    Raises:
        KeyError: The type is missing or not registered; the message names the closest one.
    """
    return get_parallel_commander_cls(cfg["policy"]["other"]["commander"])(cfg)


def get_parallel_commander_cls(cfg: Mapping[str, Any]) -> type[BaseCommander]:
    """Return the commander class of ``cfg.type``; raises like :func:`create_parallel_commander`."""
    return COMMANDER_REGISTRY.class_of(cfg)
