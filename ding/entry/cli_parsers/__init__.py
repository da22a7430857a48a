"""Options of ``ditask`` from environment variables of a scheduler."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
