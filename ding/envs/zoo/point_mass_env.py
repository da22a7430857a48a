"""Point mass in the plane that must pass a disc on either side."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ding.data import BaseEnvTimestep
from ding.envs.contract import Obs
from ding.envs.env.base_env import BaseEnv
from ding.utils import ENV_REGISTRY

_GOAL = np.array([0.8, 0.0])
_GOAL_RADIUS, _DISC_RADIUS = 0.15, 0.35
_DAMPING, _FORCE = 0.7, 0.03
_STEP_COST = 0.02


@ENV_REGISTRY.register("point_mass")
class PointMassEnv(BaseEnv):
    """Push a point from the left of a disc to the goal on its right.

    The observation is float32 ``(4,)``: position in ``[-1, 1]^2`` and velocity. The action is float32 ``(2,)``, the
    force in ``[-1, 1]^2``; velocities are ``0.7 v + 0.03 action``. The point starts at rest near ``(-0.8, 0)``; the
    disc is at ``(0, 0)`` with radius 0.35, the goal at ``(0.8, 0)`` with radius 0.15. The reward of a step is the
    decrease of the distance to the goal, minus 0.02, plus 1 at the goal and minus 1 at the disc, which both end the
    episode. The episode is truncated after ``max_step`` steps.

    The fastest paths have a return of about 2. Both sides are equally good, and their mean hits the disc: a policy that
    predicts the mean action of a data set fails.

    Args:
        cfg: ``max_step`` (default 80).

    Raises:
        ValueError: ``max_step`` is below 1.
    """

    def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
        self._max_step = int((cfg or {}).get("max_step", 80))
        if self._max_step < 1:
            raise ValueError(f"env.max_step must be at least 1, found {self._max_step}")
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.reward_space = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)
        self._seed: int | None = None
        self._dynamic_seed = True
        self._rng = np.random.default_rng()
        self._position, self._velocity = np.zeros(2), np.zeros(2)
        self._num_steps, self._return = 0, 0.0

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """See :class:`BaseEnv`."""
        self._seed, self._dynamic_seed = seed, dynamic_seed
        self._rng = np.random.default_rng(seed)

    def reset(self, **kwargs: Any) -> Obs:
        """Place the point at its start and return the first observation."""
        if self._seed is not None and not self._dynamic_seed:
            self._rng = np.random.default_rng(self._seed)
        self._position = np.array([-0.8, 0.0]) + self._rng.uniform(-0.05, 0.05, 2)
        self._velocity = np.zeros(2)
        self._num_steps, self._return = 0, 0.0
        return self._obs()

    def step(self, action: npt.ArrayLike) -> BaseEnvTimestep:  # type: ignore[override]
        """Apply a force for one step.

        Raises:
            ValueError: The action is not two finite numbers. Values beyond 1 are clipped.
        """
        force = np.asarray(action, np.float64).reshape(-1)
        if force.shape != (2,) or not np.isfinite(force).all():
            raise ValueError(f"the action is two finite numbers, found {action!r}")
        before = np.linalg.norm(self._position - _GOAL)
        self._velocity = _DAMPING * self._velocity + _FORCE * force.clip(-1, 1)
        self._position = (self._position + self._velocity).clip(-1, 1)
        after = np.linalg.norm(self._position - _GOAL)
        self._num_steps += 1
        won, hit = after < _GOAL_RADIUS, np.linalg.norm(self._position) < _DISC_RADIUS
        reward = float(before - after - _STEP_COST + float(won) - float(hit))
        self._return += reward
        over = bool(won or hit)
        truncated = not over and self._num_steps >= self._max_step
        info: dict[str, Any] = {"eval_episode_return": self._return} if over or truncated else {}
        if truncated:
            info["TimeLimit.truncated"] = True
        return BaseEnvTimestep(self._obs(), np.array([reward], dtype=np.float32), over or truncated, info)

    def _obs(self) -> np.ndarray:
        return np.concatenate([self._position, self._velocity]).astype(np.float32)

    def random_action(self) -> np.ndarray:
        """Return a random force, float32 ``(2,)``."""
        return self._rng.uniform(-1, 1, 2).astype(np.float32)

    def close(self) -> None:
        """Do nothing; the env holds no resources."""

    def __repr__(self) -> str:
        return f"PointMassEnv({self._max_step} steps)"
