"""Replay buffer of whole episodes."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ding.data import TransitionBatch
from ding.data.replay.windows import joined, stack_segments
from ding.data.roles import Samples
from ding.data.storage import SavedRows, copied_batch
from ding.utils import BUFFER_REGISTRY
from ding.worker.replay_buffer.naive_buffer import NaiveReplayBuffer


@BUFFER_REGISTRY.register("episode")
class EpisodeReplayBuffer(NaiveReplayBuffer):
    """Ring buffer whose elements are complete episodes of any length.

    An episode is a list of transitions or a ``TransitionBatch``, whose columns are copied. All other behaviour is that
    of :class:`~ding.worker.replay_buffer.naive_buffer.NaiveReplayBuffer`.
    """

    config: ClassVar[dict[str, Any]] = {
        **NaiveReplayBuffer.config,
        "type": "episode",
        # (bool) Return samples as one batch [B, T, ...] with a mask, where T is the longest episode of the sample.
        "padding": False,
    }

    def _insert(self, data: object) -> bool:
        return super()._insert([_own(episode) for episode in _episodes_of(data)])

    def _insert_saved(self, rows: SavedRows) -> None:
        # Insert all rows at once: one push holds one episode, or several by its lengths.
        self._insert(TransitionBatch.unchecked(rows.expand(0, rows.count), rows.count, rows.lengths))

    def _number_of(self, data: object) -> int:
        return len(_episodes_of(data))

    def push(self, data: object, cur_collector_envstep: int = -1) -> None:
        """Store episodes.

        Args:
            data: A list of episodes; a ``TransitionBatch``, whose segments (``lengths``) are episodes; or one episode
                as a list of transitions.
            cur_collector_envstep: Ignored.
        """
        super().push(data, cur_collector_envstep)

    def sample(
        self, size: int, cur_learner_iter: int, sample_range: "slice | None" = None, replace: bool = False
    ) -> Samples | None:
        """Sample whole episodes; see the base class.

        Returns:
            A list of episodes. With ``cfg.padding`` a ``TransitionBatch`` of ``size`` rows, with leaves
            ``[size, T, ...]`` and the fields ``mask`` (float32 ``[size, T]``) and ``length`` (int64 ``[size]``).
        """
        episodes = super().sample(size, cur_learner_iter, sample_range, replace)
        if not self._cfg["padding"] or not episodes:
            return episodes
        lengths = np.array([len(episode) for episode in episodes], dtype=np.int64)
        return stack_segments(joined(episodes), lengths, int(lengths.max()))

    @property
    def episode_len(self) -> list[int]:
        """Lengths of the episodes, oldest first."""
        with self.engine.lock:
            return [len(episode) for episode in self.engine.rows.read(self.engine.ring.held())]


def _episodes_of(data: object) -> list[Any]:
    if isinstance(data, TransitionBatch):
        lengths = data.segment_lengths()
        ends = np.cumsum(lengths)
        return [data[int(end - length) : int(end)] for length, end in zip(lengths, ends)]
    if isinstance(data, list) and data and isinstance(data[0], Mapping):
        return [data]
    return data if isinstance(data, list) else [data]


def _own(episode: object) -> object:
    """Copy an episode so that it shares no array or list with the caller."""
    if isinstance(episode, TransitionBatch):
        return copied_batch(episode)
    return list(episode) if isinstance(episode, list) else episode
