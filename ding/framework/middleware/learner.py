"""Learners: middleware that trains several times per iteration."""

from collections.abc import Callable, Iterator
from typing import Any

from easydict import EasyDict

from ding.data import Buffer
from ding.data.roles import LearnMode
from ding.framework.context import OnlineRLContext
from ding.framework.middleware._roles import for_roles
from ding.framework.middleware.functional.data_processor import Buffers, offpolicy_data_fetcher
from ding.framework.middleware.functional.enhancer import (
    HindsightModel,
    RewardModel,
    her_data_enhancer,
    reward_estimator,
)
from ding.framework.middleware.functional.trainer import trainer
from ding.framework.task import Role

Step = Callable[[OnlineRLContext], None]
Fetch = Callable[[OnlineRLContext], Iterator[Any] | None]


@for_roles(Role.LEARNER)
class OffPolicyLearner:
    """Samples and trains ``policy.learn.update_per_collect`` times, as long as there is enough data.

    Writes ``ctx.train_output``, a list with the policy's output for each batch. Priorities are written back to the
    buffer before the next batch is sampled.

    Args:
        cfg: See :func:`offpolicy_data_fetcher`; additionally ``policy.learn.update_per_collect``.
        policy: Learn mode of a policy.
        buffer_: Source of the batches; see :func:`offpolicy_data_fetcher`.
        reward_model: Estimates the rewards of each batch.
        log_freq: Interval of log lines in train iterations.
    """

    def __init__(
        self,
        cfg: EasyDict,
        policy: LearnMode,
        buffer_: Buffers,
        reward_model: RewardModel | None = None,
        log_freq: int = 100,
    ) -> None:
        self.cfg = cfg
        self._fetch: Fetch = offpolicy_data_fetcher(cfg, buffer_)
        self._prepare = None if reward_model is None else reward_estimator(cfg, reward_model)
        self._train = trainer(cfg, policy, log_freq)

    def __call__(self, ctx: OnlineRLContext) -> None:
        _train_on(ctx, self.cfg.policy.learn.update_per_collect, self._fetch, self._prepare, self._train)


def _train_on(ctx: OnlineRLContext, num_updates: int, fetch: Fetch, prepare: Step | None, train: Step) -> None:
    """Fetch and train ``num_updates`` times while there is data; a generator resumes after the update of its batch."""
    outputs = []
    for _ in range(num_updates):
        fetching = fetch(ctx)
        if fetching is not None:
            next(fetching, None)
        if ctx.train_data is None:
            break
        if prepare is not None:
            prepare(ctx)
        train(ctx)
        outputs.append(ctx.train_output)
        if fetching is not None:
            next(fetching, None)
    ctx.train_output = outputs


@for_roles(Role.LEARNER)
class HERLearner:
    """:class:`OffPolicyLearner` that trains on transitions with goals relabelled by a reward model.

    Args:
        cfg: See :func:`her_data_enhancer`; additionally ``policy.learn.update_per_collect``.
        policy: Learn mode of a policy.
        buffer_: Buffer of episodes.
        her_reward_model: Relabels an episode.
    """

    def __init__(self, cfg: EasyDict, policy: LearnMode, buffer_: Buffer, her_reward_model: HindsightModel) -> None:
        self.cfg = cfg
        self._fetch: Fetch = her_data_enhancer(cfg, buffer_, her_reward_model)
        self._train = trainer(cfg, policy)

    def __call__(self, ctx: OnlineRLContext) -> None:
        _train_on(ctx, self.cfg.policy.learn.update_per_collect, self._fetch, None, self._train)
