"""What middleware keeps per slot of a buffer."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ding.data.buffer._core import RecordCore
from ding.data.buffer._records import RecordBatch, plain_list
from ding.data.buffer.buffer import Buffer


def core_of(buffer: Buffer, who: str) -> RecordCore:
    """The shared records of a buffer.

    Raises:
        TypeError: it is no ``DequeBuffer``.
    """
    core = getattr(buffer, "_core", None)
    if not isinstance(core, RecordCore):
        raise TypeError(f"{who} works with a DequeBuffer and its views, found {type(buffer).__name__}")
    return core


class SlotWatch:
    """Tells which slots hold other records than when it was last asked, whoever changed them."""

    def __init__(self, core: RecordCore) -> None:
        self._core = core
        self._version = -1
        self.serials = np.full(core.size, -1, dtype=np.int64)

    def changed(self, metas: bool = False) -> np.ndarray:
        """int64 slots (distinct) whose record came or went; :attr:`serials` is then up to date.

        Args:
            metas: tell those too whose record got another meta.
        """
        core = self._core
        if self._version == core.version:
            return np.empty(0, dtype=np.int64)
        slots = core.changed_since(self._version)
        now = core.order.serial_of_slot
        if slots is None:
            slots = np.arange(core.size) if metas else np.flatnonzero(now != self.serials)
        else:
            slots = slots if metas else slots[now[slots] != self.serials[slots]]
            slots = np.unique(slots) if len(slots) > 1 else slots
        self._version = core.version
        self.serials[slots] = now[slots]
        return slots


def is_grouped(sampled: Any) -> bool:
    """Whether a sample is a list of groups of records."""
    return isinstance(sampled, list) and bool(sampled) and isinstance(sampled[0], (list, RecordBatch))


def for_each_group(change: Callable[[Any], Any], sampled: Any) -> Any:
    """Apply ``change`` to the records of a sample, or to those of each of its groups."""
    return [change(group) for group in sampled] if is_grouped(sampled) else change(sampled)


def slots_of(core: RecordCore, records: Any) -> np.ndarray:
    """int64 ``[K]`` slots of sampled records; -1 for those that are gone, or pad a group."""
    if isinstance(records, RecordBatch):
        held = core.order.serial_of_slot[records.slots] == records.serials
        return records.slots if held.all() else np.where(held, records.slots, -1)
    return core.slots_of([record.index for record in records])


def with_meta(records: Any, key: str, values: Any) -> Any:
    """Records with one key of their meta set; object records are changed in place."""
    if isinstance(records, RecordBatch):
        return records.with_meta(**{key: values})
    for record, value in zip(records, plain_list(values)):
        if record.meta is not None:
            record.meta[key] = value
    return records
