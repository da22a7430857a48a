"""Nested data in one file that can be read without running anything from it.

The file is in the ``safetensors`` format, so any reader of that format finds the arrays in it. What is no array
(nesting, texts, numbers) stands as JSON in the metadata, beside a SHA-256 over the arrays and that JSON.

Arrays are written and checked a part at a time, so those that lie on a disk may be larger than memory. That is why the
bytes are not left to the ``safetensors`` package, as those of :mod:`ding.parallel.planes` are: it wants all arrays in
memory to write them, maps what it reads in a way that the system refuses above the size of memory, and ends at headers
of 100 MB, which a buffer of ragged rows may pass.

Layout: 8 bytes little-endian length of the header; the header, JSON padded with blanks to a multiple of 8 bytes; the
bytes of the arrays, one after the other, little-endian and in C order.

Exceptions::

    DataError
    └── SafeFileError (ValueError)    data that cannot be saved, or a file that is broken or not one of ours
"""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from ding.data._maps import private_map
from ding.data.columns import DataError
from ding.data.tree_codec import ArrayLike, decode_tree, encode_tree
from ding.utils.file_helper import atomic_write
from ding.utils.nested import Tree

# As many axes as torch's arrays and older numpy's may have.
_MAX_DIMS = 32
_DTYPES = {
    "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
}  # fmt: skip
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}
_VERSION = "1"
_MAX_HEADER = 1 << 30
# Bytes of an array that are written or hashed at a time: they stay in the cache in between.
_PART_BYTES = 1 << 20
# As large as the digest, which is known when all parts are written.
_NO_DIGEST = "0" * 64
_DIGEST_KEY = b'"sha256": "'


class SafeFileError(DataError, ValueError):
    """Data that has no safe form, or a file that is broken or of another kind; the message says what and where."""


def write_tree(path: "str | os.PathLike[str]", tree: Any, kind: str, layout: "str | None" = None) -> None:
    """Write ``tree`` whole: a reader sees the old file or all of the new one. The folder is made.

    Args:
        path: the file.
        tree: dicts (keys: texts and ints), lists, tuples, tensors, arrays, ``TransitionBatch``es, texts, numbers and
            ``None``. Rows that a storage gives as :class:`~ding.data.tree_codec.PickedRows` are read as they are
            written.
        kind: what the file holds; :func:`read_tree` asks for the same.
        layout: form of the data, which other readers find in the metadata; ``None``: no such field.

    Raises:
        SafeFileError: something in ``tree`` has no safe form; the message says where. The file is left as it was.
    """
    arrays: list[ArrayLike] = []
    try:
        structure = json.dumps(encode_tree(tree, arrays))
    except (RecursionError, TypeError) as error:
        raise SafeFileError(f"cannot save to {os.fspath(path)}: {error}") from error
    header: dict[str, Any] = {}
    offset = 0
    for number, array in enumerate(arrays):
        name, shape = _NAMES.get(array.dtype), array.shape
        if name is None or len(shape) > _MAX_DIMS:
            raise SafeFileError(
                f"cannot save to {os.fspath(path)}: an array of {array.dtype} with {len(shape)} axes has no safe form"
            )
        end = offset + array.dtype.itemsize * math.prod(shape)
        header[f"a{number}"] = {"dtype": name, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    header["__metadata__"] = {
        "format": "ding", "version": _VERSION, "kind": kind, "structure": structure, "sha256": _NO_DIGEST
    }  # fmt: skip
    if layout is not None:
        header["__metadata__"]["layout"] = layout
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    digest = hashlib.sha256(structure.encode())
    with atomic_write(path) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for array in arrays:
            digest.update(_kind_of(array))
            for part in _parts(array):
                digest.update(part)
                file.write(part)
        # Quotes within texts are escaped, so this is the key.
        file.seek(8 + text.rindex(_DIGEST_KEY) + len(_DIGEST_KEY))
        file.write(digest.hexdigest().encode())


def read_tree(path: "str | os.PathLike[str]", kind: str, mapped: bool = False) -> Tree:
    """Read what :func:`write_tree` wrote; arrays and tensors are writable and share no memory with the file.

    What the header says is checked against the size of the file before any array is read.

    Args:
        path: the file.
        kind: what it must hold.
        mapped: leave the arrays in the file, for those that do not fit in memory. They lie as they do there, perhaps
            not aligned; to write to them does not change the file. Copy what you keep of them.

    Raises:
        SafeFileError: the file is truncated, was changed, is of another kind or not in this format.
        FileNotFoundError: there is no such file.
    """
    where = os.fspath(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        header = _header(file, size, where)
        meta = header.pop("__metadata__", None)
        if not isinstance(meta, Mapping) or meta.get("format") != "ding":
            raise SafeFileError(f"{where} is a safetensors file, but not one that this library wrote")
        if meta.get("version") != _VERSION or meta.get("kind") != kind:
            raise SafeFileError(
                f"{where} holds {meta.get('kind')!r} in version {meta.get('version')!r}, "
                f"expected {kind!r} in version {_VERSION!r}"
            )
        begin = file.tell()
        try:
            layout = _checked_layout(header, size - begin)
        except ValueError as error:
            raise SafeFileError(f"{where} is truncated or damaged: {error}") from error
        body = memoryview(private_map(file, size))[begin:] if mapped else bytearray(size - begin)
        if not mapped:
            file.readinto(body)
    arrays = [np.frombuffer(body, dtype, math.prod(shape), at).reshape(shape) for dtype, shape, at in layout]
    if not mapped:
        # Tensors need aligned memory.
        arrays = [array if array.flags.aligned else array.copy() for array in arrays]
    structure = meta.get("structure")
    # A text may hold half of a surrogate pair, which has no form in UTF-8; what this library writes is ASCII.
    if not isinstance(structure, str) or not structure.isascii() or _digest(structure, arrays) != meta.get("sha256"):
        raise SafeFileError(f"{where} is damaged: its contents do not have the recorded SHA-256")
    try:
        return decode_tree(json.loads(structure), arrays)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise SafeFileError(f"{where} is damaged: its structure cannot be read ({error})") from error


def _header(file: BinaryIO, size: int, where: str) -> dict[str, Any]:
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(_MAX_HEADER, size - 8):
        raise SafeFileError(f"{where} is truncated or not a safetensors file: {size} bytes, a header of {length}")
    try:
        header = json.loads(file.read(length))
    except (RecursionError, ValueError) as error:
        raise SafeFileError(f"{where} is not a safetensors file: its header is no JSON") from error
    if not isinstance(header, dict):
        raise SafeFileError(f"{where} is not a safetensors file: its header is no dict")
    return header


def _digest(structure: str, arrays: Sequence[np.ndarray]) -> str:
    digest = hashlib.sha256(structure.encode())
    for array in arrays:
        digest.update(_kind_of(array))
        for part in _parts(array):
            digest.update(part)
    return digest.hexdigest()


def _kind_of(array: ArrayLike) -> bytes:
    """What the digest knows of an array beside its bytes."""
    return f"{array.dtype.str}{array.shape}".encode()


def _parts(array: ArrayLike) -> Iterator[Any]:
    """The bytes of an array, in pieces of whole rows."""
    shape = array.shape or (1,)
    row_bytes = array.dtype.itemsize * math.prod(shape[1:])
    if isinstance(array, np.ndarray):
        array = array.reshape(shape)
    step = max(1, _PART_BYTES // max(1, row_bytes))
    for begin in range(0, shape[0] if row_bytes else 0, step):
        yield np.ascontiguousarray(array[begin : begin + step]).reshape(-1).view(np.uint8)


def _checked_layout(header: Mapping[str, Any], nbytes: int) -> list[tuple[np.dtype, tuple[int, ...], int]]:
    """dtype, shape and first byte of the arrays ``a0``, ``a1``, ..., which together cover ``nbytes`` exactly.

    Args:
        header: the entries of the arrays, nothing else.
        nbytes: size of what follows the header.

    Raises:
        ValueError: an entry cannot be read or contradicts itself, or the arrays overlap, leave gaps, or do not end
            where the file does.
    """
    layout = []
    spans = []
    for number in range(len(header)):
        entry = header.get(f"a{number}")
        if not isinstance(entry, Mapping) or not isinstance(entry.get("dtype"), str) or entry["dtype"] not in _DTYPES:
            raise ValueError(f"array {number} is missing or has an unknown dtype")
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        shape = _whole_numbers(entry.get("shape"))
        span = _whole_numbers(entry.get("data_offsets"))
        if shape is None or len(shape) > _MAX_DIMS or span is None or len(span) != 2:
            raise ValueError(f"shape or place of array {number} cannot be read")
        if span[1] - span[0] != dtype.itemsize * math.prod(shape):
            raise ValueError(f"array {number} does not have the size that its shape says")
        if span[1] > nbytes:
            raise ValueError(f"array {number} ends at byte {span[1]} of {nbytes}")
        layout.append((dtype, shape, span[0]))
        spans.append(span)
    at = 0
    for start, stop in sorted(spans):
        if start != at:
            raise ValueError(f"its arrays overlap or leave gaps at byte {at}")
        at = stop
    if at != nbytes:
        raise ValueError(f"{nbytes - at} bytes belong to no array")
    return layout


def _whole_numbers(value: Any) -> "tuple[int, ...] | None":
    if not isinstance(value, list) or any(type(item) is not int or item < 0 for item in value):
        return None
    return tuple(value)
