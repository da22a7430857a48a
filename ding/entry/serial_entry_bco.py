"""`serial_pipeline_bco`: behaviour cloning from observations alone (Torabi et al. 2018, arXiv:1805.01954)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from easydict import EasyDict

from ding.config import ConfigValueError
from ding.config.experiment_dir import unused_dir_removed
from ding.data import TransitionBatch
from ding.data.roles import Samples
from ding.entry.callbacks import RunCallback
from ding.entry.serial.demonstrations import read_state
from ding.entry.serial.expert_path import compiled_expert, expert_options, playing_expert
from ding.entry.serial.parts import EnvSetting, SerialParts, serial_parts
from ding.entry.serial_entry import InputConfig, opened_run
from ding.entry.view.views import RunView
from ding.policy import Policy
from ding.utils.data import BCODataset
from ding.utils.file_helper import read_file
from ding.world_model import InverseDynamicsModel

logger = logging.getLogger("ding.entry")

_EXPERT_EPISODES = 100


def serial_pipeline_bco(
    input_cfg: InputConfig,
    expert_cfg: InputConfig,
    seed: int = 0,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    expert_model: torch.nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
) -> Policy:
    """Train behaviour cloning from the observations of an expert, and return the policy.

    In each pass the agent plays ``policy.collect.n_episode`` episodes (after the first pass the share ``bco.alpha`` of
    them), from which a model of the actions between two observations learns. It says what the expert may have done, and
    the policy clones that for ``policy.learn.train_epoch`` epochs. The agent needs an episode collector.

    The observations are those of 100 episodes that the expert with the checkpoint ``policy.collect.model_path`` plays,
    or without one the episodes in the file ``policy.collect.data_path``, as `collect_episodic_demo_data` writes it.
    Its actions are used for the log alone.

    Args:
        expert_cfg: Path of the expert's config, or its pair of configs; not changed. Its envs are those of the agent.
        expert_model: The expert's network; the policy's default when not given.

    Other arguments, what a run leaves behind, and how it ends are those of
    `ding.entry.serial_entry.serial_pipeline`.

    Raises:
        ConfigError: A config is wrong, or there is neither a checkpoint nor a data set.
    """
    with opened_run(input_cfg, seed, env_setting, view, strict, callbacks) as run:
        cfg = run.cfg
        with unused_dir_removed(cfg.exp_name):
            if cfg.policy.collect.collector.type != "episode":
                raise ConfigValueError("create_config.collector.type must be 'episode' for serial_pipeline_bco")
            expert = compiled_expert(expert_cfg, cfg, env_setting, strict)
            episodes = _expert_episodes(cfg, expert, env_setting, expert_model)
        with serial_parts(cfg, env_setting, model, with_buffer=False) as parts:
            data = ObservationCloningPath(parts, run.signals.interruptible, load_expertdata(episodes))
            run.train(parts, data, max_train_iter, max_env_step, "serial_bco", expert_options(cfg))
            return parts.policy


def _expert_episodes(
    cfg: EasyDict, expert: EasyDict, env_setting: EnvSetting | None, expert_model: torch.nn.Module | None
) -> Sequence[Samples]:
    path, data_path = cfg.policy.collect.get("model_path"), cfg.policy.collect.get("data_path")
    if path is None and data_path:
        return read_file(data_path)
    state = read_state(path, "policy.collect.model_path (or policy.collect.data_path)")
    with playing_expert(cfg, expert, state, env_setting, expert_model, "episode") as player:
        return player.collect(n_episode=_EXPERT_EPISODES)


class ObservationCloningPath:
    """Plays, learns what lies between two observations, and draws what the expert may have done.

    Args:
        parts: The workers, with an episode collector.
        interruptible: Makes the section that a signal may leave at any point.
        expert: The expert's steps, see `load_expertdata`.
    """

    train_kwargs = None

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

    def prepare(self) -> None:
        return

    def collect(self) -> None:
        parts = self._parts
        count = max(int(self._share * parts.cfg.policy.collect.n_episode), parts.collector_env.env_num)
        with self._interruptible():
            episodes: Any = parts.collector.collect(
                n_episode=count, train_iter=parts.learner.train_iter, policy_kwargs=parts.commander.step()
            )
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
        scheduler = self._parts.learner.policy.get_attribute("lr_scheduler")
        for _ in range(self._epochs):
            order = np.random.permutation(len(self._rows))
            for start in range(0, len(order), self._batch_size):
                yield self._rows[order[start : start + self._batch_size]]
            if scheduler is not None:
                scheduler.step()

    def trained(self) -> None:
        return

    def _learn(self, steps: BCODataset) -> None:
        """Learn the actions between the agent's observations."""
        cfg, order = self._cfg, np.random.permutation(len(steps))
        for start in range(0, len(order), cfg.idm_batch_size):
            rows = steps.rows_at(order[start : start + cfg.idm_batch_size])
            batch = {key: torch.as_tensor(rows[key], device=self._device) for key in ("obs", "action")}
            self._between.train(batch, cfg.idm_train_epoch, cfg.idm_learning_rate, cfg.idm_weight_decay)


def load_expertdata(data: Sequence[Samples]) -> BCODataset:
    """The steps of episodes: ``obs`` ``[N, 2 * obs]``, each observation and the next one; ``action``; ``episode_id``
    ``[N]``.
    """
    batches = [one if isinstance(one, TransitionBatch) else TransitionBatch.from_rows(one) for one in data]
    columns = TransitionBatch.concat(batches).columns
    pairs = np.concatenate([np.asarray(columns["obs"]), np.asarray(columns["next_obs"])], axis=1)
    episode_id = np.repeat(np.arange(len(batches)), [len(one) for one in batches])
    return BCODataset({"obs": pairs, "action": np.asarray(columns["action"]), "episode_id": episode_id})


load_agentdata = load_expertdata
