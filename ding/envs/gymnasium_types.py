"""Types of Gymnasium envs for annotations, and helpers that read them."""

from typing import Any, cast

import gymnasium

from ding.envs.contract import scalar as scalar
from ding.envs.env.base_env import EnvConfigError

Step = tuple[Any, Any, bool, bool, dict[str, Any]]
Reset = tuple[Any, dict[str, Any]]
AnyEnv = gymnasium.Env[Any, Any]
AnyWrapper = gymnasium.Wrapper[Any, Any, Any, Any]


def box_of(env: AnyEnv, wrapper: object) -> gymnasium.spaces.Box:
    """Return the observation space of an env whose observations are arrays.

    Raises:
        EnvConfigError: The observations are not arrays; the message names ``wrapper``, which requires them.
    """
    space = env.observation_space
    if not hasattr(space, "low"):  # a Box, also of old gym
        name = type(wrapper).__name__
        raise EnvConfigError(f"env.env_wrapper: {name} needs observations of one array (a Box), but they are {space}")
    return cast(gymnasium.spaces.Box, space)
