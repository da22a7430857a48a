"""Floor 1: registries, logging, timers, files, distributed helpers and collate. Imports nothing else of ding."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
