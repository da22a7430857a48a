"""Containers between threads: a cache whose items expire, and a bounded stack."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
