"""Learner, which updates a policy on batches of samples, and its hooks."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, absent=r"[A-Z]")
