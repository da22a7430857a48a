"""What Gymnasium's envs take and return, for annotations, and readings of it."""

from typing import Any, cast

import gymnasium

from ding.envs.contract import scalar as scalar

Step = tuple[Any, Any, bool, bool, dict[str, Any]]
Reset = tuple[Any, dict[str, Any]]
AnyEnv = gymnasium.Env[Any, Any]
AnyWrapper = gymnasium.Wrapper[Any, Any, Any, Any]


def box_of(env: AnyEnv) -> gymnasium.spaces.Box:
    """The observation space of an env whose observations are arrays."""
    return cast(gymnasium.spaces.Box, env.observation_space)
