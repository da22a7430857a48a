"""Data changed between collecting and training: rewards, goals, n-step returns, priorities."""

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
    """What estimates rewards."""

    def estimate(self, data: Any) -> Any:
        """Return the data with estimated rewards, or ``None`` where it was changed in place."""


class HindsightModel(RewardModel, Protocol):
    """What relabels goals."""

    episode_size: int | None


@for_roles(Role.LEARNER)
def reward_estimator(cfg: EasyDict, reward_model: RewardModel) -> Callable[[Context], None]:
    """Return a middleware that lets a reward model estimate the rewards of ``ctx.train_data``, if there is any.

    Args:
        cfg: not read.
        reward_model: what it returns becomes the train data; ``None`` for one that works in place.
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
    """Return a middleware that samples episodes and puts transitions with other goals into ``ctx.train_data``.

    HER, Andrychowicz et al. 2017, https://arxiv.org/abs/1707.01495. With too few episodes ``train_data`` is ``None``.

    Args:
        cfg: ``policy.learn.batch_size`` episodes are sampled where the model has no ``episode_size``.
        buffer_: a buffer of episodes.
        her_reward_model: relabels an episode; returns a list of episodes.
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


@for_roles(Role.COLLECTOR)  # a learner gets transitions that have been through it
def nstep_reward_enhancer(cfg: EasyDict) -> Callable[[OnlineRLContext], None]:
    """Return a middleware that makes n-step transitions of ``ctx.trajectories``.

    ``reward`` becomes ``[n]``, the rewards of the following steps of the episode, zero where there are none;
    ``next_obs`` and ``done`` become those of the last of these steps; ``value_gamma`` (``[1]``) is the discount of its
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
    """Return L consecutive transitions as a batch with one segment for each episode, or part of one."""
    batch = as_batch(rows)
    return TransitionBatch(batch.columns, np.diff(np.flatnonzero(segment_end_flags(batch, end_idx)), prepend=-1))


def segment_end_flags(batch: TransitionBatch, end_idx: Sequence[int]) -> np.ndarray:
    """Return bool ``[L]``: after which of L consecutive transitions another episode or environment begins.

    At a time limit ``done`` is False; there the number of the episode shows its end.

    Args:
        batch: with ``done``, and ``env_data_id`` as the collectors write it.
        end_idx: positions of the last transition of each environment; -1 for one without transitions.
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
    """Return a middleware that gives each of ``ctx.trajectories`` a ``priority``.

    Args:
        priority_calculation_fn: L transitions -> L priorities.
    """

    def prioritise(ctx: OnlineRLContext) -> None:
        priorities = priority_calculation_fn(ctx.trajectories)
        if isinstance(ctx.trajectories, TransitionBatch):
            ctx.trajectories = ctx.trajectories.with_columns(priority=np.asarray(priorities, dtype=np.float64))
            return
        for transition, priority in zip(ctx.trajectories, priorities, strict=True):
            transition["priority"] = priority

    return prioritise
