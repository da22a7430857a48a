"""Replay buffers: see ``docs/replay_buffers.md``."""

from ding.worker.replay_buffer.advanced_buffer import AdvancedReplayBuffer
from ding.worker.replay_buffer.base_buffer import IBuffer, create_buffer, get_buffer_cls
from ding.worker.replay_buffer.naive_buffer import NaiveReplayBuffer

__all__ = ["AdvancedReplayBuffer", "IBuffer", "NaiveReplayBuffer", "create_buffer", "get_buffer_cls"]
