"""Places where replay buffers keep their rows.

=================  ===============================================================================================
storage            for
=================  ===============================================================================================
`ColumnStorage`    rows of one schema: an array per large field, one record array for all small ones
`ElidingStorage`   the same, with observations as references to frames that are stored once
`DeviceStorage`    rows of one schema, as tensors on a device
`ObjectStorage`    anything else, as references
=================  ===============================================================================================

The first two can lie in memory-mapped files.
"""

from ding.data.storage._choose import StorageOptions, columns_of, make_storage
from ding.data.storage._elided_rows import ElidedRows, is_elided
from ding.data.storage._filled import filled_storage
from ding.data.storage._packed import PackedRows, RecordLayout, record_layout_of
from ding.data.storage._saved_rows import SavedRows
from ding.data.storage.base import Storage
from ding.data.storage.column_storage import ColumnStorage
from ding.data.storage.device_storage import DeviceStorage
from ding.data.storage.eliding_storage import ElidingStorage
from ding.data.storage.mapped import MappedFiles
from ding.data.storage.object_storage import ObjectStorage, copied_batch

__all__ = [
    "ColumnStorage",
    "DeviceStorage",
    "ElidedRows",
    "ElidingStorage",
    "MappedFiles",
    "ObjectStorage",
    "PackedRows",
    "RecordLayout",
    "SavedRows",
    "Storage",
    "StorageOptions",
    "columns_of",
    "copied_batch",
    "filled_storage",
    "is_elided",
    "make_storage",
    "record_layout_of",
]
