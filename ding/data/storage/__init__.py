"""Places where replay buffers keep their rows.

=================  ===============================================================================================
storage            for
=================  ===============================================================================================
`ColumnStorage`    rows of one schema: an array per field
`ElidingStorage`   the same, with observations as references to frames that are stored once
`DeviceStorage`    rows of one schema, as tensors on a device
`ObjectStorage`    anything else, as references
=================  ===============================================================================================

The first two can lie in memory-mapped files.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
