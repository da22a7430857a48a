"""Base class of comm collectors, which connect a parallel collector with the rest of a run."""

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
    """Receives tasks from a coordinator, runs a parallel collector for each, and forwards the collected data.

    Args:
        cfg: Config of the subclass. ``env``: env settings of this collector, merged over those of its tasks except
            evaluations; its ``seed`` and the number of the task seed the envs.
    """

    def __init__(self, cfg: EasyDict) -> None:
        self._cfg = cfg
        self._end_flag = True
        self._collector_uid = get_task_uid()
        self._tasks_begun = 0
        # Collector of a finished task, with its policy and envs.
        self._idle: BaseParallelCollector | None = None

    @property
    def collector_uid(self) -> str:
        """Unique name of the collector."""
        return self._collector_uid

    @abstractmethod
    def get_policy_update_info(self, path: str) -> dict[str, Any] | None:
        """Return the newest version of the policy ``path``, a state dict with the key ``iter``, or ``None``."""

    @abstractmethod
    def send_metadata(self, metadata: dict[str, Any]) -> None:
        """Report a stored chunk, or the progress, to the coordinator."""

    @abstractmethod
    def send_stepdata(self, stepdata: object) -> None:
        """Store a chunk of training samples."""

    def start(self) -> None:
        """Start accepting tasks."""
        self._end_flag = False

    def close(self) -> None:
        """End the current task and accept no more."""
        self._end_flag = True

    def _keep(self, collector: BaseParallelCollector | None) -> None:
        """Keep a collector for the next task if it is reusable, otherwise close it; close the one kept before."""
        idle, self._idle = self._idle, collector if collector is not None and collector.reusable else None
        for unused in (idle, collector):
            if unused is not None and unused is not self._idle:
                unused.close()

    def _create_collector(self, task_info: dict[str, Any]) -> BaseParallelCollector:
        """Create the collector of a task, with the three functions of the comm layer set on it.

        Raises:
            KeyError: The task has no ``collector_cfg``, or its ``type`` is not registered.
            ValueError: The task requests imports of modules that this process does not allow.
        """
        if "collector_cfg" not in task_info:
            raise KeyError(f"a collector task needs 'collector_cfg'; it has {sorted(map(str, task_info))}")
        for name in import_names_of(task_info["collector_cfg"]):
            _check_known(name)
        # One log for all tasks, as there may be thousands of them.
        cfg = EasyDict({**task_info["collector_cfg"], "collector_uid": self._collector_uid})
        if self._cfg.get("env") and "env" in cfg and not cfg.get("eval_flag"):
            cfg.env = with_own_env(cfg.env, self._cfg.env, self._tasks_begun)
            # Skip evaluations: their assignment to collectors depends on timing.
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
    """Allow imports of this library and of modules that this process has imported from its own config, nothing else."""
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
