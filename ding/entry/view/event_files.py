"""Reads the scalars out of tensorboard event files, without tensorboard.

An event file is a sequence of TFRecords: uint64 length, uint32 masked crc of the length, the data, uint32 masked crc
of the data, all little endian. The data is an ``Event`` protobuf, whose class tensorboardX brings.
"""

import logging
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

logger = logging.getLogger("ding.entry")

_HEADER = struct.Struct("<QI")
_FOOTER_BYTES = 4


def iter_records(path: Path) -> Iterator[bytes]:
    """Yield the data of each record; a last record that was cut off (a killed run) ends the file quietly.

    Raises:
        ValueError: A header's checksum is wrong: this is no event file, or it is damaged.
    """
    from tensorboardX.record_writer import masked_crc32c

    with open(path, "rb") as file:
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            length, checksum = _HEADER.unpack(header)
            if masked_crc32c(header[:8]) != checksum:
                raise ValueError(f"{path}: the checksum of a record is wrong; is this an event file?")
            data = file.read(length)
            if len(data) < length or len(file.read(_FOOTER_BYTES)) < _FOOTER_BYTES:
                logger.info("%s: the last record is cut off", path)
                return
            yield data


def read_scalars(folder: Path, tag: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the scalars that the event files in ``folder`` hold under ``tag``.

    Returns:
        ``(steps, values)``: int64 `[N]` ascending, float64 `[N]`. Of values with the same step the last written one
        counts, so a resumed run continues the curve of the run before.
    """
    found: dict[int, float] = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        found.update(_scalars_of(path, tag))
    steps = np.array(sorted(found), dtype=np.int64)
    return steps, np.array([found[int(step)] for step in steps], dtype=np.float64)


def tags_in(folder: Path) -> set[str]:
    """Return every tag under which the event files in ``folder`` hold something."""
    return {
        value.tag
        for path in sorted(folder.glob("events.out.tfevents.*"))
        for data in iter_records(path)
        for value in _event(data).summary.value
    }


def _scalars_of(path: Path, tag: str) -> Iterator[tuple[int, float]]:
    wanted = tag.encode()
    for data in iter_records(path):
        # Parsing is slow and most events hold other tags.
        if wanted not in data:
            continue
        event = _event(data)
        for value in event.summary.value:
            if value.tag == tag and value.HasField("simple_value"):
                yield int(event.step), float(value.simple_value)


def _event(data: bytes) -> Any:
    from tensorboardX.proto.event_pb2 import Event

    return Event.FromString(data)
