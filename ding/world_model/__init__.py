"""Models of what an env does: its steps (world models), and the actions between observations."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, absent=r"[A-Z]|create_|get_")
