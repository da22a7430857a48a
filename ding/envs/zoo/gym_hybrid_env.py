"""Games with hybrid actions."""

from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict

from ding.envs.gymnasium_types import AnyEnv, AnyWrapper, Reset, Step

# It registers the two games.
from ding.envs.zoo import hybrid_move  # noqa: F401
from ding.envs.zoo._zoo_env import ZooEnv
from ding.utils import ENV_REGISTRY

# Argument that each type of action uses: acceleration, rotation, none.
ACTION_ARGS_MASK = ((1, 0), (0, 1), (0, 0))


class _NamedParts(AnyWrapper):
    """Takes actions ``{'action_type', 'action_args'}``, and adds the mask of their arguments to each info."""

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        kind, parameters = env.action_space.spaces  # type: ignore[attr-defined]
        self.action_space = gymnasium.spaces.Dict({"action_type": kind, "action_args": parameters})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the env."""
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Mapping[str, Any]) -> Step:
        """Step with type and arguments."""
        obs, reward, terminated, truncated, info = self.env.step((action["action_type"], action["action_args"]))
        info["action_args_mask"] = np.array(ACTION_ARGS_MASK)
        return obs, reward, terminated, truncated, info


@ENV_REGISTRY.register("gym_hybrid")
class GymHybridEnv(ZooEnv):
    """``Moving-v0`` or ``Sliding-v0``, see :class:`~ding.envs.zoo.hybrid_move.HybridMoveEnv`.

    An action is ``{'action_type': int64 (1,), 'action_args': float32 (2,)}``: accelerate, turn or brake, with
    acceleration and rotation, both in [-1, 1] with ``act_scale``. ``info['action_args_mask']`` is int64 ``(3, 2)``: the
    arguments used by each type.

    Raises:
        ValueError: ``env_id`` is unknown; ``HardMove-v0`` is not supported.
    """

    config: ClassVar[dict[str, Any]] = {"env_id": "Moving-v0", "act_scale": True}

    @staticmethod
    def _env_kwargs(cfg: EasyDict) -> dict[str, Any]:
        if cfg.env_id not in ("Moving-v0", "Sliding-v0"):
            raise ValueError(f"env.env_id of gym_hybrid must be Moving-v0 or Sliding-v0, found {cfg.env_id!r}")
        return {}

    @staticmethod
    def _env_wrappers(cfg: EasyDict, is_train: bool) -> list[Any]:
        return [_NamedParts]
