"""The frame of the collectors of the parallel mode: a loop over an env manager that sends what it collects."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from easydict import EasyDict

from ding.data.roles import ByEnv, CollectMode, EnvManager, EvalMode
from ding.rl_utils.normalization import Counted
from ding.rollout import VectorStep
from ding.utils import PARALLEL_COLLECTOR_REGISTRY, Configurable, build_logger
from ding.utils.nested import iter_nested
from ding.utils.system_helper import get_task_uid

Players = CollectMode | EvalMode | Sequence[CollectMode | EvalMode]

_LOG_INTERVAL_S = 10.0
_CLOSE_TIMEOUT_S = 10.0


class BaseParallelCollector(Configurable, ABC):
    """Steps an env manager with one or more policies until every environment has played its episodes.

    ``start`` runs the loop in the caller's thread and raises what env or policy raise; ``close`` may be called from any
    thread.

    Three functions are set on the instance by the comm layer before ``start``:

    * ``send_stepdata(data_id, batch)`` stores a :class:`~ding.data.TransitionBatch`;
    * ``send_metadata(metadata)`` reports it, or the collector's progress;
    * ``get_policy_update_info(path, newer_than=-1, timeout_s=0.0)`` returns a state dict with the key ``iter`` (a
      function of ``path`` alone will do).

    Args:
        cfg: config of the task: ``eval_flag``, ``exp_name``, ``print_freq``, optionally ``collector_uid`` (it names the
            log file, which the tasks of one process may share), and what the subclass reads.
    """

    send_metadata: Callable[[dict[str, Any]], None]
    send_stepdata: Callable[..., Any]
    get_policy_update_info: Callable[..., Any]
    #: Where observations and rewards are counted for the learner; set by the comm layer, too.
    counted: Counted | None = None

    def __init__(self, cfg: EasyDict) -> None:
        self._cfg = cfg
        self._eval_flag = bool(cfg.eval_flag)
        self._prefix = "EVALUATOR" if self._eval_flag else "COLLECTOR"
        self._collector_uid = str(cfg.get("collector_uid") or get_task_uid())
        self._logger = self._setup_logger()
        self._end = threading.Event()
        self._loop_over = threading.Event()
        self._loop_thread: threading.Thread | None = None
        self._close_lock = threading.Lock()
        self._closed = False
        self._policy: Any = None
        self._env_manager: Any = None
        self._setup_timer()

    def _setup_logger(self) -> logging.Logger:
        """Open the log file of the task."""
        logger, _ = build_logger(f"{self._cfg.exp_name}/log/{self._prefix.lower()}", self._collector_uid, need_tb=False)
        assert logger is not None
        return logger

    def _setup_timer(self) -> None:
        """Begin to measure what steps cost."""
        self._times = _StepTimes(self._cfg.get("print_freq", 5))

    # ------------------------------------------------------------------ logs

    def info(self, s: str) -> None:
        """Log a line."""
        self._logger.info("[%s(%s)]: %s", self._prefix, self._collector_uid, s)

    def debug(self, s: str) -> None:
        """Log a line that is for debugging."""
        self._logger.debug("[%s(%s)]: %s", self._prefix, self._collector_uid, s)

    def error(self, s: str) -> None:
        """Log an error."""
        self._logger.error("[%s(%s)]: %s", self._prefix, self._collector_uid, s)

    # ------------------------------------------------------------------ life

    @property
    def policy(self) -> Players:
        """The policy mode (a list of them for several players)."""
        made: Players = self._policy
        return made

    @policy.setter
    def policy(self, _policy: Players) -> None:
        self._policy = _policy

    @property
    def env_manager(self) -> EnvManager:
        """The env manager."""
        manager: EnvManager = self._env_manager
        return manager

    @env_manager.setter
    def env_manager(self, _env_manager: EnvManager) -> None:
        self._env_manager = _env_manager

    def start(self) -> None:
        """Wait for the policy, then collect until the env manager is done or :meth:`close` is called.

        Raises:
            Exception: what env manager or policy raise.
        """
        self._loop_thread = threading.current_thread()
        try:
            self._update_policy()
            if not self._end.is_set():
                self._start_thread()
            while self._may_step():
                self._iterate()
                if self._env_manager.done:
                    break
        finally:
            # After a failure too: what was collected before it is sound.
            try:
                self._finish_task()
            finally:
                self._loop_over.set()

    def _iterate(self) -> None:
        """One vector step."""
        begin_s = time.perf_counter()
        actions = self._policy_inference(self._env_manager.ready_obs)
        acted_s = time.perf_counter()
        timesteps = self._env_step(actions)
        stepped_s = time.perf_counter()
        self._process_timestep(timesteps)
        self._times.add(acted_s - begin_s, stepped_s - acted_s, len(actions), timesteps)
        self._iter_after_hook()

    def _iter_after_hook(self) -> None:
        """A vector step is over: log what steps cost, now and then."""
        if text := self._times.line():
            self.info(text)

    def stop(self, timeout_s: float = _CLOSE_TIMEOUT_S) -> bool:
        """Let the loop end after the current step, and wait for that; returns whether it ended in time."""
        self._end.set()
        if self._loop_thread is None or self._loop_thread is threading.current_thread():
            return True
        return self._loop_over.wait(timeout_s)

    def close(self) -> None:
        """End the loop, close the envs, join the threads. A second call does nothing."""
        with self._close_lock:
            if self._closed:
                return
            self._closed = True
        if not self.stop():
            self.error(f"a step did not end in {_CLOSE_TIMEOUT_S} s; the envs are closed nevertheless")
        if self._env_manager is not None:
            self._env_manager.close()
        self._join_thread()

    def __del__(self) -> None:
        # A constructor that failed early leaves nothing to close.
        if hasattr(self, "_times"):
            self.close()

    @property
    def reusable(self) -> bool:
        """Whether the task is over, and policy and envs can serve another one."""
        return False

    def take_next_task(self, cfg: EasyDict) -> bool:
        """Be ready to :meth:`start` another task; returns whether its config suits the policy and the envs."""
        return False

    # ------------------------------------------------------------------ for subclasses

    @abstractmethod
    def get_finish_info(self) -> dict[str, Any]:
        """The summary of the task: counts, averages, returns."""

    @abstractmethod
    def __repr__(self) -> str:
        """One line about the collector."""

    @abstractmethod
    def _policy_inference(self, obs: ByEnv) -> ByEnv:
        """Actions for the observations of the environments that are ready."""

    @abstractmethod
    def _env_step(self, action: ByEnv) -> list[VectorStep]:
        """Step the envs; what comes back goes to :meth:`_process_timestep`."""

    @abstractmethod
    def _process_timestep(self, timestep: list[VectorStep]) -> None:
        """Record a vector step and send what is complete."""

    @abstractmethod
    def _update_policy(self) -> None:
        """Load the first version of the policy; waits for it."""

    def _may_step(self) -> bool:
        """Whether to make another step; may wait until it is allowed."""
        return not self._end.is_set()

    def grant(self, grant: Mapping[str, int]) -> None:
        """The coordinator allows so many steps; for collectors of on-policy runs."""

    def _start_thread(self) -> None:
        """Start what runs beside the loop."""

    def _join_thread(self) -> None:
        """Wait for what runs beside the loop."""

    def _finish_task(self) -> None:
        """The loop is over: send what is complete."""


class _StepTimes:
    """Averages of what a vector step costs, as a line now and then."""

    def __init__(self, print_freq: int) -> None:
        self._print_freq = print_freq
        self._last_s = time.monotonic()
        self._clear()

    def _clear(self) -> None:
        self._steps = 0
        self._policy_s = self._env_s = 0.0
        self._envs = 0
        self._timesteps: object = None

    def add(self, policy_s: float, env_s: float, envs: int, timesteps: object) -> None:
        """Count a step."""
        self._steps += 1
        self._policy_s += policy_s
        self._env_s += env_s
        self._envs += envs
        self._timesteps = timesteps

    def line(self) -> str:
        """The averages, every ``print_freq`` steps, but not more often than every 10 s; else nothing."""
        if self._steps % self._print_freq or time.monotonic() - self._last_s < _LOG_INTERVAL_S:
            return ""
        steps, envs = self._steps, max(self._envs, 1)
        line = (
            f"policy_time: {self._policy_s / steps:.6f}, env_time: {self._env_s / steps:.6f}, "
            f"timestep_size: {_megabytes(self._timesteps):.6f}, norm_env_time: {self._env_s / envs:.6f}"
        )
        self._last_s = time.monotonic()
        self._clear()
        return line


def _megabytes(value: object) -> float:
    """Return the size of all arrays in nested timesteps."""
    if isinstance(value, VectorStep):
        value = value.timesteps.columns
    return sum(leaf.nbytes for leaf in iter_nested(value) if isinstance(leaf, (np.ndarray, torch.Tensor))) / 2**20


def create_parallel_collector(cfg: EasyDict) -> BaseParallelCollector:
    """Build the collector registered under ``cfg.type`` after importing ``cfg.import_names``.

    Raises:
        KeyError: ``cfg.type`` is missing or not registered; the message names the nearest type.
    """
    collector: BaseParallelCollector = PARALLEL_COLLECTOR_REGISTRY.create(cfg)
    return collector


def get_parallel_collector_cls(cfg: EasyDict) -> type:
    """The collector class registered under ``cfg.type``.

    Raises:
        KeyError: ``cfg.type`` is missing or not registered.
    """
    return PARALLEL_COLLECTOR_REGISTRY.class_of(cfg)
