"""Model wrappers by name. The classes live in small private modules; this is their public address."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
