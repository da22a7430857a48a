"""Compressors for samples in transit, without pickle.

The bytes have the format of ``ding.utils.file_helper.save_file``: tensors, arrays and plain containers, read with
``weights_only=True``.
"""

import importlib
import pickle
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from ding.utils import _plain_data
from ding.utils.import_helper import require_extra
from ding.utils.names import check_choice
from ding.utils.nested import Tree

T = TypeVar("T")


class CloudPickleWrapper:
    """Carry an env function to a child process. It is pickled by value, lambdas and closures included.

    For child processes of this process only; never unpickle data from another source.
    """

    def __init__(self, data: object) -> None:
        self.data: Any = data

    def __getstate__(self) -> bytes:
        import cloudpickle  # type: ignore[import-untyped]

        raw: bytes = cloudpickle.dumps(self.data)
        return raw

    def __setstate__(self, state: bytes) -> None:
        self.data = pickle.loads(state)  # noqa: S301 - only the parent process writes to this pipe


def dummy_compressor(data: T) -> T:
    """Return the data unchanged."""
    return data


def zlib_data_compressor(data: object) -> bytes:
    """Compress plain data (see the module) to bytes."""
    return zlib.compress(_plain_data.dumps(data))


def zlib_data_decompressor(compressed_data: bytes) -> Tree:
    """Return the inverse of ``zlib_data_compressor``."""
    return _plain_data.loads(zlib.decompress(compressed_data))


def _lz4() -> ModuleType:
    try:
        return importlib.import_module("lz4.block")
    except ImportError as error:
        raise ImportError("the compressor 'lz4' needs the package lz4; install it with: pip install lz4") from error


def lz4_data_compressor(data: object) -> bytes:
    """Compress plain data (see the module) to bytes. Requires the package ``lz4``."""
    raw: bytes = _lz4().compress(_plain_data.dumps(data))
    return raw


def lz4_data_decompressor(compressed_data: bytes) -> Tree:
    """Return the inverse of ``lz4_data_compressor``."""
    return _plain_data.loads(_lz4().decompress(compressed_data))


def jpeg_data_compressor(data: np.ndarray) -> bytes:
    """Compress an image, uint8 ``[H, W, 3]`` or ``[H, W]``, to JPEG bytes; lossy. Requires OpenCV."""
    cv2 = require_extra("cv2", "atari")
    done, encoded = cv2.imencode(".jpg", data)
    if not done:
        raise ValueError(f"cannot encode an array of shape {data.shape} and dtype {data.dtype} as JPEG")
    raw: bytes = encoded.tobytes()
    return raw


def jpeg_data_decompressor(compressed_data: bytes, gray_scale: bool = False) -> np.ndarray:
    """Decompress JPEG bytes to an image, uint8 ``[H, W, 3]``, or ``[H, W]`` with ``gray_scale``. Requires OpenCV."""
    cv2 = require_extra("cv2", "atari")
    flag = cv2.IMREAD_GRAYSCALE if gray_scale else cv2.IMREAD_COLOR
    image: np.ndarray = cv2.imdecode(np.frombuffer(compressed_data, dtype=np.uint8), flag)
    if image is None:
        raise ValueError("the bytes are not a JPEG image")
    return image


_COMPRESSORS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "lz4": (lz4_data_compressor, lz4_data_decompressor),
    "zlib": (zlib_data_compressor, zlib_data_decompressor),
    "jpeg": (jpeg_data_compressor, jpeg_data_decompressor),
    "none": (dummy_compressor, dummy_compressor),
}


def _pair(name: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    check_choice("compressor", name, _COMPRESSORS, KeyError)
    return _COMPRESSORS[name]


def get_data_compressor(name: str) -> Callable[[Any], Any]:
    """Return the compressor ``'lz4'``, ``'zlib'``, ``'jpeg'`` or ``'none'``. Raises ``KeyError`` for another name."""
    return _pair(name)[0]


def get_data_decompressor(name: str) -> Callable[[Any], Any]:
    """Return the inverse of ``get_data_compressor(name)``. Raises ``KeyError`` for another name."""
    return _pair(name)[1]
