"""The data plane: transitions and per-environment values as columns that look like lists and dicts.

Exceptions::

    DataError
    ├── SchemaError (ValueError)    rows or columns that do not fit together
    ├── SafeFileError (ValueError)  files that are broken or foreign, see ding.data.safe_file
    └── SampleError (ValueError)    what a buffer cannot give, see ding.data.buffer

The buffers and the names of torch and ``ding.utils.data`` are imported when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ding.data.batched import batched, is_batched
from ding.data.columns import DataError, SchemaError
from ding.data.env_batch import BaseEnvTimestep, EnvBatch, TimestepBatch
from ding.data.trajectory_store import TrajectoryStore
from ding.data.transition_batch import TransitionBatch
from ding.utils import BUFFER_REGISTRY, did_you_mean

if TYPE_CHECKING:
    from torch.utils.data import DataLoader, Dataset

    from ding.data.buffer import Buffer, BufferedData, DequeBuffer, apply_middleware
    from ding.data.buffer.deque_buffer_wrapper import DequeBufferWrapper
    from ding.utils.data import create_dataset, offline_data_save_type

__all__ = [
    "BaseEnvTimestep",
    "Buffer",
    "BufferedData",
    "DataError",
    "DataLoader",
    "Dataset",
    "DequeBuffer",
    "DequeBufferWrapper",
    "EnvBatch",
    "SchemaError",
    "TimestepBatch",
    "TrajectoryStore",
    "TransitionBatch",
    "apply_middleware",
    "batched",
    "create_dataset",
    "is_batched",
    "offline_data_save_type",
]

_LAZY = {
    **dict.fromkeys(["Buffer", "BufferedData", "DequeBuffer", "apply_middleware"], "ding.data.buffer"),
    "DequeBufferWrapper": "ding.data.buffer.deque_buffer_wrapper",
    **dict.fromkeys(["DataLoader", "Dataset"], "torch.utils.data"),
    **dict.fromkeys(["create_dataset", "offline_data_save_type"], "ding.utils.data"),
}
# Names of the original API for what shares files and memory between the processes of a task; not here yet.
_NOT_THERE = frozenset(
    ["FileModelLoader", "FileModelStorage", "FileStorage", "FileStorageLoader", "ModelLoader", "ShmBuffer",
     "ShmBufferContainer", "Storage", "StorageLoader"]
)  # fmt: skip

BUFFER_REGISTRY.register("deque", "ding.data.buffer.deque_buffer_wrapper:DequeBufferWrapper")


def __getattr__(name: str) -> Any:
    if name in _NOT_THERE:
        raise ImportError(f"{__name__}.{name}: storage and model loaders are not part of this version", name=name)
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{did_you_mean(name, __all__)}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
