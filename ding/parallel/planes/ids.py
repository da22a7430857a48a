"""Names that come from other processes, before they become parts of a path."""

import re
import uuid
from collections.abc import Mapping

from ding.parallel.planes.errors import BadId
from ding.parallel.planes.protocols import AnyRef

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")
_CHUNK = re.compile(r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]{0,90})\.(?P<crc>[0-9a-f]{8})")


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
