"""Learning from an expert's samples in addition to the agent's: the data path and the expert."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from easydict import EasyDict

from ding.config import compile_config
from ding.data import TransitionBatch
from ding.data.roles import Samples, StateDict
from ding.entry.serial.arguments import RunArguments
from ding.entry.serial.demonstrations import Demonstrator, demonstrator, read_state
from ding.entry.serial.loop import DataPath, ReplayPath
from ding.entry.serial.ongoing import load_ongoing, ongoing_state, restart_envs
from ding.entry.serial.parts import ReplayBuffer, SerialParts, env_class, env_managers, new_buffer
from ding.entry.serial.run_state import state_of
from ding.entry.serial_entry import load_input, opened_run
from ding.policy import Policy
from ding.utils import SeedTree

logger = logging.getLogger("ding.entry")


@dataclass(frozen=True)
class Mix:
    """Mixing of the expert's samples with those of the agent."""

    #: Marks samples as the expert's (True) or the agent's.
    label: Callable[[Samples, bool], Samples]
    #: Maps a batch size to the number of the expert's samples in the batch.
    num_expert: Callable[[int], int]
    #: Config of the expert's buffer for ``create_buffer``.
    buffer: Mapping[str, Any]
    #: Number of samples that the expert collects before the first pass, and in each pass.
    first_count: int
    pass_count: int = 0
    #: Number of updates on the expert's samples alone, one per initial pass, without collection.
    lone_updates: int = 0
    #: Converts the expert's samples to the fields of the agent's.
    completed: Callable[[Samples, Policy], Samples] = lambda samples, _: samples


class ExpertPath(DataPath):
    """Collects into a replay buffer, and completes each batch with samples of an expert from another buffer.

    Args:
        parts: Workers of the run.
        interruptible: Context manager for sections that a signal may interrupt at any point.
        expert: The expert and the buffer of its samples; ``None`` for a run without one.
        mix: Mixing of both.
        saved: The expert as part of a saved run; after a restore it has its samples already.
    """

    def __init__(
        self,
        parts: SerialParts,
        interruptible: Callable[[], AbstractContextManager[None]],
        expert: tuple[Demonstrator, ReplayBuffer] | None,
        mix: Mix,
        saved: SavedExpert | None = None,
    ) -> None:
        self._saved = saved
        self._own = ReplayPath(parts, interruptible, lambda samples: mix.label(samples, False), joins=False)
        self._parts, self._interruptible, self._expert, self._mix = parts, interruptible, expert, mix
        self._lone_updates = 0 if expert is None else mix.lone_updates
        #: Whether this pass trains only on the expert's samples.
        self._alone = False
        self._num_own = 0
        self._trained = False
        policy = parts.learner.policy
        self._batch_size, self._uses_priority = policy.get_attribute("batch_size"), policy.get_attribute("priority")

    def prepare(self) -> None:
        if self._saved is None or not self._saved.taken_up:
            self._demonstrate(self._mix.first_count)
        if self._parts.cfg.policy.learn.get("resume_training", False):
            self._lone_updates = max(0, self._lone_updates - self._parts.learner.train_iter)
        self._own.prepare()

    def collect(self) -> None:
        self._alone = self._lone_updates > 0
        self._lone_updates -= self._alone
        if not self._alone:
            self._own.collect()
            self._demonstrate(self._mix.pass_count)

    def batches(self) -> Iterator[Samples]:
        updates = 1 if self._alone else int(self._parts.cfg.policy.learn.update_per_collect)
        for done in range(updates):
            batch = self._batch()
            if batch is None:
                if self._trained:
                    logger.warning(
                        "the buffers gave no batch of %d after %d of %d updates of this pass; collecting on",
                        self._batch_size, done, updates,
                    )  # fmt: skip
                return
            yield batch

    def trained(self) -> None:
        self._trained = True
        if not self._uses_priority:
            return
        info = self._parts.learner.priority_info
        self._own.buffer.update({key: values[: self._num_own] for key, values in info.items()})
        if self._expert is not None:
            self._expert[1].update({key: values[self._num_own :] for key, values in info.items()})

    def _demonstrate(self, count: int) -> None:
        if self._expert is not None and count > 0:
            expert, buffer = self._expert
            with self._interruptible():
                samples = self._mix.completed(expert.collect(n_sample=count), self._parts.policy)
            buffer.push(self._mix.label(samples, True), cur_collector_envstep=0)

    def _batch(self) -> Samples | None:
        """Return the agent's samples followed by the expert's; ``None`` if a buffer has too few."""
        train_iter, size = self._parts.learner.train_iter, self._batch_size
        num_expert = size if self._alone else self._mix.num_expert(size) if self._expert is not None else 0
        self._num_own = size - num_expert
        own = self._own.buffer.sample(self._num_own, train_iter)
        theirs = [] if self._expert is None else self._expert[1].sample(num_expert, train_iter)
        if own is None or theirs is None:
            return None
        return own + theirs if len(own) and len(theirs) else own if len(own) else theirs


class SavedExpert:
    """Expert of a saved run: its buffer, counters and ongoing episodes.

    Args:
        parts: Workers of the run.
        expert: Its envs are saved or restarted like those of the agent.
        buffer: Stores its samples.
    """

    def __init__(self, parts: SerialParts, expert: Demonstrator, buffer: ReplayBuffer) -> None:
        # The parts from the view of the expert, so that the code that saves the run's collector also saves this one.
        self._parts = replace(parts, collector=expert.collector, buffer=buffer, collector_role="expert")
        self._buffer, self._restarts = buffer, False
        #: Whether the buffer has the samples of a saved run; one that stopped too early has none.
        self.taken_up = False

    def state_dict(self) -> StateDict:
        """Return the state that the expert needs to resume."""
        ongoing, episodes = ongoing_state(self._parts)
        self._restarts = episodes != "go on"
        workers = {"collector": state_of(self._parts.collector), "buffer": state_of(self._parts.buffer)}
        return {**workers, "ongoing": ongoing}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore a :meth:`state_dict`."""
        for key in ("collector", "buffer"):
            if state_dict[key] is not None:
                getattr(self._parts, key).load_state_dict(state_dict[key])
        load_ongoing(self._parts, state_dict["ongoing"])
        self.taken_up = self._buffer.count() > 0

    def go_on(self) -> None:
        """Start new episodes after a snapshot without the ongoing ones, as a resumed run does."""
        if self._restarts:
            restart_envs(self._parts)


def mark_expert(samples: Samples, is_expert: bool) -> Samples:
    """Add ``is_expert`` to the samples: 0 or 1, for sequences one per step."""
    if isinstance(samples, TransitionBatch):
        return samples.with_columns(is_expert=np.full(np.shape(samples.columns["done"])[:2], int(is_expert)))
    return [{**sample, "is_expert": _like(sample["done"], int(is_expert))} for sample in samples]


def _like(done: Any, value: int) -> np.ndarray | list[Any] | int:
    """Return a constant per step, in the form of ``done``."""
    if isinstance(done, (list, tuple)):
        return [value] * len(done)
    return np.full(np.shape(done)[:1], value) if np.ndim(done) else value


def random_share(share: float) -> Callable[[int], int]:
    """Return a function that draws each sample of a batch from the expert with probability ``share``."""
    return lambda size: int(np.random.binomial(size, share))


def run_with_expert(
    arguments: RunArguments,
    mode: str,
    mix_of: Callable[[EasyDict, EasyDict], Mix],
    model_path_of: Callable[[EasyDict, EasyDict], str | None],
) -> Policy:
    """Run a pipeline with an expert.

    The expert plays in separate envs of the agent's config, and never explores by epsilon. Its compiled config is saved
    as ``expert_config.py`` in the experiment folder.

    Args:
        arguments: Arguments of the pipeline.
        mode: Name of the pipeline for ``ding -m``.
        mix_of: Returns the mixing from the two compiled configs (agent first).
        model_path_of: Returns the expert's checkpoint from the two compiled configs.
    """
    with opened_run(arguments) as run, contextlib.ExitStack() as ends:
        cfg = run.cfg
        expert = compiled_expert(arguments, cfg)
        mix = mix_of(cfg, expert)
        needed = mix.first_count + mix.pass_count > 0
        state = read_state(model_path_of(cfg, expert), "policy.collect.model_path") if needed else {}
        parts = ends.enter_context(run.parts())
        player = saved = None
        if needed:
            made = ends.enter_context(playing_expert(arguments, expert, state))
            buffer = new_buffer(mix.buffer, ends, exp_name=cfg.exp_name, instance_name="expert_buffer")
            player = made, buffer
            saved = parts.saved["expert"] = SavedExpert(parts, made, buffer)
        data = ExpertPath(parts, run.interruptible, player, mix, saved)
        run.train(parts, data, mode, expert_options(cfg))
        return parts.policy


def compiled_expert(arguments: RunArguments, cfg: EasyDict) -> EasyDict:
    """Return the expert's config, with the agent's envs in the expert's env manager.

    Args:
        arguments: Arguments of the pipeline.
        cfg: Compiled config of the agent, which also defines seed and experiment folder.
    """
    main, create = load_input(arguments.expert_cfg, commanded=True)
    main.exp_name = cfg.exp_name
    expert = compile_config(
        main,
        seed=cfg.seed,
        env=env_class(arguments.env_setting),
        auto=True,
        create_cfg=create,
        renew_dir=False,
        save_path="expert_config.py",
        strict=arguments.strict,
    )
    expert.env = EasyDict({**cfg.env, "manager": expert.env.manager})
    if "nstep" in cfg.policy and "nstep" in expert.policy:
        # The agent learns from its samples.
        expert.policy.nstep = cfg.policy.nstep
    return expert


def playing_expert(
    arguments: RunArguments, expert: EasyDict, state: StateDict, collector: str | None = None
) -> AbstractContextManager[Demonstrator]:
    """Create the expert with these weights, in separate envs.

    Args:
        arguments: Arguments of the pipeline.
        expert: Compiled config of the expert.
        state: Weights of the expert.
        collector: See ``demonstrator``.
    """
    env, _ = env_managers(expert, arguments.env_setting, evaluate=False)
    env.seed(SeedTree(expert.seed).env_seeds(env.env_num, "expert"))
    named = {"exp_name": expert.exp_name, "instance_name": "expert_collector"}
    return demonstrator(expert, env, state, arguments.expert_model, collector, **named)


def expert_options(cfg: EasyDict) -> tuple[str, str]:
    """Return the command line options of a run with this expert."""
    return "--expert-config", os.path.join(cfg.exp_name, "expert_config.py")


def replay_buffer_of(cfg: EasyDict, size: int) -> dict[str, Any]:
    """Return the config of the replay buffer with another size."""
    return {**cfg.policy.other.replay_buffer, "replay_buffer_size": size}
