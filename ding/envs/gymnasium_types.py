"""What Gymnasium's envs take and return, for annotations, and readings of it."""

from typing import Any, cast

import gymnasium
import numpy as np

Step = tuple[Any, Any, bool, bool, dict[str, Any]]
Reset = tuple[Any, dict[str, Any]]
AnyEnv = gymnasium.Env[Any, Any]
AnyWrapper = gymnasium.Wrapper[Any, Any, Any, Any]


def scalar(reward: object) -> float:
    """A reward as a float; it may be a Python or numpy number or an array of one element."""
    return float(reward) if isinstance(reward, (int, float)) else float(np.asarray(reward).item())


def box_of(env: AnyEnv) -> gymnasium.spaces.Box:
    """The observation space of an env whose observations are arrays."""
    return cast(gymnasium.spaces.Box, env.observation_space)
