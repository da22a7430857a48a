"""Env wrappers by name.

Every wrapper is a :class:`gymnasium.Wrapper`; those with a registered name can be listed in ``cfg.env_wrapper``.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
