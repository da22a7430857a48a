"""Buffers of the middleware pipelines: records with an index and a meta, and middleware around their actions.

The errors are drawn in :mod:`ding.data.buffer.errors`.
"""

from ding.data.buffer._records import IndexArray, RecordBatch
from ding.data.buffer.buffer import Buffer, BufferedData, apply_middleware, batch_aware
from ding.data.buffer.deque_buffer import BufferIndex, DequeBuffer
from ding.data.buffer.deque_buffer_wrapper import DequeBufferWrapper
from ding.data.buffer.errors import (
    EmptyBufferError,
    NotEnoughDataError,
    SampleArgumentError,
    SampleError,
    UnknownIndexError,
)

__all__ = [
    "Buffer",
    "BufferIndex",
    "BufferedData",
    "DequeBuffer",
    "DequeBufferWrapper",
    "EmptyBufferError",
    "IndexArray",
    "NotEnoughDataError",
    "RecordBatch",
    "SampleArgumentError",
    "SampleError",
    "UnknownIndexError",
    "apply_middleware",
    "batch_aware",
]
