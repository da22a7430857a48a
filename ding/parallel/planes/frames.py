"""Trees of arrays as bytes in the ``safetensors`` format, within limits that make hostile bytes harmless; their names.

What is no array (nesting, texts, numbers) stands as JSON in the metadata of the header. A frame is short-lived: it is
guarded by a CRC-32 over all its bytes, which the reader learns elsewhere (from the id of a chunk, or from the pointer
to weights). :func:`check_head` refuses a hostile header before anything else is read; the ``safetensors`` package then
checks where each array lies.
"""

import json
import re
import uuid
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ding.data._tree_codec import decode_tree, encode_tree
from ding.data.transition_batch import TransitionBatch
from ding.parallel.planes.errors import BadFrame, BadId
from ding.parallel.planes.protocols import AnyRef

MAX_HEADER_BYTES = 1 << 20
MAX_ENTRIES = 8192
# Dicts take the most time to read. Braces in texts count, too.
MAX_BRACES = 4 * MAX_ENTRIES
_FORMAT = "ding-exchange-1"
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")
_CHUNK = re.compile(r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]{0,90})\.(?P<crc>[0-9a-f]{8})")


class Content(NamedTuple):
    """What a frame held."""

    tree: Any
    meta: dict[str, Any]


def pack(tree: object, kind: str, meta: "Mapping[str, Any] | None" = None) -> bytes:
    """Return the frame of ``tree``.

    Args:
        tree: dicts, lists, tuples, tensors, arrays, texts, numbers and ``None``.
        kind: what the frame holds; :func:`unpack` asks for the same.
        meta: what JSON can hold.

    Raises:
        BadFrame: something has no safe form, or the frame would pass the limits that readers hold; the message says
            what.
    """
    arrays: list[np.ndarray] = []
    try:
        structure = json.dumps(encode_tree(tree, arrays), separators=(",", ":"))
        notes = {"structure": structure, "meta": json.dumps(dict(meta or {}), separators=(",", ":"))}
        # Of an array without axes, this function alone would make one with an axis.
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


def header_bytes(head: bytes, size: int) -> int:
    """Return the length of the header, from the first 8 of the ``size`` bytes of a frame.

    Raises:
        BadFrame: there is no such header, or it is too long to be read.
    """
    length = int.from_bytes(head[:8], "little")
    if len(head) < 8 or length > size - 8:
        raise BadFrame(f"truncated or no exchange file: {size} bytes, a header of {length}")
    if length > MAX_HEADER_BYTES:
        raise BadFrame(f"a header of {length} bytes; at most {MAX_HEADER_BYTES} are read")
    return length


def check_head(text: bytes, size: int, kind: str) -> dict[str, str]:
    """Check the header of a frame, before its arrays are read.

    Args:
        text: the header.
        size: number of all bytes of the frame.
        kind: what it must hold.

    Returns:
        Its metadata; ``structure`` and ``meta`` are there.

    Raises:
        BadFrame: the frame is not what it should be; the message says why.
    """
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


def unpack(frame: bytes, kind: str, crc: int) -> Content:
    """Return what a frame holds, with arrays of their own that may be written.

    Args:
        frame: all its bytes.
        kind: what it must hold.
        crc: CRC-32 of its bytes.

    Raises:
        BadFrame: the frame is not what it should be; the message says why.
    """
    notes = check_head(frame[8 : 8 + header_bytes(frame, len(frame))], len(frame), kind)
    if zlib.crc32(frame) != crc:
        raise BadFrame("damaged: the bytes do not have the recorded checksum")
    try:
        named = load(frame)
        arrays = [named[f"a{number}"] for number in range(len(named))]
        meta = json.loads(notes["meta"])
        tree = decode_tree(json.loads(notes["structure"]), arrays)
    except (AttributeError, LookupError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise BadFrame(f"damaged: the contents cannot be read ({type(error).__name__}: {error})") from error
    if not isinstance(meta, dict):
        raise BadFrame("damaged: the meta is no dict")
    return Content(tree, meta)


def pack_batch(batch: TransitionBatch, meta: "Mapping[str, Any] | None") -> bytes:
    """Return the frame of a batch; raises :class:`BadFrame` for an empty one."""
    if not len(batch):
        raise BadFrame("a chunk needs at least one row")
    return pack({"columns": batch.columns, "rows": len(batch), "lengths": batch.lengths}, "chunk", meta)


def unpack_batch(frame: bytes, crc: int) -> tuple[TransitionBatch, dict[str, Any]]:
    """Return batch and meta of :func:`pack_batch`; raises as :func:`unpack`."""
    tree, meta = unpack(frame, "chunk", crc)
    if not isinstance(tree, dict) or tree.keys() != {"columns", "rows", "lengths"}:
        raise BadFrame("no batch")
    try:
        batch = TransitionBatch(tree["columns"], tree["lengths"])
    except (TypeError, ValueError, AttributeError, StopIteration) as error:
        raise BadFrame(f"no sound batch: {error}") from error
    if len(batch) != tree["rows"] or not len(batch):
        raise BadFrame(f"{tree['rows']!r} rows are claimed, {len(batch)} found")
    return batch, meta


def check_id(value: object, what: str) -> str:
    """Return ``value`` when it is a plain name: letters, digits, ``_``, ``-`` and (not first) ``.``, 120 at most.

    Raises:
        BadId: it is something else. The message shows a short form of it only.
    """
    if isinstance(value, str) and _ID.fullmatch(value):
        return value
    shown = repr(value)[:60] if isinstance(value, str) else type(value).__name__
    raise BadId(f"{what} must be 1 to 120 letters, digits, '_', '-' or '.', and not begin with '.'; found {shown}")


def new_writer_name() -> str:
    """Return a name that no other writer has."""
    return f"w{uuid.uuid4().hex[:12]}"


def chunk_name(writer: str, number: int, crc: int) -> str:
    """Return the id of a chunk: ``<writer>-<number>.<checksum of its bytes>``."""
    return f"{writer}-{number}.{crc:08x}"


def parse_ref(ref: AnyRef) -> tuple[str, int]:
    """Return id and checksum of a reference.

    Raises:
        BadId: the id is no plain name that ends with a checksum.
    """
    chunk = check_id(ref.get("chunk") if isinstance(ref, Mapping) else ref, "a chunk id")
    match = _CHUNK.fullmatch(chunk)
    if match is None:
        raise BadId(f"a chunk id must end with '.' and 8 hexadecimal digits; found {chunk[:60]!r}")
    return chunk, int(match["crc"], 16)


def writer_of(chunk: str) -> str:
    """Return the name of the writer that the id of a chunk begins with; ``''`` when it has none."""
    return chunk.rpartition(".")[0].rpartition("-")[0]
