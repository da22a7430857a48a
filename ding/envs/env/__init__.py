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
from ding.envs.env.env_implementation_check import (
    check_all,
    check_array_space,
    check_different_memory,
    check_obs_deepcopy,
    check_reset,
    check_space_dtype,
    check_step,
    demonstrate_correct_procedure,
)

__all__ = [
    "BaseEnv",
    "BaseEnvTimestep",
    "DingEnvWrapper",
    "check_all",
    "check_array_space",
    "check_different_memory",
    "check_obs_deepcopy",
    "check_reset",
    "check_space_dtype",
    "check_step",
    "create_model_env",
    "demonstrate_correct_procedure",
    "get_default_wrappers",
    "get_env_cls",
    "get_vec_env_setting",
]
