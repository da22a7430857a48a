"""Places where replay buffers keep their rows."""

from ding.data.storage._choose import StorageOptions, columns_of, make_storage
from ding.data.storage.base import Storage
from ding.data.storage.column_storage import ColumnStorage
from ding.data.storage.object_storage import ObjectStorage

__all__ = ["ColumnStorage", "ObjectStorage", "Storage", "StorageOptions", "columns_of", "make_storage"]
