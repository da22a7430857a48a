"""Middleware of buffers: ``buffer.use(...)``. The protocol stands in :mod:`ding.data.buffer.buffer`."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
