"""Modification of collected data before training: rewards, goals, n-step returns, priorities."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from easydict import EasyDict

from ding.data import Buffer, TransitionBatch
from ding.data.buffer.errors import NotEnoughDataError
from ding.data.transition_batch import joined_samples
from ding.framework.context import Context, OnlineRLContext
from ding.framework.middleware._roles import for_roles
from ding.framework.middleware.trees import as_batch
from ding.framework.task import Role
from ding.rl_utils import get_nstep_return_data
from ding.utils import one_time_warning


class RewardModel(Protocol):
    """Model that estimates rewards."""

    def estimate(self, data: Any) -> Any:
        """Return the data with estimated rewards, or ``None`` if it was modified in place."""


class HindsightModel(RewardModel, Protocol):
    """Model that relabels goals."""

    episode_size: int | None


@for_roles(Role.LEARNER)
def reward_estimator(cfg: EasyDict, reward_model: RewardModel) -> Callable[[Context], None]:
    """Return a middleware in which a reward model estimates the rewards of ``ctx.train_data``, if any.

    Args:
        cfg: Ignored.
        reward_model: Its return value becomes the train data; ``None`` if it works in place.
    """

    def estimate(ctx: Any) -> None:
        if ctx.train_data is None:
            return
        estimated = reward_model.estimate(ctx.train_data)
        if estimated is not None:
            ctx.train_data = estimated

    return estimate


@for_roles(Role.LEARNER)
def her_data_enhancer(
    cfg: EasyDict, buffer_: Buffer, her_reward_model: HindsightModel
) -> Callable[[OnlineRLContext], None]:
    """Return a middleware that samples episodes and writes transitions with relabelled goals to ``ctx.train_data``.

    HER, Andrychowicz et al. 2017, https://arxiv.org/abs/1707.01495. ``train_data`` is ``None`` if there are too few
    episodes.

    Args:
        cfg: ``policy.learn.batch_size``, the number of sampled episodes if the model has no ``episode_size``.
        buffer_: Buffer of episodes.
        her_reward_model: Relabels an episode; returns a list of episodes.
    """
    size = her_reward_model.episode_size or cfg.policy.learn.batch_size

    def relabel(ctx: OnlineRLContext) -> None:
        try:
            episodes = [record.data for record in buffer_.sample(size)]
        except NotEnoughDataError:
            one_time_warning(f"her_data_enhancer waits until there are {size} episodes")
            ctx.train_data = None
            return
        ctx.train_data = joined_samples([made for episode in episodes for made in her_reward_model.estimate(episode)])

    return relabel


@for_roles(Role.COLLECTOR)  # a learner receives transitions that are already n-step
def nstep_reward_enhancer(cfg: EasyDict) -> Callable[[OnlineRLContext], None]:
    """Return a middleware that converts ``ctx.trajectories`` to n-step transitions.

    ``reward`` becomes ``[n]``, the rewards of the next n steps of the episode, padded with zeros; ``next_obs`` and
    ``done`` become those of the last of these steps; ``value_gamma`` (``[1]``) is the discount of the bootstrapped
    value.

    Args:
        cfg: ``policy.nstep`` (n) and ``policy.discount_factor``, or ``policy.learn.discount_factor`` without it.
    """
    nstep = cfg.policy.nstep
    gamma = cfg.policy.discount_factor if "discount_factor" in cfg.policy else cfg.policy.learn.discount_factor

    def enhance(ctx: OnlineRLContext) -> None:
        if ctx.trajectories:
            segments = split_into_segments(ctx.trajectories, ctx.trajectory_end_idx)
            ctx.trajectories = get_nstep_return_data(segments, nstep, gamma=gamma)

    return enhance


def split_into_segments(rows: Sequence[Any], end_idx: Sequence[int]) -> TransitionBatch:
    """Return L consecutive transitions as a batch with one segment per (partial) episode."""
    batch = as_batch(rows)
    return TransitionBatch(batch.columns, np.diff(np.flatnonzero(segment_end_flags(batch, end_idx)), prepend=-1))


def segment_end_flags(batch: TransitionBatch, end_idx: Sequence[int]) -> np.ndarray:
    """Return bool ``[L]``: whether another episode or environment starts after each of L consecutive transitions.

    At a time limit ``done`` is False; the episode number then marks the end.

    Args:
        batch: Batch with ``done``, and ``env_data_id`` as written by the collectors.
        end_idx: Positions of the last transition of each environment; -1 for an environment without transitions.
    """
    ends = np.asarray(batch.columns["done"]).reshape(-1).astype(bool)  # a copy
    if "env_data_id" in batch.columns:
        numbers = np.asarray(batch.columns["env_data_id"]).reshape(-1)
        ends[:-1] |= numbers[1:] != numbers[:-1]
    ends[[position for position in end_idx if position >= 0]] = True
    ends[-1] = True
    return ends


@for_roles(Role.COLLECTOR)
def priority_calculator(
    priority_calculation_fn: Callable[[Sequence[Any]], Sequence[float]],
) -> Callable[[OnlineRLContext], None]:
    """Return a middleware that adds a ``priority`` to each transition of ``ctx.trajectories``.

    Args:
        priority_calculation_fn: Maps L transitions to L priorities.
    """

    def prioritise(ctx: OnlineRLContext) -> None:
        priorities = priority_calculation_fn(ctx.trajectories)
        if isinstance(ctx.trajectories, TransitionBatch):
            ctx.trajectories = ctx.trajectories.with_columns(priority=np.asarray(priorities, dtype=np.float64))
            return
        for transition, priority in zip(ctx.trajectories, priorities, strict=True):
            transition["priority"] = priority

    return prioritise
