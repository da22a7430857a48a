"""Nested data in one file that can be read without running anything from it.

The file is in the ``safetensors`` format, so any reader of that format finds the arrays in it. What is no array
(nesting, texts, numbers) stands as JSON in the metadata, beside a SHA-256 over the arrays and that JSON.

Layout: 8 bytes little-endian length of the header; the header, JSON padded with blanks to a multiple of 8 bytes; the
bytes of the arrays, one after the other, little-endian and in C order.

Exceptions::

    DataError
    └── SafeFileError (ValueError)    data that cannot be saved, or a file that is broken or not one of ours
"""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ding.data._tree_codec import decode_tree, encode_tree
from ding.data.columns import DataError
from ding.utils.file_helper import atomic_write

_VERSION = "1"
_MAX_HEADER = 1 << 30
_DTYPES = {
    "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
}  # fmt: skip
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}


class SafeFileError(DataError, ValueError):
    """Data that has no safe form, or a file that is broken or of another kind; the message says what and where."""


def write_tree(path: "str | os.PathLike[str]", tree: Any, kind: str, layout: "str | None" = None) -> None:
    """Write ``tree`` whole: a reader sees the old file or all of the new one. The folder is made.

    Args:
        path: the file.
        tree: dicts (keys: texts and ints), lists, tuples, tensors, arrays, ``TransitionBatch``es, texts, numbers and
            ``None``.
        kind: what the file holds; :func:`read_tree` asks for the same.
        layout: form of the data, which other readers find in the metadata; ``None``: no such field.

    Raises:
        SafeFileError: something in ``tree`` has no safe form; the message says where. The file is left as it was.
    """
    arrays: list[np.ndarray] = []
    try:
        structure = json.dumps(encode_tree(tree, arrays))
    except TypeError as error:
        raise SafeFileError(f"cannot save to {os.fspath(path)}: {error}") from error
    header: dict[str, Any] = {}
    offset = 0
    for number, array in enumerate(arrays):
        name = _NAMES.get(array.dtype)
        if name is None:
            raise SafeFileError(f"cannot save to {os.fspath(path)}: an array of {array.dtype} has no safe form")
        header[f"a{number}"] = {
            "dtype": name, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]
        }  # fmt: skip
        offset += array.nbytes
    digest = _digest(structure, arrays)
    header["__metadata__"] = {
        "format": "ding", "version": _VERSION, "kind": kind, "structure": structure, "sha256": digest
    }  # fmt: skip
    if layout is not None:
        header["__metadata__"]["layout"] = layout
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    with atomic_write(path) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for array in arrays:
            file.write(_bytes_of(array))


def read_tree(path: "str | os.PathLike[str]", kind: str) -> Any:
    """Read what :func:`write_tree` wrote; arrays and tensors are writable and share no memory with the file.

    Raises:
        SafeFileError: the file is truncated, was changed, is of another kind or not in this format.
        FileNotFoundError: there is no such file.
    """
    where = os.fspath(path)
    with open(path, "rb") as file:
        raw = bytearray(os.fstat(file.fileno()).st_size)
        file.readinto(raw)
    header, begin = _header(raw, where)
    meta = header.pop("__metadata__", None)
    if not isinstance(meta, Mapping) or meta.get("format") != "ding":
        raise SafeFileError(f"{where} is a safetensors file, but not one that this library wrote")
    if meta.get("version") != _VERSION or meta.get("kind") != kind:
        raise SafeFileError(
            f"{where} holds {meta.get('kind')!r} in version {meta.get('version')!r}, "
            f"expected {kind!r} in version {_VERSION!r}"
        )
    arrays = _arrays(raw, begin, header, where)
    structure = meta.get("structure")
    if not isinstance(structure, str) or _digest(structure, arrays) != meta.get("sha256"):
        raise SafeFileError(f"{where} is damaged: its contents do not have the recorded SHA-256")
    try:
        return decode_tree(json.loads(structure), arrays)
    except (LookupError, TypeError, ValueError) as error:
        raise SafeFileError(f"{where} is damaged: its structure cannot be read ({error})") from error


def _header(raw: bytearray, where: str) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or length > min(_MAX_HEADER, len(raw) - 8):
        raise SafeFileError(f"{where} is truncated or not a safetensors file: {len(raw)} bytes, a header of {length}")
    try:
        header = json.loads(bytes(raw[8 : 8 + length]))
    except ValueError as error:
        raise SafeFileError(f"{where} is not a safetensors file: its header is no JSON") from error
    if not isinstance(header, dict):
        raise SafeFileError(f"{where} is not a safetensors file: its header is no dict")
    return header, 8 + length


def _arrays(raw: bytearray, begin: int, header: Mapping[str, Any], where: str) -> list[np.ndarray]:
    body = memoryview(raw)[begin:]
    arrays = []
    at = 0
    for number in range(len(header)):
        entry = header.get(f"a{number}")
        try:
            dtype = np.dtype(_DTYPES[entry["dtype"]])  # type: ignore[index]
            shape = tuple(int(size) for size in entry["shape"])  # type: ignore[index]
            start, stop = entry["data_offsets"]  # type: ignore[index]
        except (KeyError, TypeError, ValueError) as error:
            raise SafeFileError(f"{where} is damaged: array {number} of its header cannot be read") from error
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        if start != at or stop != at + size or min(shape, default=0) < 0:
            raise SafeFileError(f"{where} is damaged: array {number} does not lie where its shape says")
        if stop > len(body):
            raise SafeFileError(f"{where} is truncated: array {number} ends at byte {stop} of {len(body)}")
        array = np.frombuffer(body[start:stop], dtype=dtype).reshape(shape)
        # Tensors need aligned memory.
        arrays.append(array if array.flags.aligned else array.copy())
        at = stop
    if at != len(body):
        raise SafeFileError(f"{where} is damaged: {len(body) - at} bytes belong to no array")
    return arrays


def _digest(structure: str, arrays: list[np.ndarray]) -> str:
    digest = hashlib.sha256(structure.encode())
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(_bytes_of(array))
    return digest.hexdigest()


def _bytes_of(array: np.ndarray) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
