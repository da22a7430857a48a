"""Env managers: interface to many envs at once."""

# They register env managers.
from ding.envs.env_manager import base_env_manager, gym_vector_env_manager, subprocess_env_manager  # noqa: F401
from ding.utils import ENV_MANAGER_REGISTRY
from ding.utils.exports import lazy_exports, register_lazily

for alias in ("env_pool", "envpool"):
    register_lazily(ENV_MANAGER_REGISTRY, alias, "ding.envs.env_manager.envpool_env_manager:PoolEnvManager")

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
