"""Places where replay buffers keep their rows.

=================  ===============================================================================================
storage            for
=================  ===============================================================================================
`ColumnStorage`    rows of one schema: an array per field; deduplicated observations as references to frames
`DeviceStorage`    rows of one schema, as tensors on a device
`ObjectStorage`    anything else, as references
=================  ===============================================================================================

They can lie in memory-mapped files.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
