"""The env contract, env wrappers and env managers."""

# They register envs, env managers and wrappers.
from ding.envs import env, env_manager, env_wrappers  # noqa: F401
from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
