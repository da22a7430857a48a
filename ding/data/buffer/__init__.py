"""Buffers of the middleware pipelines: records with an index and a meta, and middleware around their actions.

The errors are drawn in :mod:`ding.data.buffer.errors`.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
