"""Env managers: many envs behind one interface."""

# They register env managers.
from ding.envs.env_manager import base_env_manager, gym_vector_env_manager, subprocess_env_manager  # noqa: F401
from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
