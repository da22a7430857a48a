"""Rows of one shard: an index with priorities, like that of an unsharded buffer."""

import math
from typing import Any

import numpy as np
from msgspec import Struct

from ding.data import TransitionBatch
from ding.interaction.messages import Identifier
from ding.worker.coordinator.buffers.metadata_buffer import index_config, index_priorities, restore_index_priorities
from ding.worker.coordinator.shards.messages import (
    Answer,
    Draw,
    Drop,
    Expire,
    Message,
    Push,
    Report,
    Update,
)
from ding.worker.replay_buffer.advanced_buffer import AdvancedReplayBuffer

# Limits of a buffer apply to the sum of its shards.
_OF_THE_WHOLE = ("rate_limit", "thruput_controller", "replay_buffer_size")


class ShardSpec(Struct, forbid_unknown_fields=True):
    """Specification of a shard.

    Attributes:
        cfg: Config of the buffer.
        buffer_id: Id of the buffer in the run.
        number: Index of the shard.
        size: Capacity in rows.
        exp_name: Experiment directory.
    """

    cfg: dict[str, Any]
    buffer_id: Identifier
    number: int
    size: int
    exp_name: str


class Shard:
    """Rows ``(chunk, row)`` with priorities. Not thread-safe."""

    remote = False

    def __init__(self, spec: ShardSpec) -> None:
        own = {key: value for key, value in index_config(spec.cfg).items() if key not in _OF_THE_WHOLE}
        own["replay_buffer_size"] = spec.size
        self._max_use = float(own.get("max_use", math.inf))
        self._left: list[np.ndarray] = []
        self._dropped = 0
        self.index = AdvancedReplayBuffer(own, None, spec.exp_name, f"shard{spec.number}", self._note_left)

    def _note_left(self, rows: Any) -> None:
        columns = rows.columns if isinstance(rows, TransitionBatch) else rows
        if isinstance(columns, dict):
            self._left.append(np.asarray(columns["chunk"]))

    def ask(self, message: Message) -> Answer:
        """See `ShardLink.ask`; errors of invalid messages propagate."""
        columns = {}
        if isinstance(message, Push):
            self._push(message)
        elif isinstance(message, Draw):
            columns = self._draw(message)
        elif isinstance(message, Update):
            self.index.update(
                {
                    "replay_unique_id": message.ids,
                    "replay_buffer_idx": message.slots,
                    "priority": message.priority,
                }
            )
        elif isinstance(message, Expire):
            self.index.remove_stale(message.cur_iter)
        elif isinstance(message, Drop):
            if self.index.count():
                self.index.remove_where("chunk", message.chunk)
        elif isinstance(message, Report):
            columns = dict(zip(("ids", "priorities", "uses"), index_priorities(self.index)))
        else:
            restore_index_priorities(self.index, message.ids, message.priorities, message.uses)
        return self._answer(columns)

    def close(self) -> None:
        """Remove all rows."""
        self.index.close()

    def _push(self, message: Push) -> None:
        priorities = self.index.priorities
        priorities.largest = max(priorities.largest, message.largest)
        begin = 0
        lists = (message.chunks.tolist(), message.first_ids.tolist(), message.rows.tolist(), message.iters.tolist())
        for chunk, first_id, rows, cur_iter in zip(*lists, strict=True):
            columns = {
                "chunk": np.full(rows, chunk),
                "row": np.arange(rows, dtype=np.int32),
                "collect_iter": np.full(rows, cur_iter),
            }
            if len(message.priority):
                given = message.priority[begin : begin + rows]
                columns["priority"] = np.where(np.isnan(given), priorities.largest, given)
            begin += rows
            self.index.insert(TransitionBatch.unchecked(columns, rows), first_id)

    def _draw(self, message: Draw) -> dict[str, np.ndarray]:
        index, table = self.index, self.index.table
        slots, weights = index.priorities.tree.draw(message.points, None)
        uses = [table.use(drawn) for drawn in np.split(slots, message.sizes.cumsum()[:-1])]
        refs = index.engine.read(slots)
        assert isinstance(refs, TransitionBatch)
        found = refs.columns
        columns = {
            "chunk": found["chunk"],
            "row": found["row"],
            "unique_id": table.unique_id.take(slots),
            "slot": slots,
            "priority": index.priorities.values.take(slots),
            "weight": weights,
            "staleness": table.staleness(slots, np.repeat(message.iters, message.sizes)),
            "use": np.concatenate(uses),
        }
        used_up = table.used_up(slots, self._max_use)
        if len(used_up):
            index.remove_slots(used_up)
        return columns

    def _answer(self, columns: dict[str, np.ndarray]) -> Answer:
        priorities, dropped = self.index.priorities, self.index.dropped_update_count
        chunks, counts = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *self._left]), return_counts=True)
        self._left.clear()
        before, self._dropped = self._dropped, dropped
        return Answer(
            rows=self.index.count(),
            mass=priorities.tree.total,
            smallest=priorities.tree.smallest(),
            largest=priorities.largest,
            dropped=dropped - before,
            left=np.stack([chunks, counts], axis=1).reshape(-1),
            columns=columns,
        )
