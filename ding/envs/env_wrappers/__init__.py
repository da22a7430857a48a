"""Env wrappers; see :mod:`ding.envs.env_wrappers.env_wrappers`."""

# Registers the wrappers.
from ding.envs.env_wrappers import _creating  # noqa: F401
from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
