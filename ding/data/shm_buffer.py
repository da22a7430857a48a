"""Arrays in memory that child processes share."""

import ctypes
import math
from collections.abc import Mapping
from multiprocessing import sharedctypes
from typing import Any

import numpy as np
import torch


class ShmBuffer:
    """One array that this process and its children see.

    Args:
        dtype: of the array.
        shape: of the array.
        copy_on_get: whether :meth:`get` returns a copy; else a view that the next :meth:`fill` changes.
        ctype: ``torch.Tensor``: :meth:`get` returns tensors.
    """

    def __init__(
        self, dtype: "np.dtype | type", shape: tuple[int, ...], copy_on_get: bool = True, ctype: type | None = None
    ) -> None:
        self.dtype = np.dtype(dtype)
        self.shape = tuple(shape)
        self.copy_on_get = copy_on_get
        self.ctype = ctype
        self.buffer = sharedctypes.RawArray(ctypes.c_uint8, self.dtype.itemsize * math.prod(self.shape))

    def _array(self) -> np.ndarray:
        return np.frombuffer(memoryview(self.buffer), dtype=self.dtype).reshape(self.shape)

    def fill(self, src_arr: np.ndarray) -> None:
        """Write an array that can be broadcast to the shape.

        Raises:
            AssertionError: it is no array.
            ValueError: it does not fit.
        """
        if not isinstance(src_arr, np.ndarray):
            raise AssertionError(f"ShmBuffer.fill takes an array, got {type(src_arr).__name__}")
        self._array()[...] = src_arr

    def fits(self, array: object) -> bool:
        """Return whether this is an array of the dtype and shape."""
        return isinstance(array, np.ndarray) and (array.dtype, array.shape) == (self.dtype, self.shape)

    def get(self) -> "np.ndarray | torch.Tensor":
        """Read the array."""
        array = self._array().copy() if self.copy_on_get else self._array()
        return torch.from_numpy(array) if self.ctype is torch.Tensor else array


class ShmBufferContainer:
    """One :class:`ShmBuffer`, or a nested dict of them.

    Args:
        dtype: of the arrays; a dict of dtypes where they differ.
        shape: a shape, or a nested dict of shapes.
        copy_on_get: see :class:`ShmBuffer`.

    Raises:
        RuntimeError: ``shape`` is neither.
    """

    def __init__(self, dtype: Any, shape: object, copy_on_get: bool = True) -> None:
        self._parts: dict[str, ShmBufferContainer] | ShmBuffer
        if isinstance(shape, Mapping):
            self._parts = {
                key: ShmBufferContainer(dtype[key] if isinstance(dtype, Mapping) else dtype, one, copy_on_get)
                for key, one in shape.items()
            }
        elif isinstance(shape, (tuple, list)):
            self._parts = ShmBuffer(dtype, tuple(shape), copy_on_get)
        else:
            raise RuntimeError(f"shape must be a tuple or a dict of shapes, got {type(shape).__name__}")

    def fill(self, src_arr: Any) -> None:
        """Write an array, or a nested dict of them."""
        if isinstance(self._parts, ShmBuffer):
            self._parts.fill(src_arr)
        else:
            for key, part in self._parts.items():
                part.fill(src_arr[key])

    def get(self) -> object:
        """Read the arrays in the same form."""
        return self._parts.get() if isinstance(self._parts, ShmBuffer) else {k: p.get() for k, p in self._parts.items()}

    def fits(self, data: object) -> bool:
        """Return whether these are arrays of the dtypes and shapes, in the same form."""
        if isinstance(self._parts, ShmBuffer):
            return self._parts.fits(data)
        if not isinstance(data, Mapping) or data.keys() != self._parts.keys():
            return False
        return all(part.fits(data[key]) for key, part in self._parts.items())
