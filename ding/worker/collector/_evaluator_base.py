"""What the evaluators that play episodes share: construction, schedule, result, best and stop."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from easydict import EasyDict

from ding.utils import broadcast_object_list, build_logger, get_rank, get_world_size, write_scalars
from ding.worker._component import required_key
from ding.worker.collector._env_form import dict_form
from ding.worker.collector._eval_monitor import VectorEvalMonitor
from ding.worker.collector.base_serial_evaluator import ISerialEvaluator

BEST_CKPT_NAME = "ckpt_best.pth.tar"


class SerialEvaluatorBase(ISerialEvaluator):
    """Life cycle, schedule and logs of an evaluator. Only rank 0 logs.

    Args:
        cfg: evaluator config (see the subclass's ``config``); ``stop_value`` is required.
        env: env manager; launched here. ``None``: set it later with :meth:`reset_env` or :meth:`reset`.
        policy: eval mode of a policy (a list of them for battle evaluators). ``None``: set it later.
        tb_logger: tensorboard writer to share. Without one the evaluator makes its own, and closes it.
        exp_name: folder of the experiment.
        instance_name: name of the log files and of the tensorboard tags.

    Raises:
        KeyError: a required config key is missing.
    """

    _end_flag = True
    _env: Any = None
    _policy: Any = None
    _owned_writer: Any = None

    def __init__(
        self,
        cfg: EasyDict,
        env: Any = None,
        policy: Any = None,
        tb_logger: Any = None,
        exp_name: str = "default_experiment",
        instance_name: str = "evaluator",
    ) -> None:
        self._cfg = cfg
        self._exp_name = exp_name
        self._instance_name = instance_name
        self._stop_value = required_key(cfg, "stop_value", "evaluator")
        self._rank, self._world_size = get_rank(), get_world_size()
        self._logger: Any = None
        self._tb_logger: Any = None
        if self._rank == 0:
            path = f"./{exp_name}/log/{instance_name}"
            self._logger, own_writer = build_logger(path, instance_name, need_tb=tb_logger is None)
            self._tb_logger = own_writer if tb_logger is None else tb_logger
            self._owned_writer = own_writer
        self.reset(policy, env)

    @property
    def env(self) -> Any:
        """The env manager."""
        return self._env

    @property
    def policy(self) -> Any:
        """Eval mode of the policy."""
        return self._policy

    # ------------------------------------------------------------------ life cycle

    def reset_env(self, _env: Any = None) -> None:
        """Reset the env manager, or store and launch a new one.

        Raises:
            AssertionError: there is none to reset.
        """
        if _env is not None:
            self._env = dict_form(_env)
            self._env.launch()
        elif self._env is None:
            raise AssertionError(f"{self._instance_name}: there is no env manager to reset; pass one")
        else:
            self._env.reset()
        self._env_num = self._env.env_num

    def reset_policy(self, _policy: Any = None) -> None:
        """Reset the policy, or store a new one and reset it.

        Raises:
            AssertionError: no env manager was set, or there is no policy to reset.
        """
        if self._env is None:
            raise AssertionError(f"{self._instance_name}: set an env manager before the policy")
        self._set_policy(_policy)

    def _set_policy(self, policy: Any) -> None:
        if policy is not None:
            self._policy = policy
        if self._policy is None:
            raise AssertionError(f"{self._instance_name}: there is no policy to reset; pass one")
        for one in self._policies():
            one.reset()

    def _policies(self) -> list[Any]:
        return list(self._policy) if isinstance(self._policy, list) else [self._policy]

    def reset(self, _policy: Any = None, _env: Any = None) -> None:
        """Replace env and policy where given, and forget the best result and the time of the last evaluation.

        With both arguments ``None`` neither env nor policy is reset.
        """
        if _env is not None:
            self.reset_env(_env)
        if _policy is not None:
            # A policy may come before its env; the order of the arguments is that of the public interface.
            self._set_policy(_policy)
        self._max_episode_return = -np.inf
        self._last_eval_iter = -1
        self._end_flag = False

    def state_dict(self) -> dict[str, Any]:
        """When the last evaluation was, and the best result so far."""
        return {"last_eval_iter": self._last_eval_iter, "max_episode_return": float(self._max_episode_return)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up a :meth:`state_dict`."""
        self._last_eval_iter = state_dict["last_eval_iter"]
        self._max_episode_return = state_dict["max_episode_return"]

    def close(self) -> None:
        """Close the env manager, flush the writer and close it if it is the evaluator's own.

        A second call does nothing.
        """
        if self._end_flag:
            return
        self._end_flag = True
        self._close_env()
        if self._tb_logger is not None:
            self._tb_logger.flush()
        if self._owned_writer is not None:
            self._owned_writer.close()

    def _close_env(self) -> None:
        if self._env is not None:
            self._env.close()

    def __del__(self) -> None:
        self.close()

    # ------------------------------------------------------------------ schedule

    def should_eval(self, train_iter: int) -> bool:
        """Whether ``eval_freq`` train iterations have passed since the last True (always True once at iteration 0)."""
        if train_iter == self._last_eval_iter:
            return False
        if train_iter - self._last_eval_iter < self._cfg.eval_freq and train_iter != 0:
            return False
        self._last_eval_iter = train_iter
        return True

    # ------------------------------------------------------------------ evaluation

    def _new_monitor(self, n_episode: int | None) -> VectorEvalMonitor:
        if self._env is None or self._policy is None:
            missing = "an env manager" if self._env is None else "a policy"
            raise RuntimeError(f"{self._instance_name}: eval needs {missing}; call reset(policy, env) first")
        n_episode = self._cfg.get("n_episode") if n_episode is None else n_episode
        if n_episode is None:
            raise AssertionError(
                f"{self._instance_name}: how many episodes to play is unknown: "
                "pass n_episode, or set env.n_evaluator_episode in the config"
            )
        return VectorEvalMonitor(self._env_num, n_episode)

    def _log_episode(self, env_id: int, monitor: VectorEvalMonitor) -> None:
        self._logger.info(
            f"[{self._instance_name}] env {env_id}: episode {monitor.get_current_episode()} ended with return "
            f"{monitor.get_latest_reward(env_id):.4f}"
        )

    def _report(
        self, monitor: VectorEvalMonitor, train_iter: int, envstep: int, num_env_steps: int, duration_s: float
    ) -> dict[str, Any]:
        """Log the result of an evaluation as a table and as scalars; returns it."""
        returns = monitor.get_episode_return()
        count = len(returns)
        result: dict[str, Any] = {
            "train_iter": train_iter,
            "ckpt_name": f"iteration_{train_iter}.pth.tar",
            "episode_count": count,
            "envstep_count": num_env_steps,
            "avg_envstep_per_episode": num_env_steps / count,
            "evaluate_time": duration_s,
            "avg_envstep_per_sec": num_env_steps / duration_s if duration_s > 0 else 0.0,
            "avg_time_per_episode": duration_s / count,
            "reward_mean": float(np.mean(returns)),
            "reward_std": float(np.std(returns)),
            "reward_max": float(np.max(returns)),
            "reward_min": float(np.min(returns)),
        }
        result.update(monitor.get_episode_info() or {})
        self._log_result(result, train_iter, envstep)
        return result

    def _log_result(self, result: Mapping[str, Any], train_iter: int, envstep: int | None) -> None:
        """Numbers go to ``<instance>_iter/<key>`` and, with an env step, to ``<instance>_step/<key>``."""
        shown = {key: value for key, value in result.items() if isinstance(value, (int, float, str))}
        self._logger.info(self._logger.get_tabulate_vars_hor(shown))
        numbers = {key: value for key, value in shown.items() if key != "train_iter" and not isinstance(value, str)}
        for axis, step in (("iter", train_iter), ("step", envstep)):
            if step is not None:
                write_scalars(self._tb_logger, f"{self._instance_name}_{axis}/", numbers, step)

    def _judge(self, mean_return: float, save_ckpt_fn: Callable[[str], Any] | None, train_iter: int) -> bool:
        """Save the best policy so far; whether the mean return reaches ``stop_value``."""
        if mean_return > self._max_episode_return:
            if save_ckpt_fn is not None:
                save_ckpt_fn(BEST_CKPT_NAME)
            self._max_episode_return = mean_return
        stop = mean_return >= self._stop_value and train_iter >= self._cfg.get("stop_from_iter", 1)
        if stop:
            self._logger.info(
                f"[{self._instance_name}] mean return {mean_return:.4f} reaches stop_value {self._stop_value} at train "
                f"iteration {train_iter}: converged"
            )
        return bool(stop)

    def _share(self, stop: bool, info: Any) -> tuple[bool, Any]:
        """Give the result of rank 0 to every rank."""
        if self._world_size == 1:
            return stop, info
        objects = [stop, info]
        broadcast_object_list(objects, src=0)
        return objects[0], objects[1]
