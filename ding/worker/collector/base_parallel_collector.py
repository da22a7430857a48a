"""Base class of parallel collectors: a loop over an env manager that sends the collected data."""

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

    ``start`` runs the loop in the calling thread and raises the errors of env and policy; ``close`` may be called from
    any thread.

    The comm layer sets three functions on the instance before ``start``:

    * ``send_stepdata(data_id, batch)`` stores a :class:`~ding.data.TransitionBatch`;
    * ``send_metadata(metadata)`` reports a stored chunk, or the progress of the collector;
    * ``get_policy_update_info(path, newer_than=-1, timeout_s=0.0)`` returns a state dict with the key ``iter`` (a
      function of ``path`` alone is accepted).

    Args:
        cfg: Config of the task: ``eval_flag``, ``exp_name``, ``print_freq``, optionally ``collector_uid`` (name of the
            log file, which the tasks of a process may share), and the keys of the subclass.
    """

    send_metadata: Callable[[dict[str, Any]], None]
    send_stepdata: Callable[..., Any]
    get_policy_update_info: Callable[..., Any]
    #: Normalisation statistics of observations and rewards for the learner; set by the comm layer.
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
        """Start measuring the step times."""
        self._times = _StepTimes(self._cfg.get("print_freq", 5))

    # ------------------------------------------------------------------ logs

    def info(self, s: str) -> None:
        """Log a line."""
        self._logger.info("[%s(%s)]: %s", self._prefix, self._collector_uid, s)

    def debug(self, s: str) -> None:
        """Log a line at debug level."""
        self._logger.debug("[%s(%s)]: %s", self._prefix, self._collector_uid, s)

    def error(self, s: str) -> None:
        """Log an error."""
        self._logger.error("[%s(%s)]: %s", self._prefix, self._collector_uid, s)

    # ------------------------------------------------------------------ life

    @property
    def policy(self) -> Players:
        """Policy mode (a list of modes for several players)."""
        made: Players = self._policy
        return made

    @policy.setter
    def policy(self, _policy: Players) -> None:
        self._policy = _policy

    @property
    def env_manager(self) -> EnvManager:
        """Env manager."""
        manager: EnvManager = self._env_manager
        return manager

    @env_manager.setter
    def env_manager(self, _env_manager: EnvManager) -> None:
        self._env_manager = _env_manager

    def start(self) -> None:
        """Wait for the policy, then collect until the env manager is done or :meth:`close` is called.

        Raises:
            Exception: An error of the env manager or the policy.
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
            # After a failure too: the data collected before it is valid.
            try:
                self._finish_task()
            finally:
                self._loop_over.set()

    def _iterate(self) -> None:
        """Make one vector step."""
        begin_s = time.perf_counter()
        actions = self._policy_inference(self._env_manager.ready_obs)
        acted_s = time.perf_counter()
        timesteps = self._env_step(actions)
        stepped_s = time.perf_counter()
        self._process_timestep(timesteps)
        self._times.add(acted_s - begin_s, stepped_s - acted_s, len(actions), timesteps)
        self._iter_after_hook()

    def _iter_after_hook(self) -> None:
        """Log the step times periodically."""
        if text := self._times.line():
            self.info(text)

    def stop(self, timeout_s: float = _CLOSE_TIMEOUT_S) -> bool:
        """End the loop after the current step; return whether it ended within ``timeout_s`` seconds."""
        self._end.set()
        if self._loop_thread is None or self._loop_thread is threading.current_thread():
            return True
        return self._loop_over.wait(timeout_s)

    def close(self) -> None:
        """End the loop, close the envs and join the threads. Repeated calls have no effect."""
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
        # Nothing to close if the constructor failed early.
        if hasattr(self, "_times"):
            self.close()

    @property
    def reusable(self) -> bool:
        """Whether the task has ended and policy and envs can serve another task."""
        return False

    def take_next_task(self, cfg: EasyDict) -> bool:
        """Prepare to :meth:`start` another task; return whether its config fits the policy and the envs."""
        return False

    # ------------------------------------------------------------------ for subclasses

    @abstractmethod
    def get_finish_info(self) -> dict[str, Any]:
        """Return the summary of the task: counts, averages, returns."""

    @abstractmethod
    def __repr__(self) -> str:
        """Return a one-line description."""

    @abstractmethod
    def _policy_inference(self, obs: ByEnv) -> ByEnv:
        """Return actions for the observations of the ready environments."""

    @abstractmethod
    def _env_step(self, action: ByEnv) -> list[VectorStep]:
        """Step the envs; the result is passed to :meth:`_process_timestep`."""

    @abstractmethod
    def _process_timestep(self, timestep: list[VectorStep]) -> None:
        """Record a vector step and send complete data."""

    @abstractmethod
    def _update_policy(self) -> None:
        """Wait for the first version of the policy and load it."""

    def _may_step(self) -> bool:
        """Return whether to make another step; may wait for permission."""
        return not self._end.is_set()

    def grant(self, grant: Mapping[str, int]) -> None:
        """Accept a grant of env steps (collectors of on-policy runs)."""

    def _start_thread(self) -> None:
        """Start the background threads."""

    def _join_thread(self) -> None:
        """Join the background threads."""

    def _finish_task(self) -> None:
        """Send complete data after the loop has ended."""


class _StepTimes:
    """Average times of a vector step, formatted as a periodic log line."""

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
        """Add a step."""
        self._steps += 1
        self._policy_s += policy_s
        self._env_s += env_s
        self._envs += envs
        self._timesteps = timesteps

    def line(self) -> str:
        """Return the averages every ``print_freq`` steps, at most once per 10 s; otherwise nothing."""
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
    """Return the size of all arrays in nested timesteps, in megabytes."""
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
    """Return the collector class registered under ``cfg.type``.

    Raises:
        KeyError: ``cfg.type`` is missing or not registered.
    """
    return PARALLEL_COLLECTOR_REGISTRY.class_of(cfg)
