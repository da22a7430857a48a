"""The read side of the learner: counters, buffers and names."""

from typing import Any

from ding.torch_utils import CountVar
from ding.worker.learner._tick_monitor import TickMonitor


class LearnerState:
    """Properties of a learner; its constructor fills the attributes."""

    _last_iter: CountVar
    _collector_envstep: int
    _priority_info: dict[str, Any]
    _learner_done: bool
    _log_buffer: dict[str, Any]
    _monitor: TickMonitor | None
    _logger: Any
    _tb_logger: Any
    _rank: int
    _world_size: int
    _exp_name: str
    _instance_name: str
    _ckpt_name: str | None

    @property
    def last_iter(self) -> CountVar:
        """Counter of train iterations. Hooks of ``after_iter`` see the number of the iteration, from 0 on."""
        return self._last_iter

    @property
    def train_iter(self) -> int:
        """Number of train iterations so far, including those of a loaded checkpoint."""
        return self._last_iter.val

    @property
    def collector_envstep(self) -> int:
        """Env steps of the collector, as last told to ``train`` or loaded from a checkpoint."""
        return self._collector_envstep

    @collector_envstep.setter
    def collector_envstep(self, value: int) -> None:
        self._collector_envstep = value

    @property
    def priority_info(self) -> dict[str, Any]:
        """``priority``, ``replay_buffer_idx`` and ``replay_unique_id`` of the last ``train``.

        ``{}`` when its policy gave no priorities. The last two are lists or arrays with one entry per sample.
        """
        return self._priority_info

    @priority_info.setter
    def priority_info(self, value: dict[str, Any]) -> None:
        self._priority_info = value

    @property
    def learn_info(self) -> dict[str, Any]:
        """``{'learner_step', 'priority_info', 'learner_done'}`` in plain Python values, as commanders get it."""
        return {
            "learner_step": self._last_iter.val,
            "priority_info": {
                key: value.tolist() if hasattr(value, "tolist") else value for key, value in self._priority_info.items()
            },
            "learner_done": self._learner_done,
        }

    @property
    def log_buffer(self) -> dict[str, Any]:
        """``{'scalar', 'scalars', 'histogram'}``: what the current iteration has to say."""
        return self._log_buffer

    @log_buffer.setter
    def log_buffer(self, value: dict[str, Any]) -> None:
        self._log_buffer = value

    @property
    def monitor(self) -> Any:
        """Moving averages, ``None`` without a policy or on a rank that does not monitor."""
        return self._monitor

    @property
    def logger(self) -> Any:
        """The text logger."""
        return self._logger

    @property
    def tb_logger(self) -> Any:
        """The tensorboard writer, ``None`` on a rank that does not monitor."""
        return self._tb_logger

    @property
    def rank(self) -> int:
        """Rank of this process."""
        return self._rank

    @property
    def world_size(self) -> int:
        """Number of processes that train together."""
        return self._world_size

    @property
    def exp_name(self) -> str:
        """Folder of the experiment."""
        return self._exp_name

    @property
    def instance_name(self) -> str:
        """Name of this learner."""
        return self._instance_name

    @property
    def ckpt_name(self) -> str | None:
        """File name of the next checkpoint; ``None``: by iteration."""
        return self._ckpt_name

    @ckpt_name.setter
    def ckpt_name(self, value: str | None) -> None:
        self._ckpt_name = value

    def info(self, s: str) -> None:
        """Log a line as information."""
        self._logger.info(f"[RANK{self._rank}]: {s}")

    def debug(self, s: str) -> None:
        """Log a line for debugging."""
        self._logger.debug(f"[RANK{self._rank}]: {s}")
