"""Prioritised experience replay."""

import copy
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ding.data import TransitionBatch
from ding.data.replay.checks import STORAGE_CONFIG, number_within, places, positive_int, sample_size
from ding.data.replay.errors import BufferArgumentError
from ding.data.replay.index import EMPTY, Ring, SlotTable, read_update, split_rows, unique_ids
from ding.data.replay.limits import LIMIT_CONFIG, controller_of
from ding.data.replay.priorities import EPS, Priorities
from ding.data.replay.reports import SampleAttributes, sample_summary
from ding.data.roles import Samples, StateDict, Writer
from ding.utils import BUFFER_REGISTRY, LoggerFactory, write_scalars
from ding.worker.replay_buffer.base_buffer import takes_state_dict
from ding.worker.replay_buffer.ring_buffer import RingBuffer

_STATE_KEYS = (
    "data", "tail", "valid_count", "push_count", "generator", "positions", "slots", "head", "span", "max_priority",
    "next_unique_id", "beta", "anneal_step", "sample_calls",
)  # fmt: skip
ADDED_FIELDS = frozenset({"replay_unique_id", "replay_buffer_idx", "priority", "staleness", "use", "IS"})


@BUFFER_REGISTRY.register("advanced")
class AdvancedReplayBuffer(RingBuffer):
    """Ring buffer that samples in proportion to ``priority ** alpha``, after Schaul et al., "Prioritized Experience
    Replay" (arXiv:1511.05952).

    A sample has these fields in addition to the pushed ones:

    ====================  =====================================================================================
    ``replay_unique_id``  ``<instance_name>_<running number>``
    ``replay_buffer_idx`` slot
    ``priority``          priority of the element
    ``staleness``         train iterations since ``collect_iter`` of the element, -1 without it
    ``use``               number of times the element was drawn, including this one
    ``IS``                ``(N * P(i)) ** -beta``, divided by the maximum of this value over the buffer
    ====================  =====================================================================================

    In columns they are 1-D arrays: int64, and float64 for ``priority`` and ``IS``. ``replay_unique_id`` holds the
    running numbers; they become strings when single rows are taken.

    Elements are removed when they are overwritten, drawn ``max_use`` times, or older than ``max_staleness``.

    *Thread safety.* As in :class:`~ding.worker.replay_buffer.naive_buffer.NaiveReplayBuffer`, every method is one
    critical section. An ``update`` of an element that was removed after sampling is dropped and counted.

    Args:
        cfg: Config; missing keys take the defaults.
        tb_logger: TensorBoard writer to share; ``None``: create one and close it in :meth:`close`.
        exp_name: Experiment directory.
        instance_name: Name of the log file and of the TensorBoard tags, and prefix of the unique ids.
        left: Called, under the buffer's lock, with the rows that leave the buffer (a ``TransitionBatch``, columns or a
            list).

    Raises:
        BufferConfigError: A config value is out of range (an ``AssertionError``).
    """

    config: ClassVar[dict[str, Any]] = {
        "type": "advanced",
        # (int) Capacity of the ring.
        "replay_buffer_size": 4096,
        # (float) Number of draws after which an element is removed.
        "max_use": float("inf"),
        # (float) Number of train iterations since collection after which an element is removed.
        "max_staleness": float("inf"),
        # (float) Strength of prioritisation: 0 samples uniformly, 1 in proportion to the priority; typically 0.5 to
        # 0.7.
        "alpha": 0.6,
        # (float) Initial importance-sampling correction: 0 none, 1 full; typically 0.4.
        "beta": 0.4,
        # (int) Number of sampled batches over which beta grows to 1. 0: beta is constant.
        "anneal_step": int(1e5),
        # (bool) Deep-copy pushed and sampled elements. Rows in columns are copied anyway.
        "deepcopy": False,
        # (bool) Delete the file ``data_id`` of every element that leaves the buffer.
        "enable_track_used_data": False,
        "thruput_controller": {
            # Limits of recent pushes per recent sample.
            "push_sample_rate_limit": {"max": float("inf"), "min": 0},
            # (float) Seconds after which a count has decayed to 1 %.
            "window_seconds": 30,
            # (float) Required number of elements per element to sample.
            "sample_min_limit_ratio": 1,
        },
        "monitor": {
            "sampled_data_attr": {
                # (int) Number of sample calls to aggregate over.
                "average_range": 5,
                # (int) Number of sample calls between reports.
                "print_freq": 200,
            },
            # (float) Seconds between reports of the throughput.
            "periodic_thruput": {"seconds": 60},
        },
        "storage": STORAGE_CONFIG,
        # Limit of samples per insert, see SampleRatioLimiter.
        "rate_limit": LIMIT_CONFIG,
    }

    def __init__(
        self,
        cfg: Mapping[str, Any],
        tb_logger: Writer | None = None,
        exp_name: str = "default_experiment",
        instance_name: str = "buffer",
        left: Callable[[Any], None] | None = None,
    ) -> None:
        super().__init__(cfg, tb_logger, exp_name, instance_name, left)
        merged, size = self._cfg, self.engine.size
        self.alpha = number_within(merged, "alpha", 0.0, 1.0)
        beta = number_within(merged, "beta", 0.0, 1.0)
        self._max_use = number_within(merged, "max_use", 1.0, math.inf)
        self._max_staleness = number_within(merged, "max_staleness", 0.0, math.inf)
        anneal_step = number_within(merged, "anneal_step", 0.0, math.inf)
        self.priorities = Priorities(size, self.alpha, beta, anneal_step)
        self.table = SlotTable(size)
        self._dropped_updates = 0
        control = merged["thruput_controller"]
        self._min_ratio = number_within(control, "sample_min_limit_ratio", 1.0, math.inf)
        self.controller = controller_of(control)
        attr = merged["monitor"]["sampled_data_attr"]
        # Use, priority and staleness of recent samples.
        self._sampled: deque[SampleAttributes] = deque(maxlen=positive_int(attr["average_range"], "average_range"))
        self._report_freq = positive_int(attr["print_freq"], "print_freq")
        self._sample_calls, self._envstep = 0, -1

    def _report_seconds(self) -> float:
        return float(self._cfg["monitor"]["periodic_thruput"]["seconds"])

    # ------------------------------------------------------------------ push

    def push(self, data: object, cur_collector_envstep: int = -1) -> None:
        """Store one dict, a list of dicts, or the rows of a ``TransitionBatch``.

        A field ``priority`` sets the priority of an element; the default is the largest priority so far. Elements that
        are not dicts are logged and skipped. The throughput controller may refuse the push, which is also logged.

        Args:
            data: Rows to store.
            cur_collector_envstep: Env steps collected so far, for reports.

        Raises:
            SchemaError: The rows differ in fields, shapes or dtypes from those in the buffer.
            BufferArgumentError: A priority is negative, NaN or infinite.
            OSError: The rows are stored in files, and the disk is full.
            BufferClosedError: The buffer was closed.
        """
        if self.engine.limiter is None:
            self._insert(data, cur_collector_envstep, admitted=False)
        else:
            count = self._number_of(data)
            self.engine.limited_push(count, lambda: self._insert(data, cur_collector_envstep, admitted=False))

    def insert(self, data: object, first_id: "int | None" = None) -> None:
        """Push data that no collector sends at present, bypassing the rate limiter and the throughput controller.

        Args:
            data: See :meth:`push`.
            first_id: Running number of the first element in its unique id; ``None``: the next one.
        """
        with self.engine.lock:
            if first_id is not None:
                self.table.next_unique_id = first_id
            self._insert(data)

    def _insert(self, data: object, cur_collector_envstep: int = 0, admitted: bool = True) -> bool:
        engine = self.engine
        with engine.lock:
            rows, count = engine.received(data)
            if type(rows) is list:
                rows, count = self._only_dicts(rows)
            if count == 0 or not (admitted or self.controller is None or self._admits(count)):
                return False
            priority, collected, rows = split_rows(rows, count, self.priorities.largest, ADDED_FIELDS)
            start, placed = engine.add(rows, count)
            if count > placed:
                # If there are more rows than slots, keep the last ones.
                self.table.next_unique_id += count - placed
                priority = priority[-placed:] if isinstance(priority, np.ndarray) else priority
                collected = collected[-placed:] if isinstance(collected, np.ndarray) else collected
            self.table.fill(start, placed, collected)
            self.priorities.fill(start, placed, priority)
            if self.controller is not None:
                self.controller.add(pushed=count)
            self._envstep = cur_collector_envstep
            return True

    def _check_values(self, rows: dict[str, Any], count: int) -> None:
        super()._check_values(rows, count)
        split_rows(rows, count, self.priorities.largest, ADDED_FIELDS)

    def _admits(self, count: int) -> bool:
        allowed, reason = (True, "") if self.controller is None else self.controller.can_push(count)
        if not allowed:
            self.engine.logger.info("%s refuses a push of %d: %s", self.engine.name, count, reason)
        return allowed

    def _only_dicts(self, rows: list[Any]) -> tuple[list[Any], int]:
        kept = [row for row in rows if isinstance(row, Mapping)]
        if len(kept) < len(rows):
            self.engine.logger.warning(
                "%s leaves out %d elements that are no dicts", self.engine.name, len(rows) - len(kept)
            )
        return kept, len(kept)

    # ------------------------------------------------------------------ sample

    def sample(self, size: int, cur_learner_iter: int, sample_range: "slice | None" = None) -> Samples | None:
        """Sample elements with replacement, in proportion to their weight.

        Sampling is stratified: the sum of the weights is divided into ``size`` equal strata, and one point is drawn
        uniformly in each.

        Args:
            size: Number of elements.
            cur_learner_iter: Train iterations so far, for the staleness.
            sample_range: Restrict sampling to a slice of the elements, from the oldest (0) to the newest (-1).

        Returns:
            A ``TransitionBatch`` (rows in columns) or a list of dicts (objects) with ``size`` copies; ``[]`` for size
            0; ``None`` if there are not enough elements or the throughput controller refuses, which is logged.

        Raises:
            BufferArgumentError: The size is negative, or the range selects no elements.
        """
        if type(size) is not int or size < 0:
            size = sample_size(size)
        if size == 0:
            return []
        if self.engine.limiter is None:
            return self._sample(size, cur_learner_iter, sample_range)
        return self.engine.limited_sample(size, lambda: self._sample(size, cur_learner_iter, sample_range))

    def _sample(self, size: int, cur_learner_iter: int, sample_range: "slice | None") -> Samples | None:
        engine, priorities = self.engine, self.priorities
        with engine.lock:
            if self._max_staleness < math.inf:
                self.remove_stale(cur_learner_iter)
            reason = self._why_not(size)
            if reason:
                engine.refuse(size, reason)
                return None
            among = None
            if sample_range is not None:
                held = engine.ring.held()
                among = held[np.array(places(sample_range, len(held)))]
            slots, weights = priorities.draw(engine.draws.stratified(size), size, among)
            uses, importance = self.table.use(slots), priorities.importance(weights)
            sampled = self._annotated(slots, [cur_learner_iter], uses, importance)
            if self.controller is not None:
                self.controller.add(sampled=size)
            used_up = self.table.used_up(slots, self._max_use)
            if len(used_up):
                self.remove_slots(used_up, used_up=True)
            return sampled

    def sample_many(self, size: int, iters: Sequence[int]) -> "TransitionBatch | None":
        """Sample one batch per train iteration, as many as the limits allow.

        Args:
            size: Number of elements per batch.
            iters: Train iterations of the batches, for the staleness.

        Returns:
            The rows of all batches, concatenated; ``None`` if not even one is possible. Refusals are not logged.

        Raises:
            SchemaError: The elements have no common schema.
        """
        engine = self.engine
        with engine.lock:
            limited = engine.limiter is not None or self.controller is not None
            if not limited and self._max_use == math.inf and self._max_staleness == math.inf:
                return self._sample_together(size, iters)
            batches = []
            for cur_iter in iters:
                if self._why_not(size) or (engine.limiter is not None and not engine.limiter.can_sample(size)[0]):
                    break
                sampled = self.sample(size, cur_iter)
                if sampled is None:
                    break
                batches.append(TransitionBatch.of(sampled))
            return TransitionBatch.concat(batches) if batches else None

    def _sample_together(self, size: int, iters: Sequence[int]) -> "TransitionBatch | None":
        """Sample all batches at once, which costs little more than one batch; valid if neither rows nor priorities
        depend on earlier batches.
        """
        if not len(iters) or self._why_not(size):
            return None
        priorities, draws = self.priorities, self.engine.draws
        points = np.concatenate([draws.stratified(size) for _ in iters])
        slots, weights = priorities.draw(points, size)
        uses = [self.table.use(drawn) for drawn in slots.reshape(-1, size)]
        importance = priorities.importance(weights, len(iters))
        sampled = self._annotated(slots, iters, np.concatenate(uses), importance)
        return TransitionBatch.of(sampled)

    def _why_not(self, size: int) -> str:
        """Return the reason why sampling is not possible, '' if it is."""
        count = self.engine.ring.count
        if count == 0 or count / size < self._min_ratio:
            return f"it holds {count} elements, {self._min_ratio:g} * {size} are needed"
        allowed, reason = (True, "") if self.controller is None else self.controller.can_sample(size)
        return "" if allowed else reason

    def _annotated(
        self, slots: np.ndarray, iters: Sequence[int], uses: np.ndarray, importance: np.ndarray
    ) -> "TransitionBatch | list[Any]":
        """Copy the rows in int64 ``[N]`` slots and add the sample fields, as batches of equal size at ``iters``."""
        now: int | np.ndarray = iters[0] if len(iters) == 1 else np.repeat(iters, len(slots) // len(iters))
        added = {
            "replay_unique_id": unique_ids(self.table.unique_id.take(slots), self.engine.name),
            "replay_buffer_idx": slots,
            "priority": self.priorities.values.take(slots),
            "staleness": self.table.staleness(slots, now),
            "use": uses,
            "IS": importance,
        }
        self._sampled.append((uses, added["priority"], added["staleness"]))
        for cur_iter in iters:
            if self._sample_calls % self._report_freq == 0:
                self._report(cur_iter)
            self._sample_calls += 1
        sampled = self.engine.read(slots)
        if isinstance(sampled, TransitionBatch):
            sampled.columns.update(added)
            return sampled
        for row, values in zip(sampled, zip(*(column.tolist() for column in added.values()))):
            row.update(zip(added, values))
        return sampled

    def _report(self, cur_iter: int) -> None:
        """Report attributes of recent samples, at the first and every ``print_freq``-th sample."""
        logger, writer, name = self.engine.logger, self.engine.writer, self.engine.name
        if writer is not None:
            values = {**sample_summary(self._sampled), "beta": self.priorities.beta}
            logger.info("samples of %s:%s", name, LoggerFactory.get_tabulate_vars_hor(values))
            for axis, step in (("iter", cur_iter), ("step", self._envstep)):
                if step != -1:
                    write_scalars(writer, f"{name}_{axis}/", values, step)

    def remove_stale(self, cur_iter: int) -> None:
        """Remove stale elements, from the oldest up to the first that is fresh enough."""
        ring, table = self.engine.ring, self.table
        if ring.count == 0 or table.staleness(np.array([ring.head]), cur_iter)[0] < self._max_staleness:
            return
        held = ring.held()
        fresh = table.staleness(held, cur_iter) < self._max_staleness
        self.remove_slots(held[: int(fresh.argmax())] if fresh.any() else held)

    def remove_slots(self, slots: np.ndarray, used_up: bool = False) -> None:
        """Remove the elements in these (distinct) slots, see :meth:`ReplayEngine.remove`."""
        self.engine.remove(slots, used_up)
        self.table.remove(slots)
        self.priorities.remove(slots)

    def remove_where(self, field: str, value: object) -> int:
        """Remove the elements whose ``field`` equals ``value``; return their number.

        Raises:
            KeyError: The elements are stored as columns without such a field.
        """
        with self.engine.lock:
            held = self.engine.ring.held()
            rows = self.engine.rows.read(held)
            if isinstance(rows, TransitionBatch):
                found = np.asarray(rows.columns[field]) == value
            else:
                found = np.array([row.get(field) == value for row in rows], dtype=np.bool_)
            if found.any():
                self.remove_slots(held[found])
        return int(found.sum())

    # ------------------------------------------------------------------ update, clear

    def update(self, info: Mapping[str, Any]) -> None:
        """Set the priorities of sampled elements.

        An element that left its slot after sampling is skipped and counted in :attr:`dropped_update_count`. A small
        constant is added to the stored priority, so that every element can be drawn.

        Args:
            info: ``{'replay_unique_id', 'replay_buffer_idx', 'priority'}`` with N entries each: lists, arrays, tensors
                or columns of a sample. Without ``priority`` the call has no effect.

        Raises:
            BufferArgumentError: A priority is negative, NaN or infinite, a key is missing, or lengths differ; the
                buffer is unchanged.
        """
        if not info or "priority" not in info:
            return
        ids, slots, priority = read_update(info, self.engine.name)
        with self.engine.lock:
            kept = self.table.holds(ids, slots)
            if not kept.all():
                self._dropped_updates += len(kept) - int(np.count_nonzero(kept))
                self.engine.logger.debug("%s skips priorities of elements that have left", self.engine.name)
                slots, priority = slots[kept], priority[kept]
            if len(slots):
                self.priorities.largest = max(self.priorities.largest, float(priority[priority.argmax()]))
                self.priorities.put(slots, priority + EPS)

    @property
    def dropped_update_count(self) -> int:
        """Number of priority updates for elements that had left."""
        return self._dropped_updates

    @property
    def next_unique_id(self) -> int:
        """Running number of the next element."""
        return self.table.next_unique_id

    @property
    def beta(self) -> float:
        """Current exponent of the importance weights."""
        return self.priorities.beta

    @beta.setter
    def beta(self, beta: float) -> None:
        self.priorities.beta = beta

    def clear(self) -> None:
        """Remove all elements and reset the largest priority. ``push_count``, ids, beta and the generator are kept."""
        with self.engine.lock:
            self.engine.clear()
            self.table.clear()
            self.priorities.clear()

    def state_dict(self) -> StateDict:
        """Return a copy of the state, which may be saved with a checkpoint. Rows stored in files are read into memory.

        In addition to the state of a naive buffer it contains ``head``, ``positions`` (slots of the elements of
        ``data``), ``slots`` (ids, uses, priorities and the tree of weights), ``max_priority``, ``next_unique_id``,
        ``beta`` and ``anneal_step``.
        """
        with self.engine.lock:
            return {
                **self.engine.state_dict(),
                "positions": self.engine.ring.held(),
                "slots": {**self.table.state_dict(), **self.priorities.state_dict()},
                "head": self.engine.ring.head,
                "span": self.engine.ring.span,
                "max_priority": self.priorities.largest,
                "next_unique_id": self.table.next_unique_id,
                "beta": self.priorities.beta,
                "anneal_step": self.priorities.anneal_step,
                "sample_calls": self._sample_calls,
            }

    @takes_state_dict
    def load_state_dict(self, _state_dict: StateDict, deepcopy: bool = False) -> None:
        """Restore a ``state_dict``. If the state contains only ``data``, push these elements.

        Args:
            _state_dict: State to restore; arrays are copied.
            deepcopy: Deep-copy other objects, too.

        Raises:
            BufferArgumentError: The state is incomplete or damaged, or belongs to a buffer of another size.
            SchemaError: The rows have different schemas. The buffer is unchanged.
        """
        if set(_state_dict) == {"data"}:
            self._insert_state(_state_dict["data"])
            return
        engine, size = self.engine, self.engine.size
        with engine.reading_state(_state_dict, _STATE_KEYS):
            state = copy.deepcopy(_state_dict) if deepcopy else _state_dict
            table = SlotTable(size)
            table.load_state_dict(state["slots"], int(state["next_unique_id"]))
            taken = table.unique_id != EMPTY
            ring = Ring.restored(size, int(state["tail"]), int(state["span"]), int(state["push_count"]), taken)
            held = ring.held()
            same = np.array_equal(held, state["positions"]) and len(held) == np.count_nonzero(taken)
            if not same or ring.head != int(state["head"]):
                raise BufferArgumentError(
                    f"the state of {engine.name!r} is damaged: its elements are not where its slots are taken"
                )
            anneal_step = number_within(state, "anneal_step", 0.0, math.inf)
            priorities = Priorities(size, self.alpha, number_within(self._cfg, "beta", 0.0, 1.0), anneal_step)
            priorities.load_state_dict(state["slots"], held, float(state["max_priority"]), float(state["beta"]))
            sample_calls = int(state["sample_calls"])
            engine.load_state_dict(state, ring)
            self.table, self.priorities, self._sample_calls = table, priorities, sample_calls
