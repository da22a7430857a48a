"""`serial_pipeline_bc`: behaviour cloning from a data set."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from easydict import EasyDict
from torch.utils.data import Dataset

from ding.config import ConfigValueError
from ding.data import EnvBatch, TransitionBatch, create_dataset
from ding.data.roles import Samples
from ding.entry.callbacks import RunCallback
from ding.entry.serial.offline_path import OfflinePath, check_data_set
from ding.entry.serial.parts import EnvSetting, SerialParts, serial_parts
from ding.entry.serial_entry import InputConfig, opened_run
from ding.entry.view.views import RunView
from ding.policy import Policy
from ding.utils.data import BCODataset

logger = logging.getLogger("ding.entry")

_TRAIN_SHARE = 0.9
# Rows of the validation set that go through the network at a time.
_CHUNK_ROWS = 4096


def serial_pipeline_bc(
    input_cfg: InputConfig,
    seed: int = 0,
    data_path: str | None = None,
    model: torch.nn.Module | None = None,
    max_iter: int = int(1e6),
    *,
    env_setting: EnvSetting | None = None,
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
) -> tuple[Policy, bool]:
    """Train a policy to choose the actions of a data set, and return it with whether the run came to its end.

    The data set has the type ``policy.collect.data_type`` (``naive`` when not given) and needs ``obs`` and ``action``,
    as `collect_demo_data` writes them. Its first nine tenths are trained on, in another order in each of the
    ``policy.learn.train_epoch`` epochs; on the rest the policy is validated before each epoch. The env is there for
    evaluations only.

    Args:
        data_path: The data set; else ``policy.collect.data_path`` of the config.
        max_iter: Limit of train iterations.

    Other arguments, what a run leaves behind, and how it ends are those of
    `ding.entry.serial_entry.serial_pipeline`.

    Returns:
        The policy, and whether ``env.stop_value`` or ``max_iter`` was reached.

    Raises:
        ConfigError: The config is wrong, or names no data set.
        DatasetError: The data set is broken, or does not fit ``policy.model``.
    """
    with opened_run(input_cfg, seed, env_setting, view, strict, callbacks) as run:
        cfg = run.cfg
        epochs = cfg.policy.learn.get("train_epoch")
        if not isinstance(epochs, (int, float)) or epochs <= 0:
            raise ConfigValueError(f"policy.learn.train_epoch must be the number of epochs, got {epochs!r}")
        dataset = _data_set(cfg, data_path)
        with serial_parts(cfg, env_setting, model, with_buffer=False, collects=False) as parts:
            if model is None:
                check_data_set(type(parts.policy), cfg.policy.model, dataset)
            data = CloningPath(parts, dataset)
            limit = min(max_iter, int(epochs) * data.batches_per_epoch)
            options = () if data_path is None else ("--data-path", data_path)
            status = run.train(parts, data, limit, mode="serial_bc", options=options)
            return parts.policy, status.solved or status.train_iter >= max_iter


class CloningPath:
    """Draws from the first nine tenths of a data set, and validates on the rest before each epoch.

    Args:
        parts: The workers; no collector is needed.
        dataset: With ``obs`` and ``action``, and ``rows_at``.
    """

    train_kwargs = None

    def __init__(self, parts: SerialParts, dataset: Any) -> None:
        count = int(len(dataset) * _TRAIN_SHARE)
        self._parts, self._validation = parts, _Part(dataset, count, len(dataset))
        self._path = OfflinePath(parts, _Part(dataset, 0, count))
        self.batches_per_epoch = self._path.batches_per_epoch
        self._scheduler = parts.learner.policy.get_attribute("lr_scheduler")

    def prepare(self) -> None:
        self._path.prepare()
        for _ in range(self._parts.learner.train_iter // self.batches_per_epoch):
            self._end_epoch()

    def collect(self) -> None:
        return

    def batches(self) -> Iterator[Samples]:
        done = self._parts.learner.train_iter
        if done % self.batches_per_epoch == 0 and len(self._validation):
            self._validate(done)
        yield from self._path.batches()

    def trained(self) -> None:
        if self._parts.learner.train_iter % self.batches_per_epoch == 0:
            self._end_epoch()

    def _end_epoch(self) -> None:
        if self._scheduler is not None:
            self._scheduler.step()

    def _validate(self, train_iter: int) -> None:
        """Log how well the policy chooses the actions of the validation set."""
        values, continuous = [], self._parts.cfg.policy.continuous
        for start in range(0, len(self._validation), _CHUNK_ROWS):
            rows = self._validation.rows_at(np.arange(start, min(start + _CHUNK_ROWS, len(self._validation))))
            wanted = np.asarray(rows["action"]).reshape(len(rows["action"]), -1)
            batch = EnvBatch(np.arange(len(wanted)), rows["obs"])
            chosen: Any = self._parts.policy.eval_mode.forward(batch)
            action = np.asarray(chosen.columns["action"]).reshape(wanted.shape)
            values.append(np.abs(action - wanted) if continuous else action == wanted)
        name = "validation_loss" if continuous else "validation_acc"
        value = float(np.concatenate(values).mean())
        logger.info("%s %.4f after %d train iterations", name, value, train_iter)
        if self._parts.learner.tb_logger is not None:
            self._parts.learner.tb_logger.add_scalar(name, value, train_iter)


class _Part(Dataset[Any]):
    """The rows of a data set from one position to another."""

    def __init__(self, dataset: Any, start: int, stop: int) -> None:
        self._dataset, self._start, self._count = dataset, start, stop - start

    def __len__(self) -> int:
        return self._count

    def rows_at(self, places: np.ndarray) -> dict[str, Any]:
        """The rows at these positions as columns."""
        return self._dataset.rows_at(places + self._start)


def _data_set(cfg: EasyDict, data_path: str | None) -> Any:
    """The data set, with ``rows_at``.

    Raises:
        ConfigValueError: There is no path.
    """
    collect = cfg.policy.collect
    path = data_path or collect.get("data_path")
    if not path:
        raise ConfigValueError("no data set: give data_path (--data-path), or policy.collect.data_path in the config")
    collect.data_path = path
    collect.setdefault("data_type", "hdf5" if str(path).endswith(".hdf5") else "naive")
    dataset: Any = create_dataset(cfg)
    if hasattr(dataset, "rows_at"):
        return dataset
    # Transitions, one after the other.
    columns = TransitionBatch.from_rows([{"obs": one["obs"], "action": one["action"]} for one in dataset[:]]).columns
    return BCODataset(dict(_arrays(columns, "")))


def _arrays(columns: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, np.ndarray]]:
    """The leaves of nested columns under names like ``obs/image``."""
    for name, column in columns.items():
        if isinstance(column, Mapping):
            yield from _arrays(column, f"{prefix}{name}/")
        else:
            yield prefix + name, np.asarray(column)
