"""The env contract, its implementation over gymnasium, and a checker."""

from ding.envs.env.base_env import (
    BaseEnv,
    BaseEnvTimestep,
    create_model_env,
    get_env_cls,
    get_vec_env_setting,
)

__all__ = ["BaseEnv", "BaseEnvTimestep", "create_model_env", "get_env_cls", "get_vec_env_setting"]
