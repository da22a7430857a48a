"""Helpers of middleware for sampled records."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ding.data.buffer._core import RecordCore, Records
from ding.data.buffer._records import RecordBatch
from ding.data.buffer.buffer import Buffer, plain_list


def core_of(buffer: Buffer, who: str) -> RecordCore:
    """Return the shared records of a buffer.

    Raises:
        TypeError: The buffer is not a ``DequeBuffer``.
    """
    core = getattr(buffer, "_core", None)
    if not isinstance(core, RecordCore):
        raise TypeError(f"{who} works with a DequeBuffer and its views, found {type(buffer).__name__}")
    return core


def is_grouped(sampled: object) -> bool:
    """Return whether a sample is a list of groups of records."""
    return isinstance(sampled, list) and bool(sampled) and isinstance(sampled[0], (list, RecordBatch))


def for_each_group(change: Callable[[Any], Any], sampled: Any) -> object:
    """Apply ``change`` to the records of a sample, or to those of each of its groups."""
    return [change(group) for group in sampled] if is_grouped(sampled) else change(sampled)


def slots_of(core: RecordCore, records: Records) -> np.ndarray:
    """Return the slots, int64 ``[K]``, of sampled records; -1 for records no longer stored and for padding."""
    if isinstance(records, RecordBatch):
        held = core.order.serial_of_slot[records.slots] == records.serials
        return records.slots if held.all() else np.where(held, records.slots, -1)
    return core.slots_of([record.index for record in records])


def with_meta(records: Records, key: str, values: "Sequence[Any] | np.ndarray") -> Records:
    """Return records with one key of their meta set; object records are modified in place."""
    if isinstance(records, RecordBatch):
        return records.with_meta(**{key: values})
    for record, value in zip(records, plain_list(values)):
        if record.meta is not None:
            record.meta[key] = value
    return records
