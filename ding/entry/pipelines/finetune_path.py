"""Online learning with a data set in addition to the agent's own samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from easydict import EasyDict
from torch.utils.data import Dataset

from ding.config import ConfigValueError
from ding.data import TransitionBatch
from ding.data.roles import Samples
from ding.entry.serial.loop import ReplayPath
from ding.entry.serial.offline_path import DrawnRows, OfflinePath
from ding.entry.serial.parts import SerialParts
from ding.utils import get_world_size
from ding.utils.nested import map_together

_SHARE = 0.5


class FinetunePath(ReplayPath):
    """Samples batches only from a data set for the first train iterations; then collects into a replay buffer, and
    combines samples of the buffer, followed by rows of the data set, in each batch.

    The rows of a batch depend only on the seed and ``learner.train_iter``.

    Args:
        parts: Workers of the run.
        interruptible: Context manager for sections that a signal may interrupt at any point.
        dataset: See :class:`~ding.entry.serial.offline_path.DrawnRows`, also for errors.
        fields: Fields that the policy learns from.
        alone: Number of train iterations from the data set alone.
        share: Fraction of rows of the data set in a batch.
    """

    def __init__(
        self,
        parts: SerialParts,
        interruptible: Callable[[], AbstractContextManager[None]],
        dataset: Dataset[Any],
        fields: Sequence[str],
        alone: int,
        share: float,
    ) -> None:
        super().__init__(parts, interruptible)
        self._fields, self._alone = fields, alone
        num_rows = round(int(self._batch_size) * share)
        self._num_own = int(self._batch_size) - num_rows
        self._offline = OfflinePath(parts, dataset)
        ranks = get_world_size() if parts.cfg.policy.get("multi_gpu", False) else 1
        self._rows = DrawnRows(dataset, parts.cfg.seed, num_rows * ranks, whole=True) if num_rows else None
        self._began = False
        #: Batches of the pass that were sampled but not used for training.
        self._ahead = 0

    def prepare(self) -> None:
        self._offline.prepare()

    def collect(self) -> None:
        if self._learns_alone():
            return
        if not self._began and self._alone == 0:
            super().prepare()
        self._began = True
        super().collect()

    def batches(self) -> Iterator[Samples]:
        if self._learns_alone():
            self.train_kwargs = None
            yield from self._offline.batches()
        else:
            yield from super().batches()

    def trained(self) -> None:
        if self._began:
            super().trained()

    def _learns_alone(self) -> bool:
        return self._parts.learner.train_iter < self._alone

    def _draw(self, count: int) -> Samples | None:
        self._ahead = 0
        return self._joined_batches(count)

    def _batch(self) -> Samples | None:
        train_iter = self._parts.learner.train_iter
        own: Samples | None = self.buffer.sample(self._num_own, train_iter)
        if own is None or self._rows is None:
            return own
        rows = self._rows.batch(train_iter - self._alone + self._ahead)
        self._ahead += 1
        return _mixed(own, rows, self._fields)


def _mixed(own: Samples, rows: Samples, fields: Sequence[str]) -> TransitionBatch:
    """Concatenate samples and rows, restricted to these fields, in the form of the samples."""
    parts = [TransitionBatch.of(part).columns for part in (own, rows)]
    columns = {name: map_together(_joined, *(part[name] for part in parts)) for name in fields}
    return TransitionBatch.unchecked(columns, len(own) + len(rows))


def _joined(own: Any, rows: Any) -> torch.Tensor:
    own, rows = torch.as_tensor(own), torch.as_tensor(rows)
    return torch.cat([own, rows.reshape(len(rows), *own.shape[1:]).to(own.dtype)])


def shares_of_data(cfg: EasyDict) -> tuple[int, float]:
    """Return ``policy.learn.offline_train_iter`` and ``policy.learn.offline_share`` of a compiled config.

    Raises:
        ConfigValueError: A value is invalid, or the policy does not support this.
    """
    learn = cfg.policy.learn
    alone, share = learn.get("offline_train_iter", 0), learn.get("offline_share", _SHARE)
    if not isinstance(alone, int) or alone < 0:
        raise ConfigValueError(f"policy.learn.offline_train_iter must be an int of at least 0, got {alone!r}")
    if not isinstance(share, (int, float)) or not 0 <= share < 1:
        raise ConfigValueError(
            f"policy.learn.offline_share must be a share of a batch, at least 0 and less than 1, got {share!r}"
        )
    if cfg.policy.on_policy:
        raise ConfigValueError(
            f"policy.type {cfg.policy.type.removesuffix('_command')!r} is on-policy: it has no buffer"
        )
    if cfg.policy.get("priority", False):
        raise ConfigValueError("policy.priority: rows of a data set have no priorities; give policy.priority=False")
    return alone, float(share)
