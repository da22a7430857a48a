"""The env contract, its implementation over gymnasium, and a checker."""

# Registers the env type 'gymnasium'.
from ding.envs.env import ding_env_wrapper  # noqa: F401
from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
