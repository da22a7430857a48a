"""Models of what an env does. Of those of DI-engine, the model of actions between observations is built."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, absent=r"[A-Z]|create_|get_")
