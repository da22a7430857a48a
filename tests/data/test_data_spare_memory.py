"""Memory that arrays use one after the other."""

import numpy as np
import torch

from ding.data.spare_memory import SpareMemory

F32 = np.dtype(np.float32)
SHAPE = (256, 64)
SIZE = 256 * 64 * 4


def place(array: np.ndarray) -> int:
    return array.ctypes.data


def test_memory_is_used_again_when_the_last_view_is_gone() -> None:
    memory = SpareMemory(4 * SIZE)
    array = memory.empty(SHAPE, F32)
    array[...] = 7.0
    first, row = place(array), torch.from_numpy(array[3:5])[1]
    del array
    other = memory.empty(SHAPE, F32)
    other[...] = 8.0
    assert place(other) != first
    assert row.tolist() == [7.0] * 64
    del row
    # Of another dtype and shape, but as many bytes.
    again = memory.empty((64, 256), np.dtype(np.int32))
    assert place(again) == first
    again[...] = 9
    assert (other == 8.0).all()


def test_no_more_is_kept_than_the_limit() -> None:
    memory = SpareMemory(2 * SIZE)
    arrays = [memory.empty(SHAPE, F32) for _ in range(5)]
    assert len({place(array) for array in arrays}) == 5
    for i, array in enumerate(arrays):
        array[...] = i
    assert [float(array.mean()) for array in arrays] == [0, 1, 2, 3, 4]
    kept = {place(array) for array in arrays[:2]}
    del array, arrays
    assert {place(array) for array in [memory.empty(SHAPE, F32) for _ in range(2)]} == kept
    # Arrays of another size take the place of those that nobody has.
    large = memory.empty((2, *SHAPE), F32)
    at = place(large)
    del large
    assert place(memory.empty((2, *SHAPE), F32)) == at


def test_small_arrays_are_ordinary_ones() -> None:
    memory = SpareMemory(2 * SIZE)
    assert memory.empty((3,), F32).shape == (3,)
    assert memory.empty((0, 5), F32).shape == (0, 5)
