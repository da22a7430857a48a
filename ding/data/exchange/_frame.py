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

from ding.data._safetensors import NAMES, checked_layout
from ding.data._tree_codec import decode_tree, encode_tree
from ding.data.exchange import _files
from ding.data.exchange.errors import BadFrame

MAX_HEADER_BYTES = 1 << 20
MAX_ENTRIES = 8192
# Dicts take the most time to read: each is looked through for keys that appear twice. Braces in texts count, too.
MAX_BRACES = 4 * MAX_ENTRIES
_FORMAT = "ding-exchange-1"


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
        if array.dtype not in NAMES:
            raise BadFrame(f"a {kind} cannot be written: an array of {array.dtype} has no safe form")
        header[f"a{number}"] = {
            "dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]
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
        if len(header) > MAX_ENTRIES:
            raise BadFrame(f"{path} has {len(header)} arrays; at most {MAX_ENTRIES} are read")
        try:
            layout = checked_layout(header, size - 8 - length)
        except ValueError as error:
            raise BadFrame(f"{path} is truncated or damaged: {error}") from error
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
