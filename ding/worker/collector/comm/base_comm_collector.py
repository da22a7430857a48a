"""The comm collector: what connects a parallel collector with the rest of a run."""

import importlib.util
import sys
from abc import ABC, abstractmethod
from typing import Any

from easydict import EasyDict

from ding.config.per_collector import with_own_env
from ding.config.resolve import import_names_of
from ding.utils import COMM_COLLECTOR_REGISTRY, Configurable
from ding.utils.system_helper import get_task_uid
from ding.worker.collector.base_parallel_collector import BaseParallelCollector, create_parallel_collector


class BaseCommCollector(Configurable, ABC):
    """Gets tasks from a coordinator, runs a parallel collector for each, and passes on what it collects.

    Args:
        cfg: what the subclass needs. ``env``: what the envs of this collector have beside those of its tasks, except
            evaluations; its ``seed`` and the number of the task seed them.
    """

    def __init__(self, cfg: EasyDict) -> None:
        self._cfg = cfg
        self._end_flag = True
        self._collector_uid = get_task_uid()
        self._tasks_begun = 0
        # The collector of a task that is over, with its policy and its envs.
        self._idle: BaseParallelCollector | None = None

    @property
    def collector_uid(self) -> str:
        """A name that no other collector has."""
        return self._collector_uid

    @abstractmethod
    def get_policy_update_info(self, path: str) -> dict[str, Any] | None:
        """The newest version of the policy ``path``: a state dict with the key ``iter``, or ``None``."""

    @abstractmethod
    def send_metadata(self, metadata: dict[str, Any]) -> None:
        """Tell the coordinator of a chunk that was stored, or of the progress."""

    @abstractmethod
    def send_stepdata(self, stepdata: object) -> None:
        """Store a chunk of training samples."""

    def start(self) -> None:
        """Be ready for tasks."""
        self._end_flag = False

    def close(self) -> None:
        """End what runs, and take no more tasks."""
        self._end_flag = True

    def _keep(self, collector: BaseParallelCollector | None) -> None:
        """Keep a collector for the next task if it is reusable; any other, and the one kept before, is closed."""
        idle, self._idle = self._idle, collector if collector is not None and collector.reusable else None
        for unused in (idle, collector):
            if unused is not None and unused is not self._idle:
                unused.close()

    def _create_collector(self, task_info: dict[str, Any]) -> BaseParallelCollector:
        """The collector that a task asks for, with the three functions of the comm layer set on it.

        Raises:
            KeyError: the task has no ``collector_cfg``, or its ``type`` is not registered.
            ValueError: the task names modules to import that this process does not know.
        """
        if "collector_cfg" not in task_info:
            raise KeyError(f"a collector task needs 'collector_cfg'; it has {sorted(map(str, task_info))}")
        for name in import_names_of(task_info["collector_cfg"]):
            _check_known(name)
        # One log for all tasks: there may be thousands of them.
        cfg = EasyDict({**task_info["collector_cfg"], "collector_uid": self._collector_uid})
        if self._cfg.get("env") and "env" in cfg and not cfg.get("eval_flag"):
            cfg.env = with_own_env(cfg.env, self._cfg.env, self._tasks_begun)
            # Evaluations do not count: which collector gets them depends on timing.
            self._tasks_begun += 1
        if self._idle is not None and self._idle.take_next_task(cfg):
            collector, self._idle = self._idle, None
        else:
            self._keep(None)
            collector = create_parallel_collector(cfg)
        collector.send_metadata = self.send_metadata
        collector.send_stepdata = self.send_stepdata
        collector.get_policy_update_info = self.get_policy_update_info
        return collector


def create_comm_collector(cfg: EasyDict) -> BaseCommCollector:
    """Build the comm collector registered under ``cfg.type`` after importing ``cfg.import_names``.

    Raises:
        KeyError: ``cfg.type`` is missing or not registered; the message names the nearest type.
    """
    collector: BaseCommCollector = COMM_COLLECTOR_REGISTRY.create(cfg)
    return collector


def _check_known(name: object) -> None:
    """A task may name modules of this library and what the own config has imported; it never imports anything else."""
    if not isinstance(name, str):
        raise ValueError(f"import_names must list names of modules, found {type(name).__name__}")
    if name in sys.modules:
        return
    if (
        not name.startswith("ding.")
        or not name.replace(".", "_").isidentifier()
        or importlib.util.find_spec(name) is None
    ):
        raise ValueError(
            f"the task wants to import {name!r}; modules are not imported by order of a message. "
            "List it under import_names in the config of this process"
        )
