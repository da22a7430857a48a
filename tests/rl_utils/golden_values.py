"""Inputs of the golden vectors: a sine over the flat index, and integers modulo m."""

import numpy as np
import torch


def f(shape, phase=0.0):
    """``sin(0.7 k + phase)`` for k = 0, 1, ... in row-major order, computed in float64 and given as float32."""
    shape = (shape,) if isinstance(shape, int) else shape
    k = np.arange(int(np.prod(shape)), dtype=np.float64)
    return torch.as_tensor(np.sin(0.7 * k + phase).reshape(shape).astype(np.float32))


def ints(shape, modulo):
    """``k mod modulo`` in row-major order, int64."""
    shape = (shape,) if isinstance(shape, int) else shape
    return (torch.arange(int(np.prod(shape))) % modulo).view(shape)


def flat(value):
    """All numbers of nested results, row-major."""
    if isinstance(value, (tuple, list)):
        return [number for part in value for number in flat(part)]
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return [float(number) for number in value.reshape(-1).tolist()]
    return [float(value)]


def assert_golden(actual, expected, atol=1e-5):
    actual, expected = flat(actual), flat(expected)
    assert len(actual) == len(expected)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


def changed(data, **fields):
    """The named tuple ``data`` with some fields replaced."""
    return type(data)(**(data._asdict() | fields))
