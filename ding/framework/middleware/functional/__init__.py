"""Middleware that are functions; each name is a factory, which returns the middleware."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
