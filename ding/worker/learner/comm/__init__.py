"""Communication between a learner and a coordinator. Names are imported on first use."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
