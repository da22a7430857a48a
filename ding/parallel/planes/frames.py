"""Trees of arrays as bytes in the ``safetensors`` format, with limits that make malicious data harmless.

Everything but arrays (nesting, strings, numbers) is stored as JSON in the metadata of the header. A frame is
short-lived and protected by a CRC-32 over all its bytes, which the reader obtains elsewhere (from the id of a chunk, or
from the pointer to weights). :func:`check_head` rejects a malicious header before anything else is read; the
``safetensors`` package then checks the positions of the arrays.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ding.data.tree_codec import decode_tree, encode_tree
from ding.parallel.planes.errors import BadFrame
from ding.parallel.planes.views import views_of

MAX_HEADER_BYTES = 1 << 20
MAX_ENTRIES = 8192
# Dicts take the most time to read. Braces in strings count, too.
MAX_BRACES = 4 * MAX_ENTRIES
_FORMAT = "ding-exchange-1"
Frame: TypeAlias = "bytes | memoryview"
"""All bytes of a frame; a ``memoryview`` refers to memory of another owner, such as a store in shared memory."""


class Content(NamedTuple):
    """Content of a frame."""

    tree: Any
    meta: dict[str, Any]


def pack(tree: object, kind: str, meta: "Mapping[str, Any] | None" = None) -> bytes:
    """Return the frame of ``tree``.

    Args:
        tree: Dicts, lists, tuples, tensors, arrays, strings, numbers and ``None``.
        kind: Kind of the content, which :func:`unpack` checks.
        meta: JSON values.

    Raises:
        BadFrame: A value has no safe form, or the frame would exceed the limits of readers; the message says which.
    """
    arrays: list[np.ndarray] = []
    try:
        structure = json.dumps(encode_tree(tree, arrays), separators=(",", ":"))
        notes = {"structure": structure, "meta": json.dumps(dict(meta or {}), separators=(",", ":"))}
        # This function alone would add an axis to an array without axes.
        named = {f"a{i}": np.ascontiguousarray(array).reshape(array.shape) for i, array in enumerate(arrays)}
        frame = save(named, {"format": _FORMAT, "kind": kind, **notes})
    except (TypeError, ValueError, SafetensorError) as error:
        raise BadFrame(f"a {kind} cannot be written: {error}") from error
    length = int.from_bytes(frame[:8], "little")
    braces = frame.count(b"{", 8, 8 + length)
    if length > MAX_HEADER_BYTES or len(arrays) > MAX_ENTRIES or braces > MAX_BRACES:
        raise BadFrame(
            f"a {kind} of {len(arrays)} arrays with {length} bytes of description and {braces} braces in it passes "
            f"the limits of {MAX_ENTRIES} arrays, {MAX_HEADER_BYTES} bytes and {MAX_BRACES} braces; store ragged "
            f"values as padded arrays"
        )
    return frame


def header_bytes(head: Frame, size: int) -> int:
    """Return the length of the header, from the first 8 of the ``size`` bytes of a frame.

    Raises:
        BadFrame: There is no header, or it is too long.
    """
    length = int.from_bytes(head[:8], "little")
    if len(head) < 8 or length > size - 8:
        raise BadFrame(f"truncated or no exchange file: {size} bytes, a header of {length}")
    if length > MAX_HEADER_BYTES:
        raise BadFrame(f"a header of {length} bytes; at most {MAX_HEADER_BYTES} are read")
    return length


def check_head(text: Frame, size: int, kind: str) -> dict[str, str]:
    """Check the header of a frame, before its arrays are read.

    Args:
        text: Header of the frame.
        size: Size of the frame in bytes.
        kind: Required kind.

    Returns:
        Metadata of the header, which contains ``structure`` and ``meta``.

    Raises:
        BadFrame: The frame is invalid; the message gives the reason.
    """
    text = bytes(text)
    braces = text.count(b"{")
    if braces > MAX_BRACES:
        raise BadFrame(f"{braces} braces in the header; at most {MAX_BRACES} are read")
    try:
        header = json.loads(text)
        notes = header.pop("__metadata__", None)
        end = 8 + len(text) + max([entry["data_offsets"][1] for entry in header.values()], default=0)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise BadFrame(f"no exchange file: the header cannot be read ({type(error).__name__}: {error})") from error
    if not isinstance(notes, dict) or notes.get("format") != _FORMAT:
        raise BadFrame(f"no exchange file: the header has not the format {_FORMAT!r}")
    if notes.get("kind") != kind:
        raise BadFrame(f"a frame of {notes.get('kind')!r}, expected {kind!r}")
    if not isinstance(notes.get("structure"), str) or not isinstance(notes.get("meta"), str):
        raise BadFrame("damaged: structure or meta is missing")
    if len(header) > MAX_ENTRIES:
        raise BadFrame(f"{len(header)} arrays; at most {MAX_ENTRIES} are read")
    if end != size:
        raise BadFrame(f"truncated or damaged: {size} bytes, the header describes {end}")
    return notes


def unpack(frame: Frame, kind: str, crc: int) -> Content:
    """Return the content of a frame, with newly allocated, writable arrays.

    The arrays of a ``memoryview`` are read-only views of it instead.

    Args:
        frame: All its bytes.
        kind: Required kind.
        crc: CRC-32 of the bytes.

    Raises:
        BadFrame: The frame is invalid; the message gives the reason.
    """
    notes = check_head(frame[8 : 8 + header_bytes(frame, len(frame))], len(frame), kind)
    if zlib.crc32(frame) != crc:
        raise BadFrame("damaged: the bytes do not have the recorded checksum")
    try:
        named = load(frame) if isinstance(frame, bytes) else views_of(frame, 8 + header_bytes(frame, len(frame)))
        arrays = [named[f"a{number}"] for number in range(len(named))]
        meta = json.loads(notes["meta"])
        tree = decode_tree(json.loads(notes["structure"]), arrays)
    except (AttributeError, LookupError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise BadFrame(f"damaged: the contents cannot be read ({type(error).__name__}: {error})") from error
    if not isinstance(meta, dict):
        raise BadFrame("damaged: the meta is no dict")
    return Content(tree, meta)
