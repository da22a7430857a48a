"""Models that estimate the rewards of transitions, or relabel their goals."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, absent=r"[A-Z]|create_|get_")
