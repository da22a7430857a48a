"""Transitions and per-environment values, stored as columns that behave like lists and dicts.

Exceptions::

    DataError
    ├── SchemaError (ValueError)    rows or columns that do not fit together
    ├── SafeFileError (ValueError)  files that are broken or foreign, see ding.data.safe_file
    └── SampleError (ValueError)    what a buffer cannot give, see ding.data.buffer

The buffers and the names of torch and ``ding.utils.data`` are imported on first use.
"""

from ding.utils.exports import lazy_exports, register_lazily
from ding.utils.registry_factory import BUFFER_REGISTRY

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)

register_lazily(BUFFER_REGISTRY, "deque", "ding.data.buffer.deque_buffer_wrapper:DequeBufferWrapper")
