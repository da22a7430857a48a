"""MuJoCo robots (extra ``mujoco``)."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch
from easydict import EasyDict

from ding.envs.env.default_wrapper import EVAL_RETURN
from ding.envs.gymnasium_types import AnyEnv
from ding.envs.zoo._zoo_env import ZooEnv
from ding.utils import ENV_REGISTRY, did_you_mean


@ENV_REGISTRY.register("mujoco")
class MujocoEnv(ZooEnv):
    """Hopper, HalfCheetah, Walker2d, Ant and others: float32 observations, actions within the bounds of the env.

    Ids are Gymnasium's ``-v4`` and ``-v5``; ``-v2`` and ``-v3`` map to version 5, in which Ant has 105 observations
    instead of 111 and Humanoid 348 instead of 376. ``eval_episode_return`` sums the original rewards of the env.
    """

    config: ClassVar[dict[str, Any]] = {
        "env_id": "Hopper-v3",
        # Clip actions to [-1, 1] first; `act_scale` does that and maps them to the bounds of the env.
        "action_clip": False,
        "act_scale": None,
        # Above 1: pay the sum of the rewards every so many steps.
        "delay_reward_step": 0,
        "norm_obs": {"use_norm": False},
        # Only in collector envs: an evaluator reports the original rewards.
        "norm_reward": {"use_norm": False, "reward_discount": 0.99},
        # Number of equally spaced values per dimension, each selected by one int.
        "action_bins_per_branch": None,
        "replay_path": None,
    }

    @staticmethod
    def _env_wrappers(cfg: EasyDict, is_train: bool) -> list[Any]:
        wrappers: list[Any] = []
        if cfg.action_bins_per_branch:
            kwargs = {"bins": cfg.action_bins_per_branch, "branches": True}
            wrappers.append({"type": "discrete_action", "kwargs": kwargs})
        elif cfg.action_clip:
            wrappers.append(_clipped_actions)
        wrappers.append(EVAL_RETURN)
        if cfg.delay_reward_step > 1:
            wrappers.append({"type": "delay_reward", "kwargs": {"delay_reward_step": cfg.delay_reward_step}})
        if cfg.norm_obs.use_norm:
            wrappers.append({"type": "obs_norm"})
        if cfg.norm_reward.use_norm and is_train:
            kwargs = {"reward_discount": cfg.norm_reward.reward_discount}
            wrappers.append({"type": "reward_norm", "kwargs": kwargs})
        return wrappers


@ENV_REGISTRY.register("mbmujoco")
class MBMujocoEnv(MujocoEnv):
    """``mujoco`` for world models, which need its termination condition."""

    def termination_fn(self, next_obs: torch.Tensor) -> torch.Tensor:
        """Return whether an episode ends in each of the states ``[N, O]``: bool ``[N]``.

        Raises:
            KeyError: The termination condition of ``env_id`` is unknown.
        """
        env_id = str(self._own_cfg.env_id)
        robot = "walker_" if env_id.startswith("walker_") else env_id.rpartition("-v")[0]
        if robot not in _HEALTHY:
            raise KeyError(
                f"env.env_id: where the episodes of {env_id!r} end is unknown.{did_you_mean(robot, _HEALTHY)}"
            )
        healthy = _HEALTHY[robot](next_obs)
        return ~(healthy & torch.isfinite(next_obs).all(-1))


def _clipped_actions(env: AnyEnv) -> AnyEnv:
    clip = partial(np.clip, a_min=-1.0, a_max=1.0)
    return gymnasium.wrappers.TransformAction(env, clip, env.action_space)


def _hopper(obs: torch.Tensor) -> torch.Tensor:
    return (obs[:, 1:].abs() < 100).all(-1) & (obs[:, 0] > 0.7) & (obs[:, 1].abs() < 0.2)


def _walker(height: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    return (height > 0.8) & (height < 2) & (angle.abs() < 1)


def _between(low: float, high: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda obs: (obs[:, 0] >= low) & (obs[:, 0] <= high)


# Robot -> function that returns whether an episode continues in each of the states `[N, O]`.
_HEALTHY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "HalfCheetah": lambda obs: torch.ones_like(obs[:, 0], dtype=torch.bool),
    "Hopper": _hopper,
    "Walker2d": lambda obs: _walker(obs[:, 0], obs[:, 1]),
    "walker_": lambda obs: _walker(obs[:, -2], obs[:, -1]),
    "Ant": _between(0.2, 1.0),
    "AntTruncatedObs": _between(0.2, 1.0),
    "Humanoid": _between(1.0, 2.0),
    "HumanoidTruncatedObs": _between(1.0, 2.0),
}
