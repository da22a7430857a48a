"""Prioritised experience replay."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import torch

from ding.data.buffer._records import IndexArray, RecordBatch
from ding.data.buffer.buffer import Buffer, BufferedData
from ding.data.buffer.errors import EmptyBufferError, SampleArgumentError, SampleError
from ding.data.buffer.middleware._slots import SlotWatch, core_of, slots_of
from ding.data.columns import SchemaError
from ding.data.sum_tree import SumTree
from ding.data.transition_batch import TransitionBatch

_EPS = 1e-5
_TIMES = ("size", "indices", "replace", "sample_range", "ignore_insufficient", "groupby", "unroll_len")


class PriorityExperienceReplay:
    """Draws records in proportion to ``priority ** alpha``, stratified (https://arxiv.org/abs/1511.05952).

    A pushed record has the priority ``meta['priority']``; without a meta, that of the field ``priority`` of its data,
    which is taken out; else the highest priority so far. ``update`` needs a meta with the key ``priority`` and draws by
    ``priority + 1e-5``, so that no record becomes unreachable. ``meta['priority']`` of sampled records is as it was
    given.

    With ``IS_weight``, sampled records carry ``w = (p / p_min) ** -beta`` as ``meta['priority_IS']`` and, when their
    data is a dict, as float32 tensor ``[1]`` under ``priority_IS``. Here ``p`` is the probability of a record and
    ``p_min`` the smallest one in the buffer, so the largest weight is 1. The samples are (shallow) copies; the stored
    records stay as they are. Beta is annealed to 1 by each sample.

    Records that come or go past this middleware (through another view, or evicted) are noticed. A draw may repeat
    records, also when it is larger than the buffer. Groups cannot be drawn by priority.

    Args:
        buffer: the buffer whose records are drawn.
        IS_weight: whether samples carry importance sampling weights.
        priority_power_factor: alpha.
        IS_weight_power_factor: beta at the start.
        IS_weight_anneal_train_iter: number of samples until beta is 1.

    Raises:
        SampleArgumentError: alpha or beta outside of ``[0, 1]``.
    """

    handles_batches = True

    def __init__(
        self,
        buffer: Buffer,
        IS_weight: bool = True,
        priority_power_factor: float = 0.6,
        IS_weight_power_factor: float = 0.4,
        IS_weight_anneal_train_iter: int = int(1e5),
    ) -> None:
        for name, value in (
            ("priority_power_factor", priority_power_factor),
            ("IS_weight_power_factor", IS_weight_power_factor),
        ):
            if not 0 <= value <= 1:
                raise SampleArgumentError(f"{name} must be in [0, 1], got {value!r}")
        self.buffer = buffer
        self.buffer_size = buffer.size
        self.IS_weight = IS_weight
        self.priority_power_factor = priority_power_factor
        self.IS_weight_power_factor = IS_weight_power_factor
        self.IS_weight_anneal_train_iter = IS_weight_anneal_train_iter
        self.max_priority = 1.0
        self._anneal = (1 - IS_weight_power_factor) / IS_weight_anneal_train_iter if IS_weight_anneal_train_iter else 0
        self._core = core_of(buffer, "PriorityExperienceReplay")
        self._tree = SumTree(self._core.size)
        self._priorities = np.zeros(self._core.size)
        self._watch = SlotWatch(self._core)

    @property
    def sum_tree(self) -> SumTree:
        """Sums of ``priority ** alpha`` per slot. Records that came since the last action may be missing."""
        return self._tree

    @property
    def buffer_idx(self) -> dict[int, str]:
        """The index of the record in each slot that holds one."""
        slots = np.flatnonzero(self._core.order.serial_of_slot >= 0)
        return dict(zip(slots.tolist(), self._core.indices_in(slots)))

    def __call__(self, action: str, chain: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if action not in ("push", "extend", "sample", "update", "batch_update", "clear"):
            # What is deleted is noticed before the next draw.
            return chain(*args, **kwargs)
        return getattr(self, f"_{action}")(chain, *args, **kwargs)

    # ------------------------------------------------------------------ push

    def _push(self, chain: Callable[..., Any], data: Any, meta: dict | None = None, **kwargs: Any) -> BufferedData:
        given = None if meta is None else meta.get("priority")
        if meta is None and isinstance(data, Mapping) and "priority" in data:
            given = data["priority"]
            data = {key: value for key, value in data.items() if key != "priority"}
        if given is not None:
            _check_priorities(np.array([given], dtype=np.float64), ["the pushed record"])
        self._look()
        record = chain(data, meta=meta, **kwargs)
        if not isinstance(record, BufferedData):
            # A middleware within has refused it.
            return record
        slots = self._core.slots_of([record.index])
        self._look()
        if given is not None and slots[0] >= 0:
            self._set_pushed(slots, np.array([given], dtype=np.float64))
        record.meta.setdefault("priority", float(self._priorities[slots[0]]))
        record.meta["priority_idx"] = int(slots[0])
        return record

    def _extend(self, chain: Callable[..., Any], rows: Any, meta: Mapping[str, Any]) -> IndexArray:
        given, told = meta.get("priority"), np.arange(len(rows))
        if not meta:
            rows, given, told = _without_priorities(rows)
        if given is not None:
            given = np.asarray(given, dtype=np.float64).reshape(-1)
            given = np.broadcast_to(given, len(rows)) if len(given) == 1 and meta else given
            _check_priorities(given, told)
        self._look()
        indices = chain(rows, meta)
        self._look()
        if given is not None:
            slots = self._core.slots_of(indices)[told]
            held = slots >= 0
            self._set_pushed(slots[held], given[held])
        return indices

    def _look(self) -> None:
        """Give records that came the highest priority, and those that went none."""
        slots = self._watch.changed()
        if len(slots):
            held = self._watch.serials[slots] >= 0
            self._priorities[slots] = np.where(held, self.max_priority, 0.0)
            self._tree.set(slots, np.where(held, self.max_priority**self.priority_power_factor, 0.0))

    def _set_pushed(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        self._set(slots, priorities, np.maximum(priorities, _EPS))

    def _set(self, slots: np.ndarray, priorities: np.ndarray, bases: np.ndarray) -> None:
        """``priorities`` as they were given; ``bases``, of which the powers are drawn by, are never 0."""
        self._priorities[slots] = priorities
        self._tree.set(slots, bases**self.priority_power_factor)

    # ------------------------------------------------------------------ sample

    def _sample(self, chain: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        kwargs.update(zip(_TIMES, args))
        if kwargs.get("groupby") is not None:
            raise SampleArgumentError("PriorityExperienceReplay draws single records, groupby is not supported")
        if kwargs.get("indices") is None:
            size = kwargs.get("size")
            if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 0:
                raise SampleArgumentError(f"the size of a sample must be an int >= 0, got {size!r}")
            self._look()
            try:
                drawn = self._draw(int(size), kwargs.get("sample_range"))
            except EmptyBufferError:
                if not kwargs.get("ignore_insufficient"):
                    raise
                return chain(**kwargs)
            kwargs["indices"] = self._core.indices_in(drawn)
        else:
            self._look()
            drawn = self._core.slots_of(kwargs["indices"])
        sampled = chain(**kwargs)
        slots = self._slots_before(sampled, kwargs["indices"], drawn)
        weights = self._weights(slots) if self.IS_weight else None
        if self.IS_weight:
            self.IS_weight_power_factor = min(1.0, self.IS_weight_power_factor + self._anneal)
        return self._annotated(sampled, slots, weights)

    def _slots_before(self, sampled: Any, indices: Sequence[str], drawn: np.ndarray) -> np.ndarray:
        """int64 slots of sampled records, also of those that a middleware within has deleted after the draw."""
        if isinstance(sampled, RecordBatch):
            return sampled.slots
        slots = slots_of(self._core, sampled)
        if len(slots) and slots.min() < 0:
            slot_of = dict(zip(indices, drawn.tolist()))
            slots = np.array([slot_of[record.index] for record in sampled], dtype=np.int64)
        return slots

    def _draw(self, size: int, sample_range: slice | None) -> np.ndarray:
        """int64 ``[size]`` slots, drawn by priority."""
        core = self._core
        strata = (np.arange(size) + core.rng.random(size)) / max(size, 1)
        if sample_range is None:
            if core.order.count == 0 and size:
                raise EmptyBufferError(f"asked for {size} records by priority, the buffer is empty")
            return self._tree.find(strata * self._tree.total) if size else np.empty(0, np.int64)
        slots = core.order.slots[np.array(range(core.order.count)[sample_range], dtype=np.int64)]
        if len(slots) == 0 and size:
            raise EmptyBufferError(f"asked for {size} records by priority, {sample_range} selects none")
        ends = self._tree.leaves[slots].cumsum()
        found = ends.searchsorted(strata * (ends[-1] if len(ends) else 0), "right")
        return slots[np.minimum(found, len(slots) - 1)]

    def _weights(self, slots: np.ndarray) -> np.ndarray:
        lowest = self._tree.smallest()
        return (self._tree.leaves[slots] / lowest) ** -self.IS_weight_power_factor

    def _annotated(self, sampled: Any, slots: np.ndarray, weights: np.ndarray | None) -> Any:
        if isinstance(sampled, RecordBatch):
            meta: dict[str, Any] = {"priority": self._priorities[slots], "priority_idx": slots}
            if weights is None:
                return sampled.with_meta(**meta)
            column = torch.from_numpy(weights.astype(np.float32)).unsqueeze(1)
            return sampled.with_meta(**meta, priority_IS=weights).with_data(priority_IS=column)
        return [
            _annotated_record(record, slot, priority, None if weights is None else float(weights[place]))
            for place, (record, slot, priority) in enumerate(
                zip(sampled, slots.tolist(), self._priorities[slots].tolist())
            )
        ]

    # ------------------------------------------------------------------ update

    def _update(self, chain: Callable[..., Any], index: str, data: Any = None, meta: dict | None = None) -> bool:
        if meta is None or meta.get("priority") is None:
            raise SampleArgumentError("with PriorityExperienceReplay, update needs a meta with the key 'priority'")
        priorities = np.array([meta["priority"]], dtype=np.float64)
        _check_priorities(priorities, [index])
        if not chain(index, data, meta):
            return False
        self._take_over(self._core.slots_of([index]), priorities)
        return True

    def _batch_update(
        self, chain: Callable[..., Any], indices: Sequence[str], datas: Any = None, metas: Any = None
    ) -> np.ndarray:
        if isinstance(metas, Mapping):
            priorities = metas.get("priority")
        else:
            priorities = None if metas is None else [(meta or {}).get("priority") for meta in metas]
        if priorities is None or (isinstance(priorities, list) and None in priorities):
            raise SampleArgumentError(
                "with PriorityExperienceReplay, batch_update needs metas with the key 'priority' for each record"
            )
        priorities = np.asarray(priorities, dtype=np.float64).reshape(-1)
        if len(priorities) != len(indices):
            raise SampleError(f"{len(priorities)} priorities for {len(indices)} indices")
        _check_priorities(priorities, indices)
        known = chain(indices, datas, metas)
        self._take_over(self._core.slots_of(indices)[known], priorities[known])
        return known

    def _take_over(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        if len(slots) == 0:
            return
        self._look()
        self._set(slots, priorities, priorities + _EPS)
        self.max_priority = max(self.max_priority, float(priorities.max()) + _EPS)

    def _clear(self, chain: Callable[..., Any]) -> None:
        chain()
        self.max_priority = 1.0
        self._look()

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Priorities (and their powers) by index of the record, the highest one, and beta."""
        with self._core.lock:
            self._look()
            slots = self._core.order.slots
            return {
                "indices": list(self._core.indices_in(slots)),
                "priorities": self._priorities[slots],
                "weights": self._tree.leaves[slots],
                "priority_power_factor": self.priority_power_factor,
                "max_priority": self.max_priority,
                "IS_weight_power_factor": self.IS_weight_power_factor,
            }

    def load_state_dict(self, state_dict: Mapping[str, Any], deepcopy: bool = False) -> None:
        """Take over a ``state_dict``, for the records that the buffer holds now.

        Args:
            state_dict: see :meth:`state_dict`.
            deepcopy: has no effect: what is taken over is copied in any case.
        """
        with self._core.lock:
            self.max_priority = float(state_dict["max_priority"])
            self.IS_weight_power_factor = float(state_dict["IS_weight_power_factor"])
            self._look()
            slots = self._core.slots_of(state_dict["indices"])
            held = slots >= 0
            self._set_pushed(slots[held], np.asarray(state_dict["priorities"], dtype=np.float64)[held])
            if state_dict["priority_power_factor"] == self.priority_power_factor:
                # A power of many numbers may round differently than that of one: this way, draws go on the same.
                self._tree.set(slots[held], np.asarray(state_dict["weights"], dtype=np.float64)[held])


def _without_priorities(rows: Any) -> tuple[Any, Any, np.ndarray]:
    """Rows without their field ``priority``, its values (``None``: no row has it), and the places of these rows."""
    every = np.arange(len(rows))
    if isinstance(rows, TransitionBatch):
        try:
            if "priority" not in rows.columns:
                return rows, None, every
            return rows.without_columns("priority"), rows.columns["priority"], every
        except SchemaError:
            # Rows that were changed by hand.
            rows = rows.rows()
    told = [place for place, row in enumerate(rows) if isinstance(row, Mapping) and "priority" in row]
    if not told:
        return rows, None, every
    given = [float(rows[place]["priority"]) for place in told]
    rows = list(rows)
    for place in told:
        rows[place] = {key: value for key, value in rows[place].items() if key != "priority"}
    return rows, given, np.array(told)


def _check_priorities(priorities: np.ndarray, names: Sequence[Any] | np.ndarray) -> None:
    wrong = np.flatnonzero(~(np.isfinite(priorities) & (priorities >= 0)))
    if len(wrong):
        told = [f"{names[place]}: {priorities[place]}" for place in wrong[:8].tolist()]
        raise SampleArgumentError(f"priorities must be finite and not negative, got {', '.join(told)}")


def _annotated_record(record: BufferedData, slot: int, priority: float, weight: float | None) -> BufferedData:
    meta = {**record.meta, "priority": priority, "priority_idx": slot}
    data = record.data
    if weight is not None:
        meta["priority_IS"] = weight
        if isinstance(data, MutableMapping):
            data = data.copy() if hasattr(data, "copy") else dict(data)
            data["priority_IS"] = torch.tensor([weight], dtype=torch.float32)
    return BufferedData(data, record.index, meta)
