"""Pipeline of TD3-VAE: reinforcement learning in a learned latent space of actions."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np

from ding.config import ConfigValueError
from ding.data import TransitionBatch
from ding.data.roles import Samples, StateDict
from ding.data.transition_batch import joined_samples
from ding.entry.serial.arguments import RunArguments, called_as, learning
from ding.entry.serial.loop import DataPath, collected
from ding.entry.serial.parts import ReplayBuffer, SerialParts, new_buffer
from ding.entry.serial.run_state import state_of
from ding.entry.serial_entry import load_input, opened_run
from ding.entry.utils import random_collect
from ding.policy import Policy

logger = logging.getLogger("ding.entry")


@called_as(learning)
def serial_pipeline_td3_vae(arguments: RunArguments) -> Policy:
    """Train TD3-VAE (``policy.type`` ``td3-vae`` or ``td3_vae``) and return its policy.

    Initially the autoencoder makes ``policy.learn.warm_up_update`` updates on ``policy.random_collect_size`` samples of
    random actions, which are not used again. In each pass TD3 makes ``learn.update_per_collect_rl`` updates; in every
    ``learn.rl_vae_update_circle``-th pass the autoencoder makes ``learn.update_per_collect_vae`` updates, on batches of
    which half was collected since its last ones.

    See ``ding.entry.serial_entry.serial_pipeline`` for other arguments, output files and the end of a run.

    Raises:
        ConfigError: The config is invalid, or has another policy.
    """
    main, create = load_input(arguments.input_cfg)
    kind = create.policy.type.removesuffix("_command").replace("-", "_")
    if kind != "td3_vae":
        raise ConfigValueError(f"serial_pipeline_td3_vae trains policy.type 'td3_vae', found {create.policy.type!r}")
    create.policy.type = kind
    with opened_run(replace(arguments, input_cfg=(main, create))) as run, contextlib.ExitStack() as ends:
        parts = ends.enter_context(run.parts())
        settings = run.cfg.policy.other.replay_buffer
        recent = new_buffer(settings, ends, exp_name=run.cfg.exp_name, instance_name="recent_buffer")
        run.train(parts, LatentPath(parts, run.interruptible, recent), "serial_td3_vae")
        return parts.policy


class LatentPath(DataPath):
    """Collects into two replay buffers: of all samples, and of those since the last training of the autoencoder.

    Args:
        parts: Workers of the run.
        interruptible: Context manager for sections that a signal may interrupt at any point.
        recent: The second buffer.
    """

    def __init__(
        self, parts: SerialParts, interruptible: Callable[[], AbstractContextManager[None]], recent: ReplayBuffer
    ) -> None:
        if parts.buffer is None:
            raise ConfigValueError("learning from a replay buffer needs parts with one")
        self._parts, self._history, self._recent = parts, parts.buffer, recent
        self._interruptible = interruptible
        learn = parts.cfg.policy.learn
        self._warm_up, self._circle = int(learn.warm_up_update), int(learn.rl_vae_update_circle)
        self._rl_updates, self._vae_updates = int(learn.update_per_collect_rl), int(learn.update_per_collect_vae)
        if self._circle < 1:
            raise ConfigValueError(f"policy.learn.rl_vae_update_circle must be at least 1, found {self._circle}")
        self._batch_size = int(parts.learner.policy.get_attribute("batch_size"))
        self._num_passes, self._is_warm = 0, False
        parts.saved["latent"] = self

    def state_dict(self) -> StateDict:
        """Return the recent samples and the position in the schedule."""
        return {"num_passes": self._num_passes, "is_warm": self._is_warm, "recent": state_of(self._recent)}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore a state."""
        self._num_passes, self._is_warm = int(state_dict["num_passes"]), bool(state_dict["is_warm"])
        if state_dict["recent"] is not None:
            self._recent.load_state_dict(state_dict["recent"])

    def prepare(self) -> None:
        parts = self._parts
        size = parts.cfg.policy.get("random_collect_size") or 0
        if self._is_warm or size <= 0:
            return
        if self._history.count() == 0:
            with self._interruptible():
                random_collect(
                    parts.cfg.policy, parts.policy, parts.collector, parts.collector_env, parts.commander,
                    self._history, lambda samples: _marked(samples, warm_up=True),
                )  # fmt: skip
        while parts.learner.train_iter < self._warm_up:
            batch = self._history.sample(self._batch_size, parts.learner.train_iter)
            if batch is None:
                raise ConfigValueError(
                    f"policy.random_collect_size={size} gives no batch of {self._batch_size} samples for the warm-up"
                )
            parts.learner.train(batch, parts.collector.envstep)
            with self._interruptible():
                pass
        self._history.clear()
        self._is_warm = True

    def collect(self) -> None:
        with self._interruptible():
            samples = _marked(collected(self._parts), warm_up=False)
        for buffer in (self._history, self._recent):
            buffer.push(samples, cur_collector_envstep=self._parts.collector.envstep)

    def batches(self) -> Iterator[Samples]:
        for _ in range(self._rl_updates):
            batch = self._history.sample(self._batch_size, self._parts.learner.train_iter)
            if batch is None:
                break
            yield _marked(batch, rl_phase=True, vae_phase=False)
        self._num_passes += 1
        if self._num_passes % self._circle:
            return
        for done in range(self._vae_updates):
            batch = self._half_recent()
            if batch is None:
                # Keep the recent samples for the next pass.
                logger.debug("the buffers gave no batch of %d for the autoencoder after %d", self._batch_size, done)
                return
            yield _marked(batch, rl_phase=False, vae_phase=True)
        self._recent.clear()

    def _half_recent(self) -> Samples | None:
        train_iter, count = self._parts.learner.train_iter, self._batch_size // 2
        halves = [self._history.sample(count, train_iter), self._recent.sample(self._batch_size - count, train_iter)]
        return None if halves[0] is None or halves[1] is None else joined_samples(halves)

    def trained(self) -> None:
        if self._parts.learner.policy.get_attribute("priority"):
            # The autoencoder's batches have no priorities.
            self._history.update(self._parts.learner.priority_info)


def _marked(samples: Samples, **marks: bool) -> Samples:
    """Return the samples with these constant fields."""
    if isinstance(samples, TransitionBatch):
        return samples.with_columns(**{key: np.full(len(samples), mark) for key, mark in marks.items()})
    return [{**sample, **marks} for sample in samples]
