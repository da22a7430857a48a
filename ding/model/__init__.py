"""Networks, and wrappers that convert their outputs to actions."""

# They register models and wrappers.
from ding.model import template, wrapper  # noqa: F401
from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, absent=r"[A-Z]")
