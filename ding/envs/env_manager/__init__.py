"""Env managers: many envs behind one interface."""

from ding.envs.env_manager.base_env_manager import (
    BaseEnvManager,
    BaseEnvManagerV2,
    EnvCrashedError,
    EnvDataError,
    EnvManagerError,
    EnvResetError,
    EnvState,
    EnvStepError,
    EnvTimeoutError,
    create_env_manager,
    get_env_manager_cls,
)
from ding.envs.env_manager.ding_env_manager import setup_ding_env_manager
from ding.envs.env_manager.gym_vector_env_manager import GymVectorEnvManager
from ding.envs.env_manager.subprocess_env_manager import (
    AsyncSubprocessEnvManager,
    SubprocessEnvManagerV2,
    SyncSubprocessEnvManager,
)

__all__ = [
    "AsyncSubprocessEnvManager",
    "BaseEnvManager",
    "BaseEnvManagerV2",
    "EnvCrashedError",
    "EnvDataError",
    "EnvManagerError",
    "EnvResetError",
    "EnvState",
    "EnvStepError",
    "EnvTimeoutError",
    "GymVectorEnvManager",
    "SubprocessEnvManagerV2",
    "SyncSubprocessEnvManager",
    "create_env_manager",
    "get_env_manager_cls",
    "setup_ding_env_manager",
]
