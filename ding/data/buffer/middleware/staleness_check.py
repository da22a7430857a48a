"""A limit on the age of records, counted in train iterations."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ding.data.buffer._core import Records
from ding.data.buffer.buffer import Buffer
from ding.data.buffer.errors import SampleArgumentError
from ding.data.buffer.middleware._sampled import core_of, for_each_group, slots_of, with_meta

_KEY = "train_iter_data_collected"


class StalenessCheck:
    """Delete records that are too old before each sample.

    ``push`` requires ``meta`` with ``train_iter_data_collected``, ``sample`` the keyword ``train_iter_sample_data``.
    Their difference is the staleness, stored in ``meta['staleness']`` of sampled records. A record without
    ``train_iter_data_collected`` (pushed past this middleware) does not age. Add it before (outside of)
    ``PriorityExperienceReplay``, which draws among the remaining records.

    Args:
        buffer_: the buffer (or view) from which stale records are deleted.
        max_staleness: Maximum staleness of a record in train iterations. Lower values keep data closer to on-policy.
    """

    handles_batches = True

    def __init__(self, buffer_: Buffer, max_staleness: float = float("inf")) -> None:
        self._buffer = buffer_
        self._max_staleness = max_staleness
        self._core = core_of(buffer_, "staleness_check")
        # Train iteration of the record in each slot; NaN for empty slots and records without one.
        self._collected = np.full(self._core.size, np.nan)
        self._look(self._core.order.slots.copy())
        self._core.listen(self._look)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._core.listen(self._look)

    def _look(self, slots: np.ndarray) -> None:
        self._collected[slots] = np.nan
        held = slots[self._core.order.serial_of_slot[slots] >= 0]
        self._collected[held] = np.array(self._core.meta_values(_KEY, held, np.nan), dtype=np.float64)

    def __call__(self, action: str, chain: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
        if action in ("push", "extend"):
            _check_meta(args[1] if len(args) > 1 else kwargs.get("meta"))
        if action != "sample":
            return chain(*args, **kwargs)
        if "train_iter_sample_data" not in kwargs:
            raise SampleArgumentError("with staleness_check, sample needs the keyword 'train_iter_sample_data'")
        now = kwargs.pop("train_iter_sample_data")
        stale = np.flatnonzero(now - self._collected > self._max_staleness)
        if len(stale):
            self._buffer.delete(self._core.indices_in(stale))
        sampled = chain(*args, **kwargs)
        return for_each_group(lambda records: self._with_staleness(records, now), sampled)

    def _with_staleness(self, records: Records, now: float) -> Records:
        ages = now - self._collected[slots_of(self._core, records)]
        return with_meta(records, "staleness", [None if age != age else age for age in _plain(ages)])


staleness_check = StalenessCheck


def _plain(ages: np.ndarray) -> list[Any]:
    """Return whole numbers as ints."""
    return [int(age) if age == age and age.is_integer() else age for age in ages.tolist()]


def _check_meta(meta: object) -> None:
    if not isinstance(meta, Mapping) or _KEY not in meta:
        found = sorted(map(str, meta)) if isinstance(meta, Mapping) else meta
        raise SampleArgumentError(f"with staleness_check, push needs a meta with {_KEY!r}, found {found}")
