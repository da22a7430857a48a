"""MiniGrid (extra ``minigrid``) with vector observations."""

from functools import partial
from typing import Any, ClassVar

import numpy as np
from easydict import EasyDict

from ding.envs.env_wrappers import FlatObsWrapper
from ding.envs.gymnasium_types import AnyEnv, AnyWrapper, Reset, Step, scalar
from ding.envs.zoo._zoo_env import ZooEnv, previous_step_wrappers
from ding.utils import ENV_REGISTRY, require_extra


class _StepLimit(AnyWrapper):
    """Truncates after ``max_step`` steps, instead of the env's limit; infos have ``current_step`` and ``max_step``."""

    def __init__(self, env: AnyEnv, max_step: int) -> None:
        super().__init__(env)
        self._max_step = max_step
        self._current_step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        self._current_step = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: object) -> Step:
        obs, reward, terminated, _, info = self.env.step(action)
        self._current_step += 1
        info.update(current_step=self._current_step, max_step=self._max_step)
        return obs, reward, terminated, self._current_step >= self._max_step, info


class _MoveBonus(AnyWrapper):
    """Rewards the decrease of the distance to the lower right corner, as a fraction of the grid's diagonal."""

    def step(self, action: object) -> Step:
        before = self._way()
        obs, reward, terminated, truncated, info = self.env.step(action)
        grid: Any = self.unwrapped
        bonus = (before - self._way()) / np.hypot(grid.width, grid.height)
        return obs, scalar(reward) + bonus, terminated, truncated, info

    def _way(self) -> float:
        grid: Any = self.unwrapped
        return float(np.hypot(grid.width - 2 - grid.agent_pos[0], grid.height - 2 - grid.agent_pos[1]))


@ENV_REGISTRY.register("minigrid")
class MiniGridEnv(ZooEnv):
    """Grid with a task described in words: seven actions, and a final reward below 1 that decreases with time.

    The observation is float32: the cells in view, row by row (type, colour, state), followed by the letters of the
    task, one-hot, see :class:`FlatObsWrapper`: ``(2835,)`` for a 7 x 7 view. With ``flat_obs: False`` it is MiniGrid's
    dict. Ids are those of MiniGrid (``MiniGrid-...``); DI-engine's additional envs (``AKTDT``) are not supported.
    """

    config: ClassVar[dict[str, Any]] = {
        "env_id": "MiniGrid-KeyCorridorS3R3-v0",
        "flat_obs": True,
        # Observe the whole grid instead of the agent's view.
        "full_obs": False,
        # Encode cells in 20 bits instead of three numbers.
        "onehot_obs": False,
        # Add a reward for moves towards the lower right corner, where most grids have their goal.
        "move_bonus": False,
        # Steps after which an episode is truncated, instead of the env's limit.
        "max_step": None,
        "obs_plus_prev_action_reward": False,
    }

    @staticmethod
    def _env_wrappers(cfg: EasyDict, is_train: bool) -> list[Any]:
        wrappers = require_extra("minigrid.wrappers", "minigrid")
        chosen: list[Any] = [partial(_StepLimit, max_step=cfg.max_step)] if cfg.max_step else []
        if cfg.full_obs:
            chosen.append(wrappers.FullyObsWrapper)
        if cfg.onehot_obs:
            chosen.append(wrappers.OneHotPartialObsWrapper)
        if cfg.move_bonus:
            chosen.append(_MoveBonus)
        if cfg.flat_obs:
            chosen.append(FlatObsWrapper)
        return chosen + previous_step_wrappers(cfg)
