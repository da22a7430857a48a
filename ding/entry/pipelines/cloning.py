"""Pipelines of behaviour cloning: from a data set with actions, or from observations of an expert."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from easydict import EasyDict
from torch.utils.data import Dataset

from ding.config import ConfigValueError
from ding.data import EnvBatch, TransitionBatch, create_dataset
from ding.data.roles import Samples, StateDict
from ding.entry.pipelines.offline import use_data_statistics
from ding.entry.serial.arguments import InputConfig, RunArguments, called_as, learning_beside_expert
from ding.entry.serial.demonstrations import read_state
from ding.entry.serial.expert_path import compiled_expert, expert_options, playing_expert
from ding.entry.serial.loop import DataPath, collected
from ding.entry.serial.offline_path import OfflinePath, check_data_set
from ding.entry.serial.parts import EnvSetting, SerialParts
from ding.entry.serial_entry import opened_run
from ding.entry.view.callbacks import RunCallback
from ding.entry.view.views import RunView
from ding.policy import Policy
from ding.utils.data import BCODataset
from ding.utils.data.dataset import ColumnDataset
from ding.utils.file_helper import read_file
from ding.utils.nested import dotted
from ding.world_model import InverseDynamicsModel

logger = logging.getLogger("ding.entry")

_TRAIN_SHARE = 0.9
# Number of rows per forward pass on the validation set.
_CHUNK_ROWS = 4096
_EXPERT_EPISODES = 100


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
    """Train a policy to imitate the actions of a data set; return it and whether the run was completed.

    The data set has the type ``policy.collect.data_type`` (default ``naive``) and needs ``obs`` and ``action``, as
    written by ``collect_demo_data``. Its first nine tenths are used for training, reshuffled in each of the
    ``policy.learn.train_epoch`` epochs; the policy is validated on the rest before each epoch. The env is used only for
    evaluations.

    See ``ding.entry.serial_entry.serial_pipeline`` for other arguments, output files and the end of a run.

    Args:
        data_path: Data set; by default ``policy.collect.data_path`` of the config.
        max_iter: Limit of train iterations.

    Returns:
        The policy, and whether ``env.stop_value`` or ``max_iter`` was reached.

    Raises:
        ConfigError: The config is invalid, or names no data set.
        DatasetError: The data set is broken, or does not match ``policy.model``.
    """
    arguments = RunArguments(
        input_cfg, seed, env_setting, model, max_iter, view=view, strict=strict, callbacks=callbacks
    )
    with opened_run(arguments, commanded=False) as run:
        cfg = run.cfg
        epochs = num_epochs(cfg)
        dataset = _data_set(cfg, data_path)
        with run.parts(with_buffer=False, collects=False) as parts:
            if model is None:
                continuous = bool(cfg.policy.get("continuous", False))
                check_data_set(type(parts.policy), cfg.policy.model, dataset, continuous)
            use_data_statistics(parts.policy, dataset)
            data = CloningPath(parts, *_split(dataset))
            limit = min(max_iter, epochs * data.batches_per_epoch)
            options = () if data_path is None else ("--data-path", data_path)
            status = run.train(parts, data, "serial_bc", options, limit)
            return parts.policy, status.solved or status.train_iter >= max_iter


def num_epochs(cfg: EasyDict) -> int:
    """Return ``policy.learn.train_epoch``.

    Raises:
        ConfigValueError: The value is not a positive number.
    """
    epochs = cfg.policy.learn.get("train_epoch")
    if not isinstance(epochs, (int, float)) or epochs <= 0:
        raise ConfigValueError(f"policy.learn.train_epoch must be the number of epochs, got {epochs!r}")
    return int(epochs)


class CloningPath(DataPath):
    """Samples from a data set, and validates on another one before each epoch.

    Args:
        parts: Workers of the run; no collector is needed.
        training, validation: Data sets with ``obs`` and ``action``, and ``rows_at``.
    """

    def __init__(self, parts: SerialParts, training: ColumnDataset | _Part, validation: ColumnDataset | _Part) -> None:
        self._parts, self._validation = parts, validation
        self._path = OfflinePath(parts, training)
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
        """Log the accuracy of the policy on the validation set."""
        values, continuous = [], self._parts.cfg.policy.get("continuous", False)
        for start in range(0, len(self._validation), _CHUNK_ROWS):
            rows = self._validation.rows_at(np.arange(start, min(start + _CHUNK_ROWS, len(self._validation))))
            wanted = np.asarray(rows["action"]).reshape(len(rows["action"]), -1)
            batch = EnvBatch(np.arange(len(wanted)), rows["obs"])
            chosen = self._parts.policy.eval_mode.forward(batch)
            action = np.asarray(chosen.columns["action"]).reshape(wanted.shape)
            values.append(np.abs(action - wanted) if continuous else action == wanted)
        name = "validation_loss" if continuous else "validation_acc"
        value = float(np.concatenate(values).mean())
        logger.info("%s %.4f after %d train iterations", name, value, train_iter)
        if self._parts.learner.tb_logger is not None:
            self._parts.learner.tb_logger.add_scalar(name, value, train_iter)


class _Part(Dataset[Any]):
    """Contiguous part of a data set."""

    def __init__(self, dataset: Any, start: int, stop: int) -> None:
        self._dataset, self._start, self._count = dataset, start, stop - start

    def __len__(self) -> int:
        return self._count

    def rows_at(self, places: np.ndarray) -> dict[str, Any]:
        """Return the rows at these positions as columns."""
        entries: dict[str, Any] = self._dataset.rows_at(places + self._start)
        return entries


def _split(dataset: Any) -> tuple[_Part, _Part]:
    """Return the training rows and the validation rows."""
    count = int(len(dataset) * _TRAIN_SHARE)
    return _Part(dataset, 0, count), _Part(dataset, count, len(dataset))


def _data_set(cfg: EasyDict, data_path: str | None) -> Dataset[Any]:
    """Open the data set, with ``rows_at``.

    Raises:
        ConfigValueError: There is no path.
    """
    collect = cfg.policy.collect
    path = data_path or collect.get("data_path")
    if not path:
        raise ConfigValueError("no data set: give data_path (--data-path), or policy.collect.data_path in the config")
    collect.data_path = path
    collect.setdefault("data_type", "hdf5" if str(path).endswith(".hdf5") else "naive")
    dataset = create_dataset(cfg)
    if hasattr(dataset, "rows_at"):
        return dataset
    # Transitions in sequence.
    columns = TransitionBatch.from_rows([{"obs": one["obs"], "action": one["action"]} for one in dataset[:]]).columns
    return BCODataset({name: np.asarray(column) for name, column in dotted(columns, "/").items()})


@called_as(learning_beside_expert)
def serial_pipeline_bco(arguments: RunArguments) -> Policy:
    """Train behaviour cloning from the observations of an expert, and return the policy.

    In each pass the agent plays ``policy.collect.n_episode`` episodes (after the first pass a fraction ``bco.alpha`` of
    them), which train an inverse dynamics model: the action between two observations. The model labels the expert's
    observations with actions, which the policy clones for ``policy.learn.train_epoch`` epochs. An episode collector is
    required.

    The observations are those of 100 episodes played by the expert with the checkpoint ``policy.collect.model_path``,
    or without one the episodes in ``policy.collect.data_path``, as written by ``collect_episodic_demo_data``. The
    expert's actions are used only in the log.

    See ``ding.entry.serial_entry.serial_pipeline`` for other arguments, output files and the end of a run.

    Args:
        expert_cfg: Path of the expert's config, or its pair of configs; not modified. Its envs are those of the agent.
        expert_model: Network of the expert; by default the policy's own.

    Raises:
        ConfigError: A config is invalid, or there is neither a checkpoint nor a data set.
    """
    with opened_run(arguments) as run:
        cfg = run.cfg
        if cfg.policy.collect.collector.type != "episode":
            raise ConfigValueError("create_config.collector.type must be 'episode' for serial_pipeline_bco")
        episodes = _expert_episodes(cfg, compiled_expert(arguments, cfg), arguments)
        with run.parts(with_buffer=False) as parts:
            data = ObservationCloningPath(parts, run.interruptible, load_expertdata(episodes))
            run.train(parts, data, "serial_bco", expert_options(cfg))
            return parts.policy


def _expert_episodes(cfg: EasyDict, expert: EasyDict, arguments: RunArguments) -> Sequence[Samples]:
    path, data_path = cfg.policy.collect.get("model_path"), cfg.policy.collect.get("data_path")
    if path is None and data_path:
        saved: Sequence[Samples] = read_file(data_path)
        return saved
    state = read_state(path, "policy.collect.model_path (or policy.collect.data_path)")
    with playing_expert(arguments, expert, state, "episode") as player:
        played: Sequence[Samples] = player.collect(n_episode=_EXPERT_EPISODES)
        return played


class ObservationCloningPath(DataPath):
    """Plays episodes, trains the inverse dynamics model, and samples the expert's inferred actions.

    Args:
        parts: Workers of the run, with an episode collector.
        interruptible: Context manager for sections that a signal may interrupt at any point.
        expert: Steps of the expert, see ``load_expertdata``.
    """

    def __init__(
        self,
        parts: SerialParts,
        interruptible: Callable[[], AbstractContextManager[None]],
        expert: BCODataset,
    ) -> None:
        self._parts, self._interruptible, self._expert = parts, interruptible, expert
        cfg = parts.cfg
        self._cfg, self._epochs = cfg.bco.learn, int(cfg.policy.learn.train_epoch)
        self._share, self._rows = 1.0, TransitionBatch({"obs": np.zeros((0, 1))})
        self._batch_size = int(parts.learner.policy.get_attribute("batch_size"))
        self._device = parts.learner.policy.get_attribute("device")
        shapes = (cfg.policy.model.obs_shape, cfg.policy.model.action_shape)
        made = InverseDynamicsModel(*shapes, cfg.bco.model.idm_encoder_hidden_size_list, cfg.bco.model.action_space)
        self._between = made.to(self._device)
        self._scheduler = parts.learner.policy.get_attribute("lr_scheduler")
        self._num_epochs = 0
        parts.saved["cloning"] = self

    def state_dict(self) -> StateDict:
        """Return the inverse dynamics model, the expert's steps, and the epoch count of the learning rate schedule."""
        return {
            "model": self._between.state_dict(),
            "share": self._share,
            "num_epochs": self._num_epochs,
            "expert": self._expert.rows_at(slice(None)),
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Restore a state."""
        self._between.load_state_dict(state["model"])
        self._share = state["share"]
        for _ in range(state["num_epochs"]):
            self._end_epoch()
        self._expert = BCODataset(state["expert"])

    def collect(self) -> None:
        parts = self._parts
        count = max(int(self._share * parts.cfg.policy.collect.n_episode), parts.collector_env.env_num)
        with self._interruptible():
            episodes = collected(parts, n_episode=count)
        self._share = float(parts.cfg.bco.alpha)
        self._learn(load_agentdata(episodes))
        pairs = torch.as_tensor(self._expert.obs, dtype=torch.float32, device=self._device)
        action = self._between.predict_action(pairs)["action"].cpu()
        obs = np.split(np.asarray(self._expert.obs), 2, axis=1)[0]
        self._rows = TransitionBatch.unchecked({"obs": obs, "action": action.numpy()}, len(obs))
        if action.ndim == 1:
            hits = action.numpy() == np.asarray(self._expert.action).reshape(-1)
            logger.info("%.1f %% of the expert's actions are found from its observations", 100 * hits.mean())

    def batches(self) -> Iterator[Samples]:
        for _ in range(self._epochs):
            order = np.random.permutation(len(self._rows))
            for start in range(0, len(order), self._batch_size):
                yield self._rows[order[start : start + self._batch_size]]
            self._end_epoch()

    def _end_epoch(self) -> None:
        self._num_epochs += 1
        if self._scheduler is not None:
            self._scheduler.step()

    def _learn(self, steps: BCODataset) -> None:
        """Train the model of the actions between the agent's observations."""
        cfg, order = self._cfg, np.random.permutation(len(steps))
        for start in range(0, len(order), cfg.idm_batch_size):
            rows = steps.rows_at(order[start : start + cfg.idm_batch_size])
            batch = {key: torch.as_tensor(rows[key], device=self._device) for key in ("obs", "action")}
            self._between.train(batch, cfg.idm_train_epoch, cfg.idm_learning_rate, cfg.idm_weight_decay)


def load_expertdata(data: Sequence[Samples]) -> BCODataset:
    """Return the steps of episodes: ``obs`` ``[N, 2 * obs]``, each observation with the next one; ``action``;
    ``episode_id`` ``[N]``.
    """
    batches = [TransitionBatch.of(one) for one in data]
    columns = TransitionBatch.concat(batches).columns
    pairs = np.concatenate([np.asarray(columns["obs"]), np.asarray(columns["next_obs"])], axis=1)
    episode_id = np.repeat(np.arange(len(batches)), [len(one) for one in batches])
    return BCODataset({"obs": pairs, "action": np.asarray(columns["action"]), "episode_id": episode_id})


load_agentdata = load_expertdata
