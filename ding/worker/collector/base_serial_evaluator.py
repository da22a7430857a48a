"""Interface, factories and base class of the serial evaluators."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import numpy as np
from easydict import EasyDict

from ding.config import ConfigValueError
from ding.data.roles import EnvManager, EvalMode, StateDict, Writer
from ding.rollout import EvaluationResult, VectorEvalMonitor, as_policies, seed_evaluation
from ding.rollout.record import ratio, spread
from ding.utils import SERIAL_EVALUATOR_REGISTRY, Configurable, broadcast_object_list, get_world_size
from ding.worker._component import EnvWorker, required_key

__all__ = [
    "ISerialEvaluator",
    "SerialEvaluator",
    "VectorEvalMonitor",
    "create_serial_evaluator",
    "get_serial_evaluator_cls",
]

Policies = EvalMode | Sequence[EvalMode]
SaveCheckpoint = Callable[[str], object]
Result = TypeVar("Result")

BEST_CKPT_NAME = "ckpt_best.pth.tar"


class ISerialEvaluator(Configurable, ABC):
    """Interface of serial evaluators: measure a policy at regular intervals."""

    @abstractmethod
    def reset_env(self, _env: EnvManager | None = None) -> None:
        """Reset the env manager, or replace and launch it."""

    @abstractmethod
    def reset_policy(self, _policy: Policies | None = None) -> None:
        """Reset the policy, or replace it."""

    @abstractmethod
    def reset(self, _policy: Policies | None = None, _env: EnvManager | None = None) -> None:
        """Replace policy and env if given, and discard the best result."""

    @abstractmethod
    def close(self) -> None:
        """Release the resources of the evaluator."""

    @abstractmethod
    def should_eval(self, train_iter: int) -> bool:
        """Return whether an evaluation is due; True records an evaluation at ``train_iter``."""

    @abstractmethod
    def eval(
        self,
        save_ckpt_fn: SaveCheckpoint | None = None,
        train_iter: int = -1,
        envstep: int = -1,
        n_episode: int | None = None,
    ) -> tuple[bool, Any]:
        """Evaluate the policy; return ``(stop_flag, result)``, where ``stop_flag`` means that training may stop."""


class SerialEvaluator(EnvWorker, ISerialEvaluator):
    """Base class of evaluators, with env manager, policies, schedule and logs. Only rank 0 logs.

    Args:
        cfg: Evaluator config (see the subclass's ``config``); ``stop_value`` is required.
        env: Env manager, launched here. ``None``: set it later with :meth:`reset_env` or :meth:`reset`.
        policy: Eval mode of a policy (a list of modes for battle evaluators). ``None``: set it later.
        tb_logger: TensorBoard writer to share; ``None``: create one and close it in :meth:`close`.
        exp_name: Experiment directory.
        instance_name: Name of the log files and prefix of the TensorBoard tags.

    Raises:
        KeyError: A required config key is missing.
    """

    def __init__(
        self,
        cfg: EasyDict,
        env: EnvManager | None = None,
        policy: Policies | None = None,
        tb_logger: Writer | None = None,
        exp_name: str = "default_experiment",
        instance_name: str = "evaluator",
    ) -> None:
        self._policy: Policies | None = None
        self._stop_value = required_key(cfg, "stop_value", "evaluator")
        super().__init__(cfg, tb_logger, exp_name, instance_name)
        self.reset(policy, env)

    @property
    def env(self) -> EnvManager | None:
        """The env manager."""
        return self._env

    @property
    def policy(self) -> Policies | None:
        """Eval mode of the policy."""
        return self._policy

    # ------------------------------------------------------------------ life cycle

    def reset_policy(self, _policy: Policies | None = None) -> None:
        """Reset the policy, or store a new one and reset it.

        Raises:
            AssertionError: No env manager was set, or there is no policy to reset.
        """
        if self._env is None:
            raise AssertionError(f"{self._instance_name}: set an env manager before the policy")
        self._set_policy(_policy)

    def _set_policy(self, policy: Policies | None) -> None:
        if policy is not None:
            self._policy = policy
        if self._policy is None:
            raise AssertionError(f"{self._instance_name}: there is no policy to reset; pass one")
        for one in as_policies(self._policy):
            one.reset()

    def reset(self, _policy: Policies | None = None, _env: EnvManager | None = None) -> None:
        """Replace env and policy if given, and discard the best result and the time of the last evaluation.

        If both arguments are ``None``, neither env nor policy is reset.
        """
        if _env is not None:
            self.reset_env(_env)
        if _policy is not None:
            # The policy may be set before its env; the public interface fixes the order of the arguments.
            self._set_policy(_policy)
        self.forget_best()
        self._last_eval_iter = -1
        self._end_flag = False

    def forget_best(self) -> None:
        """Treat the next result as the best so far, so that its policy is saved."""
        self._max_episode_return = -np.inf
        self._best_evaluation: EvaluationResult | None = None

    @property
    def best(self) -> EvaluationResult | None:
        """Best evaluation so far; ``None`` before the first."""
        return self._best_evaluation

    def state_dict(self) -> StateDict:
        """Return the iteration of the last evaluation and the best result so far."""
        return {
            "last_eval_iter": self._last_eval_iter,
            "max_episode_return": float(self._max_episode_return),
            "best_evaluation": None if self._best_evaluation is None else asdict(self._best_evaluation),
        }

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore a :meth:`state_dict`."""
        self._last_eval_iter = state_dict["last_eval_iter"]
        self._max_episode_return = state_dict["max_episode_return"]
        best = state_dict.get("best_evaluation")  # missing in older states
        self._best_evaluation = None if best is None else EvaluationResult(**best)

    def should_eval(self, train_iter: int) -> bool:
        """Return whether ``eval_freq`` train iterations have passed since the last True (True at iteration 0)."""
        since = train_iter - self._last_eval_iter
        due = since != 0 and (train_iter == 0 or since >= self._cfg.eval_freq)
        if due:
            self._last_eval_iter = train_iter
        return due

    def check_target(self) -> None:
        """Check that a call of :meth:`eval` without a number knows how many episodes to play.

        Raises:
            ConfigValueError: the config does not say so, or there are more environments than episodes.
        """
        env, _ = self._ready()
        VectorEvalMonitor(env.env_num, self._episodes(None))

    # ------------------------------------------------------------------ for subclasses

    def _ready(self) -> tuple[EnvManager, Policies]:
        if self._env is None or self._policy is None:
            missing = "an env manager" if self._env is None else "a policy"
            raise RuntimeError(f"{self._instance_name}: eval needs {missing}; call reset(policy, env) first")
        return self._env, self._policy

    def _episodes(self, given: int | None) -> int:
        n_episode: int | None = self._cfg.get("n_episode") if given is None else given
        if n_episode is None:
            raise ConfigValueError(
                f"{self._instance_name}: how many episodes to play is unknown: "
                "pass n_episode, or set env.n_evaluator_episode in the config"
            )
        return n_episode

    def _started(self, n_episode: int | None) -> tuple[EnvManager, list[EvalMode], VectorEvalMonitor]:
        """Reset env manager and policies for an evaluation; return them with the evaluation's monitor."""
        env, policy = self._ready()
        monitor = VectorEvalMonitor(env.env_num, self._episodes(n_episode))
        policies = as_policies(policy)
        seed_evaluation(env)
        env.reset()
        for one in policies:
            one.reset()
        return env, policies, monitor

    def _log_episode(self, env_id: int, monitor: VectorEvalMonitor) -> None:
        assert self._log is not None
        self._log.text.info(
            f"[{self._instance_name}] env {env_id}: episode {monitor.get_current_episode()} ended with return "
            f"{monitor.get_latest_reward(env_id):.4f}"
        )

    def _report(
        self, monitor: VectorEvalMonitor, train_iter: int, envstep: int, num_env_steps: int, duration_s: float
    ) -> EvaluationResult:
        """Log the result of an evaluation as a table and as scalars, and return it."""
        returns = monitor.get_episode_return()
        count = len(returns)
        result: dict[str, Any] = {
            "episode_count": count,
            "envstep_count": num_env_steps,
            "avg_envstep_per_episode": num_env_steps / count,
            "evaluate_time": duration_s,
            "avg_envstep_per_sec": ratio(num_env_steps, duration_s),
            "avg_time_per_episode": duration_s / count,
            **{f"reward_{name}": value for name, value in spread(returns).items()},
            **(monitor.get_episode_info() or {}),
        }
        self._log_result(result, train_iter, envstep)
        return EvaluationResult.of(returns, train_iter)

    def _log_result(self, result: Mapping[str, Any], train_iter: int, envstep: int) -> None:
        """Log numbers under ``<instance>_iter/<key>`` and ``<instance>_step/<key>``."""
        assert self._log is not None
        shown = {key: value for key, value in result.items() if isinstance(value, (int, float, str))}
        table = {"train_iter": train_iter, "ckpt_name": f"iteration_{train_iter}.pth.tar", **shown}
        self._log.text.info(self._log.text.get_tabulate_vars_hor(table))
        numbers = {key: value for key, value in shown.items() if not isinstance(value, str)}
        self._log.scalars(numbers, train_iter, numbers, envstep)

    def _judge(self, result: EvaluationResult, save_ckpt_fn: SaveCheckpoint | None, train_iter: int) -> bool:
        """Save the policy if it is the best so far; return whether the mean return reaches ``stop_value``."""
        if result.mean > self._max_episode_return:
            self._max_episode_return, self._best_evaluation = result.mean, result
            if save_ckpt_fn is not None:
                save_ckpt_fn(BEST_CKPT_NAME)
        return self._stops(result.mean >= self._stop_value, f"mean return {result.mean:.4f}", train_iter)

    def _stops(self, reached: bool, result: str, train_iter: int) -> bool:
        """Return whether training may stop: ``stop_value`` is reached and the minimum train iteration has passed."""
        assert self._log is not None
        stop = bool(reached) and train_iter >= self._cfg.get("stop_from_iter", 1)
        if stop and self._log.is_first_rank:
            self._log.text.info(
                f"[{self._instance_name}] {result} reaches stop_value {self._stop_value} at train iteration "
                f"{train_iter}: converged"
            )
        return stop

    def _on_first_rank(self, evaluate: Callable[[], tuple[bool, Result]]) -> tuple[bool, Result]:
        """Evaluate on rank 0 and share the result with all ranks."""
        assert self._log is not None
        found: list[Any] = list(evaluate()) if self._log.is_first_rank else [False, None]
        if get_world_size() > 1:
            broadcast_object_list(found, src=0)
        return found[0], found[1]


def create_serial_evaluator(cfg: EasyDict, **kwargs: Any) -> ISerialEvaluator:
    """Build the evaluator registered under ``cfg.type`` after importing ``cfg.import_names``.

    A missing type is set to ``'interaction'``.

    Raises:
        KeyError: ``cfg.type`` is not registered; the message names the nearest type.
    """
    cfg.setdefault("type", "interaction")
    evaluator: ISerialEvaluator = SERIAL_EVALUATOR_REGISTRY.create(cfg, **kwargs)
    return evaluator


def get_serial_evaluator_cls(cfg: EasyDict) -> type:
    """Return the evaluator class registered under ``cfg.type``.

    Raises:
        KeyError: The type is missing or not registered.
    """
    return SERIAL_EVALUATOR_REGISTRY.class_of(cfg)
