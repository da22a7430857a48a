"""One tree of arrays in one file, in the ``safetensors`` format, within limits that make hostile files harmless.

Layout: 8 bytes little-endian length of the header; the header, JSON padded with blanks to a multiple of 8 bytes; the
arrays, the widest dtype first, so that each lies aligned. A frame is short-lived: it is guarded by a CRC-32 over all
its bytes, which the reader learns elsewhere (from a chunk's id, or from the pointer to weights).

Everything a header claims is checked against the size of the file before any array is read.
"""

import json
import math
import mmap
import os
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ding.data._tree_codec import decode_tree, encode_tree
from ding.data.exchange import _files
from ding.data.exchange.errors import BadFrame

MAX_HEADER_BYTES = 1 << 20
MAX_ENTRIES = 8192
# Dicts take the most time to read: each is looked through for keys that appear twice. Braces in texts count, too.
MAX_BRACES = 4 * MAX_ENTRIES
_MAX_DIMS = 32
_FORMAT = "ding-exchange-1"
_DTYPES = {
    "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
}  # fmt: skip
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}


class Frame(NamedTuple):
    """The bytes of a file, in order, and what identifies them."""

    parts: list["bytes | memoryview"]
    nbytes: int
    crc: int


class Content(NamedTuple):
    """What a frame held."""

    tree: Any
    meta: dict[str, Any]
    nbytes: int


def pack(tree: Any, kind: str, meta: Mapping[str, Any]) -> Frame:
    """The frame of ``tree``. Its parts share memory with the arrays of ``tree``: write them before these change.

    Args:
        tree: dicts, lists, tuples, tensors, arrays, texts, numbers and ``None``.
        kind: what the frame holds; :func:`read` asks for the same.
        meta: what JSON can hold.

    Raises:
        BadFrame: something has no safe form, or the frame would pass the limits that readers hold; the message says
            what.
    """
    arrays: list[np.ndarray] = []
    try:
        structure = json.dumps(encode_tree(tree, arrays), separators=(",", ":"))
        notes = json.dumps(dict(meta), separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise BadFrame(f"a {kind} cannot be written: {error}") from error
    order = sorted(range(len(arrays)), key=lambda number: -arrays[number].itemsize)
    header: dict[str, Any] = {
        "__metadata__": {"format": _FORMAT, "kind": kind, "structure": structure, "meta": notes}
    }  # fmt: skip
    offset = 0
    for number in order:
        array = arrays[number]
        if array.dtype not in _NAMES:
            raise BadFrame(f"a {kind} cannot be written: an array of {array.dtype} has no safe form")
        header[f"a{number}"] = {
            "dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]
        }  # fmt: skip
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    braces = text.count(b"{")
    if len(text) > MAX_HEADER_BYTES or len(arrays) > MAX_ENTRIES or braces > MAX_BRACES:
        raise BadFrame(
            f"a {kind} of {len(arrays)} arrays with {len(text)} bytes of description and {braces} braces in it passes "
            f"the limits of {MAX_ENTRIES} arrays, {MAX_HEADER_BYTES} bytes and {MAX_BRACES} braces; store ragged "
            f"values as padded arrays"
        )
    parts: list[bytes | memoryview] = [len(text).to_bytes(8, "little") + text]
    parts += [_bytes_of(arrays[number]) for number in order if arrays[number].nbytes]
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    return Frame(parts, 8 + len(text) + offset, crc)


def read(path: str, kind: str, crc: int, nbytes: "int | None" = None, mmap_min_bytes: "int | None" = None) -> Content:
    """Read a frame.

    Args:
        path: the file; a link or anything else that is no plain file is refused.
        kind: what it must hold.
        crc: CRC-32 of all its bytes.
        nbytes: its size, where known.
        mmap_min_bytes: files of at least this size are mapped (copy on write) instead of read.

    Returns:
        The tree, with arrays that may be written without an effect on the file.

    Raises:
        FileNotFoundError: there is no such file.
        BadFrame: the file is not what it should be; the message says why.
    """
    with _files.open_plain(path) as fd:
        size = os.fstat(fd).st_size
        if nbytes is not None and size != nbytes:
            raise BadFrame(f"{path} has {size} bytes, expected {nbytes}")
        head = os.read(fd, 8)
        length = int.from_bytes(head, "little")
        if len(head) < 8 or length > size - 8:
            raise BadFrame(f"{path} is truncated or no exchange file: {size} bytes, a header of {length}")
        if length > MAX_HEADER_BYTES:
            raise BadFrame(f"{path} has a header of {length} bytes; at most {MAX_HEADER_BYTES} are read")
        header = _header(os.pread(fd, length, 8), path)
        notes = _notes(header.pop("__metadata__", None), kind, path)
        layout = _layout(header, size - 8 - length, path)
        raw = _content(fd, size, mmap_min_bytes)
    if len(raw) != size or zlib.crc32(raw) != crc:
        raise BadFrame(f"{path} is damaged: its bytes do not have the recorded checksum")
    begin = 8 + length
    try:
        arrays = [np.frombuffer(raw, dtype, math.prod(shape), begin + at).reshape(shape) for dtype, shape, at in layout]
        meta = json.loads(notes["meta"])
        tree = decode_tree(json.loads(notes["structure"]), arrays)
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise BadFrame(f"{path} is damaged: its structure cannot be read ({type(error).__name__}: {error})") from error
    if not isinstance(meta, dict):
        raise BadFrame(f"{path} is damaged: its meta is no dict")
    return Content(tree, meta, size)


def _bytes_of(array: np.ndarray) -> memoryview:
    flat: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return memoryview(flat)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key appears twice")
    return result


def _header(text: bytes, path: str) -> dict[str, Any]:
    braces = text.count(b"{")
    if braces > MAX_BRACES:
        raise BadFrame(f"{path} has {braces} braces in its header; at most {MAX_BRACES} are read")
    try:
        header = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"{path} is no exchange file: its header cannot be read ({error})") from error
    if not isinstance(header, dict):
        raise BadFrame(f"{path} is no exchange file: its header is no dict")
    return header


def _notes(meta: Any, kind: str, path: str) -> dict[str, str]:
    if not isinstance(meta, dict) or meta.get("format") != _FORMAT:
        raise BadFrame(f"{path} is no exchange file: its header has not the format {_FORMAT!r}")
    if meta.get("kind") != kind:
        raise BadFrame(f"{path} holds {meta.get('kind')!r}, expected {kind!r}")
    if not isinstance(meta.get("structure"), str) or not isinstance(meta.get("meta"), str):
        raise BadFrame(f"{path} is damaged: structure or meta is missing")
    return meta


def _layout(header: dict[str, Any], nbytes: int, path: str) -> list[tuple[np.dtype, tuple[int, ...], int]]:
    """dtype, shape and offset of each array, in the order of their numbers; together they cover ``nbytes`` exactly."""
    if len(header) > MAX_ENTRIES:
        raise BadFrame(f"{path} has {len(header)} arrays; at most {MAX_ENTRIES} are read")
    layout = []
    spans = []
    for number in range(len(header)):
        entry = header.get(f"a{number}")
        if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str) or entry["dtype"] not in _DTYPES:
            raise BadFrame(f"{path} is damaged: array {number} is missing or has an unknown dtype")
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        shape = _whole_numbers(entry.get("shape"))
        span = _whole_numbers(entry.get("data_offsets"))
        if shape is None or len(shape) > _MAX_DIMS or span is None or len(span) != 2:
            raise BadFrame(f"{path} is damaged: shape or place of array {number} cannot be read")
        if span[1] - span[0] != dtype.itemsize * math.prod(shape):
            raise BadFrame(f"{path} is damaged: array {number} does not have the size that its shape says")
        layout.append((dtype, shape, span[0]))
        spans.append(span)
    at = 0
    for start, stop in sorted(spans):
        if start != at:
            raise BadFrame(f"{path} is damaged: its arrays overlap or leave gaps at byte {at}")
        at = stop
    if at != nbytes:
        raise BadFrame(f"{path} is truncated or damaged: its arrays have {at} bytes, the file has {nbytes}")
    return layout


def _whole_numbers(value: Any) -> "tuple[int, ...] | None":
    if not isinstance(value, list) or any(type(item) is not int or item < 0 for item in value):
        return None
    return tuple(value)


def _content(fd: int, size: int, mmap_min_bytes: "int | None") -> Any:
    """All bytes of the file, writable. A mapping costs no copy, but pages and a descriptor: small files are read."""
    if mmap_min_bytes is not None and size >= mmap_min_bytes:
        return mmap.mmap(fd, size, access=mmap.ACCESS_COPY)
    raw = bytearray(size)
    view = memoryview(raw)
    at = 0
    while at < size:
        count = os.preadv(fd, [view[at:]], at)
        if count == 0:
            return raw[:at]
        at += count
    return raw
