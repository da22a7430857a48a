"""Middleware as functions; each name is a factory that returns the middleware."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
