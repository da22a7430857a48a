"""Collectors: middleware that steps environments until there is enough data."""

import math
from typing import Any, ClassVar

from easydict import EasyDict

from ding.data.roles import CollectMode, EnvManager, only_declared
from ding.framework.context import OnlineRLContext
from ding.framework.middleware._roles import for_roles
from ding.framework.middleware._seeding import seed_collector_envs
from ding.framework.middleware.functional.collector import CountedRollout, readable
from ding.framework.middleware.trees import TreeMode, TreePolicy
from ding.framework.task import Role
from ding.policy import get_random_policy
from ding.policy.action_kind import check_collect_mode
from ding.rollout import as_manager


class _Collector:
    """Base class that steps envs with a policy, initially with random actions."""

    #: Env steps of a segment, see :class:`~ding.rollout.Segments`.
    _segment_length: ClassVar[float | None] = None

    def __init__(self, cfg: EasyDict, policy: CollectMode, env: EnvManager, random_collect_size: int = 0) -> None:
        self.cfg = cfg
        self.policy = policy = only_declared(policy)
        self.env = env = as_manager(env)
        self.random_collect_size = random_collect_size
        check_collect_mode(cfg.policy, policy, env)
        seed_collector_envs(env, cfg.seed)
        self._rollout = CountedRollout(policy, env, self._segment_length)
        self._random: CollectMode | None = None

    def _choose(self, is_warm_up: bool) -> None:
        """Select random actions or the policy."""
        if not is_warm_up:
            self._rollout.use(self.policy)
            return
        if self.env.closed:
            self.env.launch()  # the action space is known from here on
        self._random = self._random or get_random_policy(self.cfg, self.policy, self.env)
        self._rollout.use(self._random)


@for_roles(Role.COLLECTOR)
class StepCollector(_Collector):
    """Collects at least ``n_sample * unroll_len`` env steps, in whole vector steps.

    Writes ``ctx.trajectories`` (the transitions, grouped by environment) and ``ctx.trajectory_end_idx`` (the position
    of the last transition of each environment), and adds to ``ctx.env_step`` and ``ctx.env_episode``.

    Args:
        cfg: ``seed`` and ``policy.collect.n_sample``, ``policy.collect.unroll_len``.
        policy: Collect mode of a policy.
        env: Env manager; seeded here, and launched at the first call.
        random_collect_size: Number of initial env steps with random actions.
    """

    def __call__(self, ctx: OnlineRLContext) -> None:
        missing, collect = self.random_collect_size - ctx.env_step, self.cfg.policy.collect
        self._choose(is_warm_up=missing > 0)
        num_steps = missing if missing > 0 else collect.n_sample * collect.get("unroll_len", 1)
        _collect_steps(self._rollout, ctx, num_steps)


def _collect_steps(rollout: CountedRollout, ctx: OnlineRLContext, num_steps: int) -> None:
    enough = ctx.env_step + num_steps
    while ctx.env_step < enough:
        rollout.step(ctx)
    ctx.trajectories, ctx.trajectory_end_idx = rollout.take_transitions()


@for_roles(Role.COLLECTOR)
class EpisodeCollector(_Collector):
    """Collects at least ``n_episode`` whole episodes, in whole vector steps.

    Writes ``ctx.episodes`` (a list of lists of transitions), and adds to ``ctx.env_step`` and ``ctx.env_episode``.
    Unfinished episodes continue at the next call. With an on-policy policy exactly ``n_episode`` episodes are started
    and finished, so all their steps come from the newest policy.

    Args:
        cfg: ``seed``, ``policy.collect.n_episode`` and ``policy.on_policy``.
        policy: Collect mode of a policy.
        env: Env manager; seeded here, and launched at the first call.
        random_collect_size: Number of initial episodes with random actions.
    """

    _segment_length = math.inf

    def __call__(self, ctx: OnlineRLContext) -> None:
        missing = self.random_collect_size - ctx.env_episode
        self._choose(is_warm_up=missing > 0)
        target = missing if missing > 0 else self.cfg.policy.collect.n_episode
        if self.cfg.policy.get("on_policy", False):
            self._rollout.play(ctx, target)
        else:
            enough = ctx.env_episode + target
            while ctx.env_episode < enough:
                self._rollout.step(ctx)
        ctx.episodes = list(map(readable, self._rollout.rollout.take_segments()))


@for_roles(Role.COLLECTOR)
class PPOFStepCollector:
    """:class:`StepCollector` for a policy that is one object for all modes and works on trees, such as ``PPOF``.

    Args:
        seed: Seed of the environments.
        policy: Object with ``collect(obs, **kwargs)``, ``process_transition`` and ``reset``.
        env: Env manager; seeded here, and launched at the first call.
        n_sample: Number of samples of ``unroll_len`` env steps per call.
    """

    def __init__(self, seed: int, policy: TreePolicy, env: EnvManager, n_sample: int, unroll_len: int = 1) -> None:
        self.env = env
        self.num_steps = n_sample * unroll_len
        seed_collector_envs(env, seed)
        mode: Any = TreeMode(policy, "collect")
        self._rollout = CountedRollout(mode, env, None)

    def __call__(self, ctx: OnlineRLContext) -> None:
        _collect_steps(self._rollout, ctx, self.num_steps)
