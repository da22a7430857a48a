"""Base class of comm learners, which connect a learner with the rest of a run."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from easydict import EasyDict

from ding.policy import create_policy
from ding.utils import COMM_LEARNER_REGISTRY, Configurable, EasyTimer, dist_finalize, get_task_uid
from ding.worker.learner.base_learner import BaseLearner, create_learner
from ding.worker.learner.comm.in_step import DEFAULT_GROUP_TIMEOUT_S, join_group
from ding.worker.learner.learner_hook import LearnerHook


class BaseCommLearner(Configurable, ABC):
    """Receives tasks from a coordinator, runs a learner for each, and publishes the results.

    Args:
        cfg: Config of the subclass, and ``multi_gpu`` (several processes train one policy, and wait at most
            ``group_timeout_s`` seconds for each other).

    Raises:
        GroupBroken: The other processes did not join.
    """

    def __init__(self, cfg: EasyDict) -> None:
        self._cfg = cfg
        self._learner_uid = get_task_uid()
        self._multi_gpu = bool(cfg.get("multi_gpu", False))
        timeout_s = float(cfg.get("group_timeout_s", DEFAULT_GROUP_TIMEOUT_S))
        self._rank, self._world_size = join_group(timeout_s) if self._multi_gpu else (0, 1)
        self._end_flag = True
        # For subclasses, as in DI-engine.
        self._timer = EasyTimer()
        # Reason why this process must end: it is out of step with the others that train the policy.
        self.group_error: BaseException | None = None
        # Called when ``group_error`` is set.
        self.on_broken: Callable[[], None] = lambda: None

    @property
    def learner_uid(self) -> str:
        """Unique name of the learner."""
        return self._learner_uid

    @abstractmethod
    def send_policy(self, state_dict: dict[str, Any]) -> None:
        """Publish a version of the policy: ``{'model': state dict, 'iter': train iteration}``."""

    @abstractmethod
    def get_data(self, batch_size: int) -> list[Any]:
        """Return a batch, as functions without arguments that each return one sample."""

    @abstractmethod
    def send_learn_info(self, learn_info: dict[str, Any]) -> None:
        """Report the info of a train iteration to the coordinator."""

    @property
    @abstractmethod
    def hooks4call(self) -> list[LearnerHook]:
        """Hooks that call :meth:`send_policy` and :meth:`send_learn_info`."""

    def start(self) -> None:
        """Start accepting tasks."""
        self._end_flag = False

    def close(self) -> None:
        """End the current task and accept no more."""
        if not self._end_flag and self._multi_gpu and self.group_error is None:
            dist_finalize()
        self._end_flag = True

    def _create_learner(self, task_info: dict[str, Any]) -> BaseLearner:
        """Return the learner of a task with its data loader; raises like :meth:`_new_learner`."""
        learner = self._new_learner(task_info)
        learner.setup_dataloader()
        return learner

    def _new_learner(self, task_info: dict[str, Any]) -> BaseLearner:
        """Return a learner with its policy and the functions of the comm layer.

        Raises:
            KeyError: The task has no ``learner_cfg`` or ``policy``, or names a type that is not registered.
        """
        missing = [key for key in ("learner_cfg", "policy") if key not in task_info]
        if missing:
            raise KeyError(f"a learner task needs {missing}; it has {sorted(map(str, task_info))}")
        cfg = EasyDict({"type": "base", **task_info["learner_cfg"]})
        learner: BaseLearner = create_learner(
            cfg, dist_info=(self._rank, self._world_size), exp_name=cfg.get("exp_name", "default_experiment")
        )
        for name in ("send_policy", "get_data", "send_learn_info"):
            setattr(learner, name, getattr(self, name))
        policy_cfg = EasyDict(task_info["policy"])
        if self._world_size > 1:
            policy_cfg.multi_gpu = True
        learner.policy = create_policy(policy_cfg, enable_field=["learn"]).learn_mode
        return learner


def create_comm_learner(cfg: EasyDict) -> BaseCommLearner:
    """Build the comm learner registered under ``cfg.type`` after importing ``cfg.import_names``.

    Raises:
        KeyError: ``cfg.type`` is missing or not registered; the message names the nearest type.
    """
    learner: BaseCommLearner = COMM_LEARNER_REGISTRY.create(cfg)
    return learner
