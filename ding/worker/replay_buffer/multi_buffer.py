"""Group of replay buffers that receive the same samples."""

from collections.abc import Mapping
from typing import Any

from ding.worker.replay_buffer.base_buffer import IBuffer, create_buffer, takes_state_dict


class MultiReplayBuffer(IBuffer):
    """Named buffers, for a policy whose learn step takes a batch from each (``multi_buffer`` in its config).

    Every sample is pushed to all buffers. They differ in size, in the maximum use of a sample, and in how they sample.

    Args:
        cfg: ``{name: config of a buffer}``, and the key ``multi_buffer``.
        args, kwargs: ``tb_logger`` and ``exp_name``, passed to each buffer.
    """

    config = {"multi_buffer": True}

    def __init__(self, cfg: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        sections = {name: section for name, section in cfg.items() if isinstance(section, Mapping)}
        self.buffers: dict[str, Any] = {
            name: create_buffer(section, *args, **{**kwargs, "instance_name": f"{name}_buffer"})
            for name, section in sections.items()
        }

    @property
    def replay_buffer_size(self) -> int:
        """Total capacity of the buffers."""
        return sum(buffer.replay_buffer_size for buffer in self.buffers.values())

    def push(self, data: object, cur_collector_envstep: int) -> None:
        """Store the samples in each buffer."""
        for buffer in self.buffers.values():
            buffer.push(data, cur_collector_envstep)

    def update(self, info: Mapping[str, Any]) -> None:
        """Pass ``info[name]`` to each buffer."""
        for name, part in info.items():
            self.buffers[name].update(part)

    def sample(self, batch_size: Mapping[str, int], cur_learner_iter: int) -> dict[str, Any] | None:  # type: ignore[override]
        """Sample ``batch_size[name]`` elements from each buffer: ``{name: samples}``; ``None`` if one has too few."""
        batches = {name: buffer.sample(batch_size[name], cur_learner_iter) for name, buffer in self.buffers.items()}
        return None if any(batch is None for batch in batches.values()) else batches

    def clear(self) -> None:
        """Remove all samples."""
        for buffer in self.buffers.values():
            buffer.clear()

    def count(self) -> int:
        """Return the number of samples in all buffers."""
        return sum(buffer.count() for buffer in self.buffers.values())

    @property
    def nbytes(self) -> int:
        """Size of the elements of all buffers, in bytes."""
        return sum(getattr(buffer, "nbytes", 0) for buffer in self.buffers.values())

    def save_data(self, file_name: str) -> None:
        """Write each buffer to ``<file_name>.<name>``."""
        for name, buffer in self.buffers.items():
            buffer.save_data(f"{file_name}.{name}")

    def load_data(self, file_name: str) -> None:
        """Push the files written by :meth:`save_data`."""
        for name, buffer in self.buffers.items():
            buffer.load_data(f"{file_name}.{name}")

    def state_dict(self) -> dict[str, Any]:
        """Return the state of each buffer by name."""
        return {name: buffer.state_dict() for name, buffer in self.buffers.items()}

    @takes_state_dict
    def load_state_dict(self, _state_dict: dict[str, Any]) -> None:
        """Restore a :meth:`state_dict`."""
        for name, buffer in self.buffers.items():
            buffer.load_state_dict(_state_dict[name])

    def close(self) -> None:
        """Close all buffers."""
        for buffer in self.buffers.values():
            buffer.close()
