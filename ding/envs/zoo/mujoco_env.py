"""Robots of MuJoCo (extra ``mujoco``)."""

from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict

from ding.envs.env.default_wrapper import EVAL_RETURN
from ding.envs.gymnasium_types import AnyEnv
from ding.envs.zoo._zoo_env import ZooEnv
from ding.utils import ENV_REGISTRY


@ENV_REGISTRY.register("mujoco")
class MujocoEnv(ZooEnv):
    """Hopper, HalfCheetah, Walker2d, Ant and others: float32 observations, actions within the bounds of the env.

    The ids of gymnasium's ``-v4`` and ``-v5``; ``-v2`` and ``-v3`` give version 5, of which Ant has 105 observations
    instead of 111 and Humanoid 348 instead of 376. ``eval_episode_return`` sums the rewards of the env, whatever is
    done to them afterwards.
    """

    config: ClassVar[dict[str, Any]] = {
        "env_id": "Hopper-v3",
        # Clip actions to [-1, 1] first; `act_scale` does that and maps them to the bounds of the env.
        "action_clip": False,
        "act_scale": None,
        # Above 1: pay the rewards of so many steps at once.
        "delay_reward_step": 0,
        "norm_obs": {"use_norm": False},
        # Of collector envs only: an evaluator reports rewards as they are.
        "norm_reward": {"use_norm": False, "reward_discount": 0.99},
        # Equally spaced values of each dimension, chosen by one int each.
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


def _clipped_actions(env: AnyEnv) -> AnyEnv:
    clip = partial(np.clip, a_min=-1.0, a_max=1.0)
    return gymnasium.wrappers.TransformAction(env, clip, env.action_space)
