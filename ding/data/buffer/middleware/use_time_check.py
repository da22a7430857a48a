"""A limit on how often a record is sampled."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ding.data.buffer._core import Records
from ding.data.buffer.buffer import Buffer
from ding.data.buffer.middleware._sampled import core_of, for_each_group, is_grouped, slots_of, with_meta
from ding.data.replay.index import SlotTable


class UseTimeCheck:
    """Count how often each record was sampled, and delete it after ``max_use`` samples.

    The count is stored in ``meta['use_count']`` of sampled records. A record is still returned by its last sample.

    Args:
        buffer_: the buffer (or view) from which used-up records are deleted.
        max_use: Maximum number of samples per record.
    """

    handles_batches = True

    def __init__(self, buffer_: Buffer, max_use: float = float("inf")) -> None:
        self._buffer = buffer_
        self._max_use = max_use
        self._core = core_of(buffer_, "use_time_check")
        # Unique ids are the serials of the counted records.
        self._table = SlotTable(self._core.size)

    def _uses_of(self, slots: np.ndarray) -> np.ndarray:
        """Return the use counts, int64 ``[K]``, of the records now in these slots."""
        serials = self._core.order.serial_of_slot[slots]
        self._table.use_count[slots[~self._table.holds(serials, slots)]] = 0
        self._table.unique_id[slots] = serials
        values: np.ndarray = self._table.use_count[slots]
        return values

    def __call__(self, action: str, chain: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
        sampled = chain(*args, **kwargs)
        if action != "sample" or not len(sampled):
            return sampled
        groups = sampled if is_grouped(sampled) else [sampled]
        slots = np.concatenate([slots_of(self._core, group) for group in groups])
        slots = slots[slots >= 0]
        self._uses_of(slots)
        self._table.use(slots)
        sampled = for_each_group(self._counted, sampled)
        worn = self._table.used_up(slots, self._max_use)
        if len(worn):
            self._buffer.delete(self._core.indices_in(worn))
        return sampled

    def _counted(self, records: Records) -> Records:
        slots = slots_of(self._core, records)
        return with_meta(records, "use_count", np.where(slots >= 0, self._table.use_count[slots], 0))

    def state_dict(self) -> dict[str, Any]:
        """Return the use count of each record, from the oldest to the newest."""
        with self._core.lock:
            slots = self._core.order.slots
            return {"indices": list(self._core.indices_in(slots)), "uses": self._uses_of(slots)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a ``state_dict`` for the records currently in the buffer."""
        with self._core.lock:
            self._uses_of(self._core.order.slots)
            slots = self._core.slots_of(state_dict["indices"])
            held = slots >= 0
            self._table.use_count[slots[held]] = np.asarray(state_dict["uses"], dtype=np.int64)[held]


use_time_check = UseTimeCheck
