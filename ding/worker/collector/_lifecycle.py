"""What all serial collectors share: construction, env and policy replacement, counters, logging, closing."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from easydict import EasyDict

from ding.utils import build_logger, get_rank, get_world_size, write_scalars
from ding.worker._component import required_key
from ding.worker.collector._env_form import dict_form
from ding.worker.collector.base_serial_collector import ISerialCollector


class SerialCollectorBase(ISerialCollector):
    """Life cycle, counters and logs of a serial collector.

    Args:
        cfg: collector config (see the subclass's ``config``).
        env: env manager; launched here. ``None``: set it later with :meth:`reset_env` or :meth:`reset`.
        policy: collect mode of a policy (a list of them for battle collectors). ``None``: set it later with
            :meth:`reset_policy`.
        tb_logger: a tensorboard writer to share; without one the collector makes (and later closes) its own.
        exp_name: experiment directory.
        instance_name: name of the log files and of the tensorboard tags.

    Raises:
        KeyError: a required config key is missing.
        TypeError: what should be an env manager or a policy is something else.
    """

    def __init__(
        self,
        cfg: EasyDict,
        env: Any = None,
        policy: Any = None,
        tb_logger: Any = None,
        exp_name: str = "default_experiment",
        instance_name: str = "collector",
    ) -> None:
        self._end_flag = False
        self._env: Any = None
        self._policy: Any = None
        self._cfg = cfg
        self._exp_name = exp_name
        self._instance_name = instance_name
        self._collect_print_freq = required_key(cfg, "collect_print_freq", "collector")
        self._deepcopy_obs = required_key(cfg, "deepcopy_obs", "collector")
        self._transform_obs = required_key(cfg, "transform_obs", "collector")
        self._rank, self._world_size = get_rank(), get_world_size()
        self._owns_tb_logger = tb_logger is None and self._rank == 0
        path = f"./{exp_name}/log/{instance_name}"
        logger, own_writer = build_logger(path, instance_name, need_tb=self._owns_tb_logger)
        self._logger: Any = logger
        self._tb_logger: Any = own_writer if self._owns_tb_logger else (tb_logger if self._rank == 0 else None)
        self._episode_info: list[dict[str, Any]] = []
        self._known_ids: np.ndarray | None = None
        self._known_index: np.ndarray | slice = slice(None)
        self._zero_counters()
        self.reset(policy, env)

    # ------------------------------------------------------------------ life cycle

    def reset_env(self, _env: Any = None) -> None:
        """Reset the env manager, or store and launch a new one. What the old one had begun is forgotten then.

        Raises:
            AssertionError: there is no env manager to reset.
        """
        if _env is None:
            if self._env is None:
                raise AssertionError(f"{self._instance_name}: there is no env manager to reset; pass one")
            self._env.reset()
            return
        self._env = dict_form(_env)
        self._env.launch()
        self._env_num = self._env.env_num
        self._zero_env_counters()
        if self._policy is not None:
            self._forget_trajectories()
            self._read_policy()

    def reset_policy(self, _policy: Any = None) -> None:
        """Reset the policy, or replace it by the collect mode of another one.

        Trajectories that have begun are kept, where both policies work on columns or neither does.

        Raises:
            AssertionError: no env manager was set before, or there is no policy to reset.
            TypeError: this is not the collect mode of a policy (or a list of them).
        """
        if self._env is None:
            raise AssertionError(f"{self._instance_name}: set an env manager before the policy")
        if _policy is not None:
            for policy in as_policies(_policy):
                if not hasattr(policy, "get_attribute"):
                    found = type(policy).__name__
                    raise TypeError(f"{self._instance_name}: expected policy.collect_mode, found an object {found}")
            is_first = self._policy is None
            self._policy = _policy
            self._read_policy()
            if is_first:
                self._forget_trajectories()
        if self._policy is None:
            raise AssertionError(f"{self._instance_name}: there is no policy to reset; pass one")
        for policy in self._policy_list():
            policy.reset()

    def reset(self, _policy: Any = None, _env: Any = None) -> None:
        """Replace env and policy where given, forget all trajectories and zero the counters.

        With both arguments ``None`` neither env nor policy is reset.
        """
        if _env is not None:
            self.reset_env(_env)
        if _policy is not None:
            self.reset_policy(_policy)
        self._zero_counters()
        self._end_flag = False
        if self._env is not None:
            self._zero_env_counters()
        if self._env is not None and self._policy is not None:
            self._forget_trajectories()

    def restart_envs(self, seed: int, dynamic_seed: bool = True) -> None:
        """Begin new episodes in all environments from ``seed``, and forget what had been begun. Counters stay.

        A run that is saved and a run that goes on from it do this at the same point, which makes them equal.
        """
        self._require_ready()
        self._env.seed(seed, dynamic_seed=dynamic_seed)
        self._env.reset()
        for policy in self._policy_list():
            policy.reset()
        for env_id in range(self._env_num):
            self._clear_env_counters(env_id)
        self._forget_trajectories()

    def state_dict(self) -> dict[str, Any]:
        """The counters and the episodes that wait to be logged. Trajectories and env states are not part of it."""
        return {
            "total_envstep_count": self._total_envstep_count,
            "total_episode_count": self._total_episode_count,
            "total_train_sample_count": self._total_train_sample_count,
            "total_duration": self._total_duration,
            "last_train_iter": self._last_train_iter,
            "episode_info": [dict(episode) for episode in self._episode_info],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up the counters of a :meth:`state_dict`."""
        self._total_envstep_count = state_dict["total_envstep_count"]
        self._total_episode_count = state_dict["total_episode_count"]
        self._total_train_sample_count = state_dict["total_train_sample_count"]
        self._total_duration = state_dict["total_duration"]
        self._last_train_iter = state_dict["last_train_iter"]
        self._episode_info = [dict(episode) for episode in state_dict["episode_info"]]

    def close(self) -> None:
        """Close the env manager, and the tensorboard writer if it is the collector's own.

        A second call does nothing.
        """
        if self._end_flag:
            return
        self._end_flag = True
        if self._env is not None:
            self._env.close()
        if self._owns_tb_logger and self._tb_logger is not None:
            self._tb_logger.flush()
            self._tb_logger.close()

    def __del__(self) -> None:
        # A constructor that failed early leaves nothing to close.
        if hasattr(self, "_owns_tb_logger"):
            self.close()

    def _policy_list(self) -> list[Any]:
        return as_policies(self._policy)

    def _read_policy(self) -> None:
        """Read what the collector needs to know of a new policy."""
        raise NotImplementedError

    def _forget_trajectories(self) -> None:
        """Start with empty trajectories."""
        raise NotImplementedError

    def _require_ready(self) -> None:
        if self._env is None or self._policy is None:
            missing = "an env manager" if self._env is None else "a policy"
            raise RuntimeError(f"{self._instance_name}: collect needs {missing}; call reset(policy, env) first")
        if getattr(self._env, "closed", False) is True:
            raise RuntimeError(
                f"{self._instance_name}: the env manager is closed, by close() or because an env failed; "
                "launch it again or pass another one to reset_env"
            )

    # ------------------------------------------------------------------ counters and logs

    @property
    def envstep(self) -> int:
        """Total number of env steps so far, over all ranks."""
        return self._total_envstep_count

    @envstep.setter
    def envstep(self, value: int) -> None:
        self._total_envstep_count = value

    def _zero_counters(self) -> None:
        self._total_envstep_count = 0
        self._total_episode_count = 0
        self._total_train_sample_count = 0
        self._total_duration = 0.0
        self._last_train_iter = 0
        self._episode_info.clear()

    def _zero_env_counters(self) -> None:
        self._known_ids = None
        self._env_step = np.zeros(self._env_num, dtype=np.int64)
        self._env_time_s = np.zeros(self._env_num)
        self._env_train_sample = np.zeros(self._env_num, dtype=np.int64)

    def _clear_env_counters(self, env_ids: "np.ndarray | slice | int") -> None:
        self._env_step[env_ids] = 0
        self._env_time_s[env_ids] = 0.0
        self._env_train_sample[env_ids] = 0

    def _which(self, env_ids: np.ndarray) -> "np.ndarray | slice":
        """An index of the counters of these environments: a slice, which is cheap, where they are all in order.

        Environments that step together come with the same array of ids again and again.
        """
        if env_ids is not self._known_ids:
            self._known_ids = env_ids
            everyone = len(env_ids) == self._env_num and bool((env_ids == np.arange(self._env_num)).all())
            self._known_index = slice(None) if everyone else env_ids
        return self._known_index

    def _restart_envs(self, env_ids: np.ndarray) -> None:
        """Reset environments that returned an abnormal step; what they had begun is dropped."""
        for env_id in env_ids.tolist():
            self._env.reset({env_id: None})
            self._clear_env_counters(env_id)
            self._logger.info(f"env {env_id} returned an abnormal step and was reset; its trajectory is dropped")
        for policy in self._policy_list():
            policy.reset(env_ids.tolist())

    def _log(self, train_iter: int, reward_keys: tuple[str, ...], with_samples: bool) -> None:
        """Write text and scalars once per ``collect_print_freq`` train iterations, then forget the episodes."""
        if self._rank != 0 or train_iter - self._last_train_iter < self._collect_print_freq or not self._episode_info:
            return
        self._last_train_iter = train_iter
        info = self._summary(reward_keys, with_samples)
        self._episode_info.clear()
        self._logger.info("collect end:\n" + "\n".join(f"{key}: {value}" for key, value in info.items()))
        write_scalars(self._tb_logger, f"{self._instance_name}_iter/", info, train_iter)
        # By env step, their number would be a straight line.
        by_step = {key: value for key, value in info.items() if key != "total_envstep_count"}
        write_scalars(self._tb_logger, f"{self._instance_name}_step/", by_step, self._total_envstep_count)

    def _summary(self, reward_keys: tuple[str, ...], with_samples: bool) -> dict[str, float]:
        episodes = self._episode_info
        count = len(episodes)
        steps = sum(episode["step"] for episode in episodes)
        duration_s = sum(episode["time"] for episode in episodes)
        info: dict[str, float] = {"episode_count": count, "envstep_count": steps}
        samples = sum(episode.get("train_sample", 0) for episode in episodes)
        if with_samples:
            info["train_sample_count"] = samples
        info["avg_envstep_per_episode"] = steps / count
        if with_samples:
            info["avg_sample_per_episode"] = samples / count
        info["avg_envstep_per_sec"] = per_second(steps, duration_s)
        if with_samples:
            info["avg_train_sample_per_sec"] = per_second(samples, duration_s)
        info["avg_episode_per_sec"] = per_second(count, duration_s)
        if not with_samples:
            info["collect_time"] = duration_s
        for key in reward_keys:
            rewards = [episode[key] for episode in episodes]
            info[f"{key}_mean"] = float(np.mean(rewards))
            info[f"{key}_std"] = float(np.std(rewards))
            info[f"{key}_max"] = float(np.max(rewards))
            info[f"{key}_min"] = float(np.min(rewards))
        info["total_envstep_count"] = self._total_envstep_count
        if with_samples:
            info["total_train_sample_count"] = self._total_train_sample_count
        info["total_episode_count"] = self._total_episode_count
        if not with_samples:
            info["total_duration"] = self._total_duration
        return info


def per_second(count: float, duration_s: float) -> float:
    """A rate; 0 when no time was measured."""
    return count / duration_s if duration_s > 0 else 0.0


def as_policies(policy: Any) -> list[Any]:
    """The policies of a list or tuple of them; one policy, which may be a named tuple, alone."""
    return list(policy) if isinstance(policy, (list, tuple)) and not hasattr(policy, "forward") else [policy]


def default_target(given: "int | None", default: "int | None", name: str) -> int:
    """``given``, or the policy's default.

    Raises:
        RuntimeError: neither is there.
        TypeError: it is not a whole number.
    """
    target = default if given is None else given
    if target is None:
        raise RuntimeError(f"how much to collect is unknown: pass {name}, or set policy.collect.{name} in the config")
    if not isinstance(target, Integral):
        raise TypeError(f"{name} must be an int, found {target!r}")
    return target


def scalar(value: Any) -> float:
    """A Python number out of a number, an array or a tensor with one element."""
    return float(value.item()) if hasattr(value, "item") else float(value)


def episode_return(info: Mapping[str, Any], env_id: int) -> float:
    """``info['eval_episode_return']`` of a finished episode.

    Raises:
        KeyError: the env did not report it.
    """
    if "eval_episode_return" not in info:
        raise KeyError(
            f"env {env_id} finished an episode without info['eval_episode_return']; "
            "add the `eval_episode_return` env wrapper or set it in the env's step"
        )
    return scalar(info["eval_episode_return"])
