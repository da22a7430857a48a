"""Reading, compiling, checking and saving configs (floor 3). The errors are drawn in ``ding.config.errors``."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
