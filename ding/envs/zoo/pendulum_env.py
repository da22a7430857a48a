"""Pendulum, with a continuous or a discretised torque."""

from typing import Any, ClassVar

import torch
from easydict import EasyDict

from ding.envs.zoo._zoo_env import ZooEnv
from ding.utils import ENV_REGISTRY


@ENV_REGISTRY.register("pendulum")
class PendulumEnv(ZooEnv):
    """Pendulum-v1: float32 ``(3,)``, a torque, a reward in [-16.27, 0], and a time limit of 200 steps.

    The torque is float32 ``(1,)`` in [-2, 2], or in [-1, 1] with ``act_scale``. With ``continuous: False`` it is one of
    11 equally spaced values from -2 to 2, regardless of ``act_scale``.
    """

    config: ClassVar[dict[str, Any]] = {
        "env_id": "Pendulum-v1",
        "continuous": True,
        "act_scale": None,
    }

    @staticmethod
    def _env_wrappers(cfg: EasyDict, is_train: bool) -> list[Any]:
        return [] if cfg.continuous else [{"type": "discrete_action", "kwargs": {"bins": 11}}]


@ENV_REGISTRY.register("mbpendulum")
class MBPendulumEnv(PendulumEnv):
    """``pendulum`` for world models, which need its termination condition."""

    def termination_fn(self, next_obs: torch.Tensor) -> torch.Tensor:
        """Return False, bool ``[N]``, for all states ``[N, 3]``: only the time limit ends an episode."""
        return torch.zeros(len(next_obs), dtype=torch.bool, device=next_obs.device)
