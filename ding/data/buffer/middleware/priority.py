"""Prioritised experience replay."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import torch

from ding.data.buffer._arguments import check_sample
from ding.data.buffer._core import Records
from ding.data.buffer._records import IndexArray, RecordBatch
from ding.data.buffer.buffer import Buffer, BufferedData, Metas, is_column
from ding.data.buffer.errors import EmptyBufferError, SampleArgumentError, SampleError
from ding.data.buffer.middleware._sampled import core_of
from ding.data.columns import SchemaError
from ding.data.replay.index import checked_priorities
from ding.data.replay.priorities import EPS, Priorities
from ding.data.sum_tree import SumTree
from ding.data.transition_batch import TransitionBatch

_PARAMETERS = ("size", "indices", "replace", "sample_range", "ignore_insufficient", "groupby", "unroll_len")


class PriorityExperienceReplay:
    """Draw records in proportion to ``priority ** alpha``, stratified (https://arxiv.org/abs/1511.05952).

    A pushed record has the priority ``meta['priority']``; without a meta, that of the field ``priority`` of its data,
    which is taken out; else the highest priority so far. ``update`` requires a meta with the key ``priority``; draws
    use ``priority + 1e-5``, so that no record becomes unreachable. ``meta['priority']`` of sampled records is
    unchanged.

    With ``IS_weight``, sampled records carry ``w = (p / p_min) ** -beta`` as ``meta['priority_IS']`` and, when their
    data is a dict, as float32 tensor ``[1]`` under ``priority_IS``. Here ``p`` is the probability of a record and
    ``p_min`` the smallest one in the buffer, so the largest weight is 1. The samples are (shallow) copies; the stored
    records stay as they are. Each sample anneals beta towards 1.

    Records added or removed past this middleware (by another view, or by eviction) are tracked. A draw may repeat
    records and may be larger than the buffer. Groups cannot be drawn by priority.

    Args:
        buffer: Buffer to sample from.
        IS_weight: Whether samples carry importance sampling weights.
        priority_power_factor: Exponent alpha, typically 0.6; 0 draws uniformly, 1 in proportion to the priority.
        IS_weight_power_factor: Initial exponent beta, typically 0.4; 1 fully corrects the sampling bias.
        IS_weight_anneal_train_iter: Number of batches until beta is annealed to 1.

    Raises:
        SampleArgumentError: Alpha or beta is outside of ``[0, 1]``.
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
        self.IS_weight_anneal_train_iter = IS_weight_anneal_train_iter
        self._core = core_of(buffer, "PriorityExperienceReplay")
        self._priorities = Priorities(
            self._core.size, priority_power_factor, IS_weight_power_factor, IS_weight_anneal_train_iter
        )
        # The record in each slot whose priority is set here.
        self._serials = np.full(self._core.size, -1, dtype=np.int64)
        self._look(np.arange(self._core.size))
        self._core.listen(self._look)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._core.listen(self._look)

    @property
    def sum_tree(self) -> SumTree:
        """Sums of ``priority ** alpha`` per slot."""
        return self._priorities.tree

    @property
    def max_priority(self) -> float:
        """Priority of records pushed without one."""
        return self._priorities.largest

    @property
    def IS_weight_power_factor(self) -> float:
        """Exponent beta; each sample anneals it towards 1."""
        return self._priorities.beta

    @property
    def buffer_idx(self) -> dict[int, str]:
        """Index of the record in each occupied slot."""
        slots = np.flatnonzero(self._core.order.serial_of_slot >= 0)
        return dict(zip(slots.tolist(), self._core.indices_in(slots)))

    def __call__(self, action: str, chain: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
        if action not in ("push", "extend", "sample", "update", "batch_update", "clear"):
            # Deletions take effect before the next draw.
            return chain(*args, **kwargs)
        return getattr(self, f"_{action}")(chain, *args, **kwargs)

    # ------------------------------------------------------------------ push

    def _push(
        self, chain: Callable[..., Any], data: object, meta: dict[str, Any] | None = None, **kwargs: Any
    ) -> BufferedData:
        given = None if meta is None else meta.get("priority")
        if meta is None and isinstance(data, Mapping) and "priority" in data:
            given = data["priority"]
            data = {key: value for key, value in data.items() if key != "priority"}
        priority = None if given is None else _checked([given])
        record: BufferedData = chain(data, meta=meta, **kwargs)
        if not isinstance(record, BufferedData):
            # An inner middleware has refused it.
            return record
        slots = self._core.slots_of([record.index])
        if priority is not None and slots[0] >= 0:
            self._priorities.put(slots, priority)
        record.meta.setdefault("priority", float(self._priorities.values[slots[0]]))
        record.meta["priority_idx"] = int(slots[0])
        return record

    def _extend(
        self, chain: Callable[..., Any], rows: "TransitionBatch | Sequence[Any]", meta: Mapping[str, Any]
    ) -> IndexArray:
        given = meta.get("priority")
        if not meta:
            rows, given = _without_priorities(rows, self.max_priority)
        if given is not None:
            given = _checked(given if is_column(given) else [given])
            given = np.broadcast_to(given, len(rows)) if len(given) == 1 else given
        indices: IndexArray = chain(rows, meta)
        if given is not None:
            slots = self._core.slots_of(indices)
            held = slots >= 0
            self._priorities.put(slots[held], given[held])
        return indices

    def _look(self, slots: np.ndarray) -> None:
        """Give new records the highest priority, and clear slots without a record."""
        serials = self._core.order.serial_of_slot[slots]
        changed = serials != self._serials[slots]
        if changed.any():
            slots, serials = slots[changed], serials[changed]
            self._serials[slots] = serials
            held = serials >= 0
            self._priorities.put(slots[held], np.full(int(held.sum()), self._priorities.largest))
            self._priorities.remove(slots[~held])

    # ------------------------------------------------------------------ sample

    def _sample(self, chain: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
        kwargs.update(zip(_PARAMETERS, args))
        if kwargs.get("groupby") is not None:
            raise SampleArgumentError("PriorityExperienceReplay draws single records, groupby is not supported")
        if kwargs.get("indices") is None:
            check_sample(kwargs.get("size"), None, None, None)
            try:
                drawn = self._draw(int(kwargs["size"]), kwargs.get("sample_range"))
            except EmptyBufferError:
                if not kwargs.get("ignore_insufficient"):
                    raise
                return chain(**kwargs)
            kwargs["indices"] = self._core.indices_in(drawn)
        else:
            drawn = self._core.slots_of(kwargs["indices"])
        if len(drawn) and drawn.min() < 0:
            # An unknown index, reported by the buffer.
            return chain(**kwargs)
        # An inner middleware may delete its input.
        priorities = self._priorities.values[drawn]
        weights = self._priorities.importance(self.sum_tree.leaves[drawn]) if self.IS_weight else None
        sampled = chain(**kwargs)
        if len(sampled) != len(drawn):
            # An inner middleware has dropped some.
            places = [list(kwargs["indices"]).index(record.index) for record in sampled]
            drawn, priorities = drawn[places], priorities[places]
            weights = None if weights is None else weights[places]
        return self._annotated(sampled, drawn, priorities, weights)

    def _draw(self, size: int, sample_range: slice | None) -> np.ndarray:
        """Return slots, int64 ``[size]``, drawn by priority."""
        core = self._core
        among = None
        if sample_range is not None:
            among = core.order.slots[np.array(range(core.order.count)[sample_range], dtype=np.int64)]
        if size and (core.order.count == 0 if among is None else not len(among)):
            reason = "the buffer is empty" if among is None else f"{sample_range} selects none"
            raise EmptyBufferError(f"asked for {size} records by priority, {reason}")
        return self._priorities.draw(core.draws.stratified(size), size, among)[0] if size else np.empty(0, np.int64)

    def _annotated(
        self, sampled: Records, slots: np.ndarray, priorities: np.ndarray, weights: np.ndarray | None
    ) -> Sequence[BufferedData]:
        if isinstance(sampled, RecordBatch):
            meta: dict[str, Any] = {"priority": priorities, "priority_idx": slots}
            if weights is None:
                return sampled.with_meta(**meta)
            column = torch.from_numpy(weights.astype(np.float32)).unsqueeze(1)
            return sampled.with_meta(**meta, priority_IS=weights).with_data(priority_IS=column)
        return [
            _annotated_record(record, slot, priority, None if weights is None else float(weights[place]))
            for place, (record, slot, priority) in enumerate(zip(sampled, slots.tolist(), priorities.tolist()))
        ]

    # ------------------------------------------------------------------ update

    def _update(
        self, chain: Callable[..., Any], index: str, data: object = None, meta: dict[str, Any] | None = None
    ) -> bool:
        if meta is None or meta.get("priority") is None:
            raise SampleArgumentError("with PriorityExperienceReplay, update needs a meta with the key 'priority'")
        priorities = _checked([meta["priority"]])
        if not chain(index, data, meta):
            return False
        self._take_over(self._core.slots_of([index]), priorities)
        return True

    def _batch_update(
        self,
        chain: Callable[..., Any],
        indices: Sequence[str],
        datas: "Sequence[object] | None" = None,
        metas: "Metas" = None,
    ) -> np.ndarray:
        if isinstance(metas, Mapping):
            priorities = metas.get("priority")
        else:
            priorities = None if metas is None else [(meta or {}).get("priority") for meta in metas]
        if priorities is None or (isinstance(priorities, list) and None in priorities):
            raise SampleArgumentError(
                "with PriorityExperienceReplay, batch_update needs metas with the key 'priority' for each record"
            )
        priorities = _checked(priorities)
        if len(priorities) != len(indices):
            raise SampleError(f"{len(priorities)} priorities for {len(indices)} indices")
        known: np.ndarray = chain(indices, datas, metas)
        self._take_over(self._core.slots_of(indices)[known], priorities[known])
        return known

    def _take_over(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        if len(slots) == 0:
            return
        self._priorities.put(slots, priorities, drawn_by=priorities + EPS)
        self._priorities.largest = max(self.max_priority, float(priorities.max()) + EPS)

    def _clear(self, chain: Callable[..., Any]) -> None:
        chain()
        self._priorities.largest = 1.0

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return the priorities (and their powers) by record index, the highest priority, and beta."""
        with self._core.lock:
            slots = self._core.order.slots
            return {
                "indices": list(self._core.indices_in(slots)),
                "priorities": self._priorities.values[slots],
                "weights": self.sum_tree.leaves[slots],
                "priority_power_factor": self.priority_power_factor,
                "max_priority": self.max_priority,
                "IS_weight_power_factor": self.IS_weight_power_factor,
            }

    def load_state_dict(self, state_dict: Mapping[str, Any], deepcopy: bool = False) -> None:
        """Restore a ``state_dict`` for the records currently in the buffer.

        Args:
            state_dict: see :meth:`state_dict`.
            deepcopy: Ignored: values are always copied.
        """
        with self._core.lock:
            self._priorities.largest = float(state_dict["max_priority"])
            self._priorities.beta = float(state_dict["IS_weight_power_factor"])
            slots = self._core.slots_of(state_dict["indices"])
            held = slots >= 0
            self._priorities.put(slots[held], np.asarray(state_dict["priorities"], dtype=np.float64)[held])
            if state_dict["priority_power_factor"] == self.priority_power_factor:
                # The power of an array may round differently from that of a scalar: stored powers keep later draws
                # identical.
                self.sum_tree.set(slots[held], np.asarray(state_dict["weights"], dtype=np.float64)[held])


def _without_priorities(rows: "TransitionBatch | Sequence[Any]", default: float) -> tuple[Any, Any]:
    """Return rows without ``priority``, and its values (``default`` if missing; None if all rows lack it)."""
    if isinstance(rows, TransitionBatch):
        try:
            return rows.without_columns("priority"), rows.columns.get("priority")
        except SchemaError:
            # Rows modified by the caller.
            rows = rows.rows()
    if not any(isinstance(row, Mapping) and "priority" in row for row in rows):
        return rows, None
    given = [row.get("priority", default) if isinstance(row, Mapping) else default for row in rows]
    plain = [
        {key: value for key, value in row.items() if key != "priority"} if isinstance(row, Mapping) else row
        for row in rows
    ]
    return plain, given


def _checked(priorities: "Sequence[Any] | np.ndarray | torch.Tensor") -> np.ndarray:
    return checked_priorities(priorities, "priorities", SampleArgumentError)


def _annotated_record(record: BufferedData, slot: int, priority: float, weight: float | None) -> BufferedData:
    meta = {**record.meta, "priority": priority, "priority_idx": slot}
    data = record.data
    if weight is not None:
        meta["priority_IS"] = weight
        if isinstance(data, MutableMapping):
            data = data.copy() if hasattr(data, "copy") else dict(data)
            data["priority_IS"] = torch.tensor([weight], dtype=torch.float32)
    return BufferedData(data, record.index, meta)
