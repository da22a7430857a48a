"""Reading, compiling, checking and saving of configs (floor 3). ``ding.config.errors`` shows the errors."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
