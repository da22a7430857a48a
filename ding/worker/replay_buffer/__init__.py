"""Replay buffers: see ``docs/replay_buffers.md``."""

from typing import TYPE_CHECKING, Any

from ding.worker.replay_buffer.advanced_buffer import AdvancedReplayBuffer
from ding.worker.replay_buffer.base_buffer import IBuffer, create_buffer, get_buffer_cls
from ding.worker.replay_buffer.episode_buffer import EpisodeReplayBuffer
from ding.worker.replay_buffer.naive_buffer import ElasticReplayBuffer, NaiveReplayBuffer
from ding.worker.replay_buffer.rate_limiter import SampleRatioLimiter
from ding.worker.replay_buffer.sequence_buffer import SequenceReplayBuffer

if TYPE_CHECKING:
    from ding.data.buffer.deque_buffer_wrapper import DequeBufferWrapper

__all__ = [
    "AdvancedReplayBuffer",
    "DequeBufferWrapper",
    "ElasticReplayBuffer",
    "EpisodeReplayBuffer",
    "IBuffer",
    "NaiveReplayBuffer",
    "SampleRatioLimiter",
    "SequenceReplayBuffer",
    "create_buffer",
    "get_buffer_cls",
]


def __getattr__(name: str) -> Any:
    if name == "DequeBufferWrapper":
        from ding.data.buffer.deque_buffer_wrapper import DequeBufferWrapper

        return DequeBufferWrapper
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
