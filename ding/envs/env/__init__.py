"""The env contract, its implementation over gymnasium, and a checker."""

from ding.envs.env.base_env import (
    BaseEnv,
    BaseEnvTimestep,
    create_model_env,
    get_env_cls,
    get_vec_env_setting,
)
from ding.envs.env.default_wrapper import get_default_wrappers
from ding.envs.env.ding_env_wrapper import DingEnvWrapper

__all__ = [
    "BaseEnv",
    "BaseEnvTimestep",
    "DingEnvWrapper",
    "create_model_env",
    "get_default_wrappers",
    "get_env_cls",
    "get_vec_env_setting",
]
