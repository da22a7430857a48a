"""Prioritised experience replay."""

import copy
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ding.data import TransitionBatch
from ding.utils import BUFFER_REGISTRY, LoggerFactory, write_scalars
from ding.worker.replay_buffer._advanced_config import ADVANCED_CONFIG
from ding.worker.replay_buffer._monitors import SampledDataAttrMonitor
from ding.worker.replay_buffer._priorities import read_update, unique_ids
from ding.worker.replay_buffer._ring import RingBuffer
from ding.worker.replay_buffer._ring_config import number_within, positive_int
from ding.worker.replay_buffer._slots import EMPTY, Slots, part_of, split_rows
from ding.worker.replay_buffer._throughput import ThruputController
from ding.worker.replay_buffer.errors import BufferArgumentError, BufferConfigError

_STATE_KEYS = (
    "data", "tail", "valid_count", "push_count", "generator", "draw", "positions", "slots", "head", "span",
    "max_priority", "next_unique_id", "beta", "anneal_step", "sample_calls",
)  # fmt: skip
ADDED_FIELDS = frozenset({"replay_unique_id", "replay_buffer_idx", "priority", "staleness", "use", "IS"})


@BUFFER_REGISTRY.register("advanced")
class AdvancedReplayBuffer(RingBuffer):
    """A ring buffer that draws in proportion to ``priority ** alpha``, after Schaul et al., "Prioritized Experience
    Replay" (arXiv:1511.05952).

    A sample carries these fields beside those that were pushed:

    ====================  =====================================================================================
    ``replay_unique_id``  ``<instance_name>_<running number>``
    ``replay_buffer_idx`` slot
    ``priority``          priority of the element
    ``staleness``         train iterations since ``collect_iter`` of the element, -1 without it
    ``use``               how often the element was drawn, this time included
    ``IS``                ``(N * P(i)) ** -beta``, divided by the largest such value of the buffer
    ====================  =====================================================================================

    As columns they are 1-D arrays: int64, and float64 for ``priority`` and ``IS``. ``replay_unique_id`` holds the
    running numbers and gives the texts when rows are taken.

    Elements are removed when they are overwritten, drawn ``max_use`` times, or older than ``max_staleness``.

    *Thread safety.* As :class:`~ding.worker.replay_buffer.naive_buffer.NaiveReplayBuffer`: every method is one
    critical section. An ``update`` for an element that was removed since it was sampled is dropped and counted.

    Args:
        cfg: config; missing keys take the defaults.
        tb_logger: tensorboard writer to share; without one the buffer makes (and later closes) its own.
        exp_name: folder of the experiment.
        instance_name: name of the log file and of the tensorboard tags, and head of the unique ids.

    Raises:
        BufferConfigError: a config value out of its range (an ``AssertionError``).
    """

    config: ClassVar[dict[str, Any]] = ADVANCED_CONFIG

    _eps = 1e-5

    def __init__(
        self,
        cfg: Any,
        tb_logger: Any = None,
        exp_name: str = "default_experiment",
        instance_name: str = "buffer",
    ) -> None:
        super().__init__(cfg, tb_logger, exp_name, instance_name)
        cfg = self._cfg
        self.alpha = number_within(cfg, "alpha", 0.0, 1.0)
        self._beta = number_within(cfg, "beta", 0.0, 1.0)
        self._max_use = number_within(cfg, "max_use", 1.0, math.inf)
        if self._limiter is not None and self._max_use < self._limiter.samples_per_insert:
            raise BufferConfigError(
                f"max_use={self._max_use:g} is below rate_limit.samples_per_insert="
                f"{self._limiter.samples_per_insert:g}: the limiter would wait for samples that nobody can draw"
            )
        self._max_staleness = number_within(cfg, "max_staleness", 0.0, math.inf)
        self._anneal_step = number_within(cfg, "anneal_step", 0.0, math.inf)
        self._beta_step = (1 - self._beta) / self._anneal_step if self._anneal_step else 0.0
        self._slots = Slots(self._size, self.alpha, self._eps)
        self._max_priority = 1.0
        self._next_unique_id = 0
        self._head = 0
        self._span = 0
        self._dropped_updates = 0
        control = cfg["thruput_controller"]
        self._min_ratio = number_within(control, "sample_min_limit_ratio", 1.0, math.inf)
        limit = control["push_sample_rate_limit"]
        unlimited = limit["max"] == math.inf and limit["min"] == 0
        self._controller = None if unlimited else ThruputController(control)
        attr = cfg["monitor"]["sampled_data_attr"]
        self._attr_monitor = SampledDataAttrMonitor(positive_int(attr["average_range"], "average_range"))
        self._print_freq = positive_int(attr["print_freq"], "print_freq")
        self._strata = np.zeros(0)
        # Used-up elements, by slot, whose files are still to be removed.
        self._retired: dict[int, Any] = {}
        self._sample_calls = 0
        self._cur_envstep = -1

    def _report_seconds(self) -> float:
        return float(self._cfg["monitor"]["periodic_thruput"]["seconds"])

    # ------------------------------------------------------------------ push

    def push(self, data: Any, cur_collector_envstep: int = -1) -> None:
        """Store one dict, the dicts of a list, or the rows of a ``TransitionBatch``.

        A field ``priority`` sets the priority of an element; without one it gets the largest priority so far. What is
        no dict is logged and left out. The throughput controller may refuse the push, which is logged, too.

        Args:
            data: rows.
            cur_collector_envstep: env steps collected so far, for reports.

        Raises:
            SchemaError: rows that differ in fields, shapes or dtypes from those in the buffer.
            BufferArgumentError: a priority is negative, NaN or infinite.
            OSError: the rows lie in files, and the disk is full.
            BufferClosedError: the buffer was closed.
        """
        if self._limiter is None:
            self._push_now(data, cur_collector_envstep)
        else:
            self._push_limited(self._limiter, data, lambda: self._push_now(data, cur_collector_envstep))

    def _push_now(self, data: Any, cur_collector_envstep: int, admitted: bool = False) -> bool:
        with self._lock:
            self._check_open()
            rows, count = self._rows_of(data)
            if type(rows) is list:
                rows, count = self._only_dicts(rows)
            if count == 0:
                return False
            if not (admitted or self._admits(count)):
                return False
            self._push_rows(rows, count)
            if self._controller is not None:
                self._controller.add(pushed=count)
            self._cur_envstep = cur_collector_envstep
            return True

    def _push_unlimited(self, data: Any) -> None:
        self._push_now(data, 0, admitted=True)

    def _check_values(self, rows: dict[str, Any], count: int) -> None:
        super()._check_values(rows, count)
        split_rows(rows, count, self._max_priority, ADDED_FIELDS)

    def _admits(self, count: int) -> bool:
        allowed, reason = (True, "") if self._controller is None else self._controller.can_push(count)
        if not allowed:
            self._logger.info("%s refuses a push of %d: %s", self._instance_name, count, reason)
        return allowed

    def _only_dicts(self, rows: list[Any]) -> tuple[list[Any], int]:
        kept = [row for row in rows if isinstance(row, Mapping)]
        if len(kept) < len(rows):
            self._logger.warning(
                "%s leaves out %d elements that are no dicts", self._instance_name, len(rows) - len(kept)
            )
        return kept, len(kept)

    def _push_rows(self, rows: Any, count: int) -> None:
        priority, collected, rows = split_rows(rows, count, self._max_priority, ADDED_FIELDS)
        size = self._size
        skipped = max(0, count - size)
        leaving = self._leaving(count)
        used = self._tracked(rows, count)[:skipped]
        if self._remover is not None and len(leaving):
            used = list(self._storage.read(leaving)) + used  # type: ignore[union-attr]
        start, placed = self._place(rows, count)
        self._slots.fill_ring(
            start, placed, self._next_unique_id + skipped, part_of(priority, skipped), part_of(collected, skipped)
        )
        self._next_unique_id += count
        self._push_count += count
        self._count += placed - len(leaving)
        self._tail = (start + placed) % size
        beyond = max(0, self._span + count - size)
        self._head = (self._head + beyond) % size
        self._span = min(size, self._span + count)
        self._skip_holes()
        counters = self._counters
        counters.pushed += count
        counters.removed += len(leaving) + skipped
        counters.have = self._count
        if self._retired:
            positions = (start + np.arange(placed)) % size
            used += [self._retired.pop(position) for position in positions.tolist() if position in self._retired]
        self._use_up(used)

    def _leaving(self, count: int) -> np.ndarray:
        """Held positions that give way to ``count`` more elements, oldest first."""
        if self._span + count <= self._size:
            return np.zeros(0, dtype=np.int64)
        positions = (self._tail + np.arange(min(count, self._size))) % self._size
        return positions[self._slots.unique_id[positions] != EMPTY]

    def _held_positions(self) -> np.ndarray:
        positions = (self._head + np.arange(self._span)) % self._size
        return positions[self._slots.unique_id[positions] != EMPTY]

    def _skip_holes(self) -> None:
        """Move the head to the oldest held element."""
        if self._count == 0:
            self._head, self._span = self._tail, 0
        elif self._slots.unique_id[self._head] == EMPTY:
            positions = (self._head + np.arange(self._span)) % self._size
            first = int(np.argmax(self._slots.unique_id[positions] != EMPTY))
            self._head = (self._head + first) % self._size
            self._span -= first

    # ------------------------------------------------------------------ sample

    def sample(self, size: int, cur_learner_iter: int, sample_range: "slice | None" = None) -> Any:
        """Draw elements in proportion to their weight; an element may be drawn several times.

        The draw is stratified: the sum of the weights is cut into ``size`` equal parts, and one point is drawn
        uniformly in each.

        Args:
            size: number of elements.
            cur_learner_iter: train iterations so far, for the staleness.
            sample_range: draw among these only: a slice over the elements from the oldest (0) to the newest (-1).

        Returns:
            A ``TransitionBatch`` (rows in columns) or a list of dicts (objects) of ``size`` copies; ``[]`` for size 0;
            ``None`` when there are not enough elements or the throughput controller refuses, which is logged.

        Raises:
            BufferArgumentError: a negative size, or a range that selects nothing.
        """
        if type(size) is not int or size < 0:
            size = self._checked_size(size)
        if size == 0:
            return []
        if self._limiter is None:
            return self._sample_now(size, cur_learner_iter, sample_range)
        return self._sample_limited(self._limiter, size, lambda: self._sample_now(size, cur_learner_iter, sample_range))

    def _sample_now(self, size: int, cur_learner_iter: int, sample_range: "slice | None") -> Any:
        with self._lock:
            if self._max_staleness < math.inf:
                self._remove_stale(cur_learner_iter)
            reason = self._why_not(size)
            if reason:
                self._refuse(size, reason)
                return None
            positions, weights = self._draw_weighted(size, sample_range)
            sampled = self._annotated(positions, weights, cur_learner_iter)
            if self._controller is not None:
                self._controller.add(sampled=size)
            self._counters.sampled += size
            if self._anneal_step:
                self._beta = min(1.0, self._beta + self._beta_step)
            if self._max_use < math.inf:
                self._remove_used(positions)
            self._report(cur_learner_iter)
            return sampled

    def _why_not(self, size: int) -> str:
        """Why a sample cannot be given, '' when it can."""
        if self._count == 0 or self._count / size < self._min_ratio:
            return f"it holds {self._count} elements, {self._min_ratio:g} * {size} are needed"
        if self._controller is not None:
            allowed, reason = self._controller.can_sample(size)
            if not allowed:
                return reason
        return ""

    def _draw_weighted(self, size: int, sample_range: "slice | None") -> tuple[np.ndarray, np.ndarray]:
        """int64 ``[size]`` positions and float64 ``[size]``, their weights."""
        tree = self._slots.tree
        points = self._generator.random(size)
        if size != len(self._strata):
            self._strata = np.arange(size, dtype=np.float64)
        points += self._strata
        if sample_range is None:
            return tree.draw(points, size)
        held = self._held_positions()
        self._ranks(sample_range, len(held))  # raises when it selects nothing
        held = held[sample_range]
        weights = tree.leaves.take(held)
        ends = weights.cumsum()
        picked = np.minimum(ends.searchsorted(points * (ends[-1] / size), "right"), len(ends) - 1)
        return held.take(picked), weights.take(picked)

    def _annotated(
        self, positions: np.ndarray, weights: np.ndarray, cur_iter: Any, use: Any = None, beta: Any = None
    ) -> Any:
        """Copies of the rows with the added fields.

        ``cur_iter`` is one for all, or int64 ``[N]``. ``use``, int64 ``[N]``, says how often each was drawn, where that
        was counted; ``beta``, float64 ``[N]``, which exponents hold, where these are not all the present one.
        """
        slots = self._slots
        if use is None:
            np.add.at(slots.use_count, positions, 1)
        known = slots.table.take(positions)
        added = {
            "replay_unique_id": unique_ids(known["unique_id"], self._instance_name),
            "replay_buffer_idx": positions,
            "priority": known["priority"],
            "staleness": slots.staleness(known["collect_iter"], cur_iter),
            "use": known["use_count"] if use is None else use,
            # (N * P(i)) ** -beta / (N * P_min) ** -beta = (w_min / w_i) ** beta
            "IS": (slots.tree.smallest() / weights) ** (self._beta if beta is None else beta),
        }
        self._attr_monitor.record(added["use"], added["priority"], added["staleness"])
        sampled = self._storage.read(positions)  # type: ignore[union-attr]
        if self._deepcopy:
            sampled = self._copy_out(sampled)
        if isinstance(sampled, TransitionBatch):
            sampled.columns.update(added)
            return sampled
        names = list(added)
        for row, values in zip(sampled, zip(*(column.tolist() for column in added.values()))):
            row.update(zip(names, values))
        return sampled

    def _remove_used(self, positions: np.ndarray) -> None:
        used_up = np.unique(positions[self._slots.use_count[positions] >= self._max_use])
        if len(used_up):
            if self._remover is not None:
                # Their files are still to be read by whoever was given them now: they go when the slot is taken again.
                self._retired.update(zip(used_up.tolist(), self._storage.read(used_up)))  # type: ignore[union-attr]
            self._remove(used_up)

    def _remove_stale(self, cur_iter: int) -> None:
        """Remove from the oldest element on, up to the first one that is fresh enough."""
        slots = self._slots
        if self._count == 0 or slots.staleness(slots.collect_iter[[self._head]], cur_iter)[0] < self._max_staleness:
            return
        held = self._held_positions()
        fresh = slots.staleness(slots.collect_iter[held], cur_iter) < self._max_staleness
        stale = held[: int(fresh.argmax())] if fresh.any() else held
        if self._remover is not None:
            self._use_up(list(self._storage.read(stale)))  # type: ignore[union-attr]
        self._remove(stale)

    def _remove(self, positions: np.ndarray) -> None:
        self._storage.erase(positions)  # type: ignore[union-attr]
        self._slots.remove(positions)
        self._count -= len(positions)
        self._counters.removed += len(positions)
        self._counters.have = self._count
        self._skip_holes()

    def _report(self, cur_iter: int) -> None:
        number = self._sample_calls
        self._sample_calls += 1
        # As in the original API the first sample is reported, too.
        if self._monitor is None or number % self._print_freq:
            return
        values = {**self._attr_monitor.summary(), "beta": self._beta}
        self._logger.info("samples of %s:%s", self._instance_name, LoggerFactory.get_tabulate_vars_hor(values))
        if self._tb_logger is None:
            return
        for axis, step in (("iter", cur_iter), ("step", self._cur_envstep)):
            if step != -1:
                write_scalars(self._tb_logger, f"{self._instance_name}_{axis}/", values, step)

    # ------------------------------------------------------------------ update, clear

    def update(self, info: Mapping[str, Any]) -> None:
        """Set priorities of sampled elements.

        An element that left its slot since it was sampled is skipped and counted in :attr:`dropped_update_count`.
        The stored priority is the given one plus a small constant, so that no element becomes unreachable.

        Args:
            info: ``{'replay_unique_id', 'replay_buffer_idx', 'priority'}``, each with N entries: lists, arrays, tensors
                or columns of a sample. Without ``priority`` nothing happens.

        Raises:
            BufferArgumentError: a priority is negative, NaN or infinite, an entry is missing, or lengths differ;
                nothing was changed.
        """
        if not info or "priority" not in info:
            return
        ids, positions, priority, largest = read_update(info, self._instance_name)
        if len(ids):
            with self._lock:
                self._apply(ids, positions, priority, largest)

    def _apply(self, ids: np.ndarray, positions: np.ndarray, priority: np.ndarray, largest: float) -> None:
        kept = self._slots.hold(ids, positions)
        dropped = len(kept) - int(np.count_nonzero(kept))
        if dropped:
            self._dropped_updates += dropped
            self._logger.debug("%s skips priorities of elements that are gone", self._instance_name)
            positions, priority = positions[kept], priority[kept]
            if not len(positions):
                return
            largest = float(priority.max())
        self._max_priority = max(self._max_priority, largest)
        self._slots.set_priority(positions, priority + self._eps, largest + self._eps)

    @property
    def dropped_update_count(self) -> int:
        """Number of priorities that came for elements that were gone."""
        return self._dropped_updates

    @property
    def beta(self) -> float:
        """Current exponent of the importance weights."""
        return self._beta

    @beta.setter
    def beta(self, beta: float) -> None:
        self._beta = beta

    @property
    def _valid_count(self) -> int:
        return self._count

    def clear(self) -> None:
        """Remove all elements and forget the largest priority. ``push_count``, ids, beta and the generator stay."""
        with self._lock:
            if self._remover is not None:
                held = list(self._storage.read(self._held_positions())) if self._storage is not None else []
                self._use_up(held + list(self._retired.values()))
                self._retired.clear()
            self._counters.removed += self._count
            self._counters.have = 0
            if self._limiter is not None:
                self._limiter.reset()
            self._slots.clear()
            self._tail = self._head = self._span = self._count = 0
            self._max_priority = 1.0
            if self._storage is not None:
                self._storage.close()
                self._storage = None

    def state_dict(self) -> dict[str, Any]:
        """A copy of everything in memory, also of rows that lie in files; it may be saved with a checkpoint.

        Beside what the state of a naive buffer holds: ``head``, ``positions`` (slots of the elements of ``data``),
        ``slots`` (ids, uses, priorities and the tree of weights), ``max_priority``, ``next_unique_id``, ``beta`` and
        ``anneal_step``.
        """
        with self._lock:
            return {
                **self._ring_state(),
                "positions": self._held_positions(),
                "slots": self._slots.state_dict(),
                "head": self._head,
                "span": self._span,
                "max_priority": self._max_priority,
                "next_unique_id": self._next_unique_id,
                "beta": self._beta,
                "anneal_step": self._anneal_step,
                "sample_calls": self._sample_calls,
            }

    def load_state_dict(self, state_dict: dict[str, Any], deepcopy: bool = False) -> None:
        """Become the buffer of a ``state_dict``. A state with ``data`` only pushes these elements.

        Args:
            state_dict: the state; arrays are copied.
            deepcopy: deep-copy what is no array, too.

        Raises:
            BufferArgumentError: the state lacks something, is damaged, or is that of a buffer of another size.
            SchemaError: its rows do not fit together. The buffer stays as it was.
        """
        if set(state_dict) == {"data"}:
            self._push_state(state_dict["data"])
            return
        self._check_state(state_dict, _STATE_KEYS)
        if deepcopy:
            state_dict = copy.deepcopy(state_dict)
        with self._lock, self._reading_state():
            self._check_open()
            slots = Slots(self._size, self.alpha, self._eps)
            slots.load_state_dict(state_dict["slots"])
            head, span = int(state_dict["head"]), int(state_dict["span"])
            positions = np.array(state_dict["positions"], dtype=np.int64)
            if not slots.are_taken(positions, head, span):
                raise BufferArgumentError(
                    f"the state of {self._instance_name!r} is damaged: its elements are not where its slots are taken"
                )
            next_id, sample_calls = int(state_dict["next_unique_id"]), int(state_dict["sample_calls"])
            max_priority, beta = float(state_dict["max_priority"]), float(state_dict["beta"])
            anneal_step = number_within(state_dict, "anneal_step", 0.0, math.inf)
            self._load_ring_state(state_dict, positions)
            self._slots, self._head, self._span = slots, head, span
            self._next_unique_id, self._sample_calls = next_id, sample_calls
            self._anneal_step = anneal_step
            self._max_priority, self._beta = max_priority, beta
