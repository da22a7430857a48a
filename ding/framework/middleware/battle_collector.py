"""Collectors for environments in which several policies play. DI-engine 0.5 has none."""

import math
from collections.abc import Sequence

from easydict import EasyDict

from ding.data.roles import CollectMode, EnvManager
from ding.framework.context import OnlineRLContext
from ding.framework.middleware._roles import for_roles
from ding.framework.middleware._seeding import seed_collector_envs
from ding.framework.middleware.functional.collector import CountedRollout, readable
from ding.framework.task import Role


@for_roles(Role.COLLECTOR)
class BattleStepCollector:
    """Collects at least ``n_sample * unroll_len`` env steps with one policy per player, in whole vector steps.

    Writes, with one entry per player, ``ctx.trajectories`` (its transitions, grouped by environment) and
    ``ctx.trajectory_end_idx`` (the position of each environment's last transition), and adds to ``ctx.env_step`` and
    ``ctx.env_episode``. The entries of a policy with ``collect_data = False`` are empty lists.

    An observation is indexable by player, an action is a list with one array per player, ``timestep.info`` is a list
    with one dict per player, and ``done`` is shared, as in :class:`~ding.worker.BattleSampleSerialCollector`.

    Args:
        cfg: ``seed`` and ``policy.collect.n_sample``, ``policy.collect.unroll_len``.
        policies: Collect mode of each player's policy.
        env: Env manager; seeded here, and launched at the first call.

    Raises:
        ValueError: There are fewer than two policies.
    """

    def __init__(self, cfg: EasyDict, policies: Sequence[CollectMode], env: EnvManager) -> None:
        self.cfg = cfg
        self.env = env
        self._rollout = _battle(cfg, policies, env, None)

    def __call__(self, ctx: OnlineRLContext) -> None:
        collect = self.cfg.policy.collect
        enough = ctx.env_step + collect.n_sample * collect.get("unroll_len", 1)
        while ctx.env_step < enough:
            self._rollout.step(ctx)
        players = [
            ([], []) if segments is None else self._rollout.take_transitions(player)
            for player, segments in enumerate(self._rollout.rollout.segments)
        ]
        ctx.trajectories = [transitions for transitions, _ in players]
        ctx.trajectory_end_idx = [ends for _, ends in players]


@for_roles(Role.COLLECTOR)
class BattleEpisodeCollector:
    """Starts and finishes ``n_episode`` episodes with one policy per player.

    Writes ``ctx.episodes``: for each player a list of episodes, each a list of transitions (an empty list for a policy
    with ``collect_data = False``). Adds to ``ctx.env_step`` and ``ctx.env_episode``.

    Args:
        cfg: ``seed`` and ``policy.collect.n_episode``.
        policies: Collect mode of each player's policy.
        env: Env manager as in :class:`BattleStepCollector`; seeded here, and launched at the first call.

    Raises:
        ValueError: There are fewer than two policies.
    """

    def __init__(self, cfg: EasyDict, policies: Sequence[CollectMode], env: EnvManager) -> None:
        self.cfg = cfg
        self.env = env
        self._rollout = _battle(cfg, policies, env, math.inf)

    def __call__(self, ctx: OnlineRLContext) -> None:
        self._rollout.play(ctx, self.cfg.policy.collect.n_episode)
        rollout = self._rollout.rollout
        ctx.episodes = [
            [] if segments is None else [readable(episode) for episode in rollout.take_segments(player)]
            for player, segments in enumerate(rollout.segments)
        ]


def _battle(cfg: EasyDict, policies: Sequence[CollectMode], env: EnvManager, length: float | None) -> CountedRollout:
    if len(policies) < 2:
        raise ValueError(f"policies: {len(policies)}, but a battle needs one per player, at least two")
    seed_collector_envs(env, cfg.seed)
    return CountedRollout(policies, env, length)
