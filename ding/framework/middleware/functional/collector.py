"""Env steps: inference and transitions, with counters in the context."""

import logging
import time
from collections.abc import Callable, Sequence

import numpy as np

from ding.data import EnvBatch, Row, TransitionBatch, is_batched
from ding.data.roles import ByEnv, CollectMode, EnvManager, Samples, Transition, only_declared
from ding.framework.context import OnlineRLContext
from ding.framework.middleware._seeding import seed_collector_envs
from ding.framework.middleware.trees import as_tree
from ding.framework.task import current_task
from ding.rollout import (
    EpisodeRecord,
    Game,
    Rollout,
    Segments,
    Sent,
    VectorStepper,
    as_manager,
    as_network_input,
    as_policies,
    records,
    v1_interface,
)
from ding.torch_utils import to_ndarray, to_tensor

logger = logging.getLogger(__name__)

Collect = Callable[[OnlineRLContext], None]
Transform = Callable[[ByEnv], ByEnv]


class TransitionList:
    """Transitions grouped by environment.

    Args:
        env_num: Number of environments; their ids are ``0 .. env_num - 1``.
    """

    def __init__(self, env_num: int) -> None:
        self.env_num = env_num
        self.clear()

    def append(self, env_id: int, transition: Transition) -> None:
        """Append a transition of an environment; its ``done`` is read."""
        self._transitions[env_id].append(transition)
        if transition["done"]:
            self._ends[env_id].append(len(self._transitions[env_id]))

    def to_trajectories(self) -> tuple[list[Transition], list[int]]:
        """Return all transitions, grouped by environment, and the position of the last one of each environment.

        An environment without transitions has the position of the environment before it, the first one ``-1``.
        """
        flat = [transition for of_env in self._transitions for transition in of_env]
        return flat, (np.cumsum([len(of_env) for of_env in self._transitions]) - 1).tolist()

    def to_episodes(self) -> list[list[Transition]]:
        """Return the finished episodes, grouped by environment."""
        return [
            of_env[start:end]
            for of_env, ends in zip(self._transitions, self._ends)
            for start, end in zip([0, *ends], ends)
        ]

    def clear(self) -> None:
        """Remove all transitions."""
        self._transitions: list[list[Transition]] = [[] for _ in range(self.env_num)]
        self._ends: list[list[int]] = [[] for _ in range(self.env_num)]


class CountedRollout:
    """Rollout that counts its steps and episodes in the context.

    Each transition gets ``collect_train_iter``, the train iteration of its step, and ``env_data_id``, the number of its
    episode, both int64 ``[1]``. Once per ``print_freq`` train iterations a summary of the finished episodes is logged.

    Args:
        policy: Collect mode of a policy, or one per player; unless all work on columns, all get tensors. The steps of a
            policy with ``collect_data = False`` are not recorded.
        env: Env manager; launched at the first step.
        length: Length of the segments, see :class:`~ding.rollout.Segments`.
        print_freq: Train iterations between two summaries.
    """

    def __init__(
        self,
        policy: CollectMode | Sequence[CollectMode],
        env: EnvManager,
        length: float | None,
        print_freq: int = 100,
    ) -> None:
        self.env = v1_interface(env)
        self._length = length
        self._print_freq = print_freq
        self._last_print_iter = 0
        self._episodes = EpisodeRecord(env.env_num)
        self._seen_steps = self._seen_episodes = 0
        # Episode numbers are unique across the processes of a run.
        self._first_ids = np.arange(env.env_num).reshape(-1, 1) + ((current_task().router.node_id or 0) << 32)
        self._extra = {"collect_train_iter": np.zeros_like(self._first_ids), "env_data_id": self._first_ids}
        self.rollout = self._rollout_of(as_policies(policy))

    def _rollout_of(self, policies: Sequence[CollectMode]) -> Rollout:
        return Rollout(
            self.env,
            policies,
            [Segments(self.env.env_num, policy, self._length) if records(policy) else None for policy in policies],
            self._episodes,
            Game(len(policies)) if len(policies) > 1 else None,
            None if all(is_batched(policy.forward) for policy in policies) else _policy_input(*policies),
            log=logger.info,
        )

    def use(self, policy: CollectMode) -> None:
        """Switch to another policy."""
        if policy is not self.rollout.stepper.policies[0]:
            previous, self.rollout = self.rollout, self._rollout_of([policy])
            self.rollout.take_over(previous)

    def take_transitions(self, player: int = 0) -> tuple[Samples, list[int]]:
        """Remove and return a player's transitions, grouped by environment, with the position of each last one."""
        segments = self.rollout.segments[player]
        assert segments is not None
        transitions, counts, _ = segments.take_all()
        return readable(transitions), (np.cumsum(counts) - 1).tolist()

    def step(self, ctx: OnlineRLContext) -> None:
        """Make one vector step."""
        if self.env.closed:
            self.env.launch()
        num_players = len(self.rollout.segments)
        self.rollout.step([ctx.collect_kwargs] * num_players, [self.extra(ctx)] * num_players)
        self.count(ctx)

    def play(self, ctx: OnlineRLContext, n_episode: int) -> None:
        """Start and finish ``n_episode`` episodes."""
        if self.env.closed:
            self.env.launch()
        num_players = len(self.rollout.segments)
        for _ in self.rollout.play(n_episode, [ctx.collect_kwargs] * num_players, [self.extra(ctx)] * num_players):
            self.count(ctx)
            self.extra(ctx)

    def extra(self, ctx: OnlineRLContext) -> dict[str, np.ndarray]:
        """Return the additional fields of the next step's transitions, by env id; always the same dict."""
        # Rows share memory with these arrays, so replace the arrays instead of modifying them.
        if self._extra["collect_train_iter"][0, 0] != ctx.train_iter:
            self._extra["collect_train_iter"] = np.full_like(self._first_ids, ctx.train_iter)
        self._extra["env_data_id"] = self._first_ids + len(self._first_ids) * self._episodes.numbers[:, None]
        return self._extra

    def count(self, ctx: OnlineRLContext) -> None:
        """Add the counts since the last call to ``ctx.env_step`` and ``ctx.env_episode``."""
        episodes = self._episodes
        ctx.env_step += episodes.envstep - self._seen_steps
        self._seen_steps = episodes.envstep
        if episodes.episode_count != self._seen_episodes:
            ctx.env_episode += episodes.episode_count - self._seen_episodes
            self._seen_episodes = episodes.episode_count
        if ctx.train_iter - self._last_print_iter >= self._print_freq and episodes.finished:
            self._last_print_iter = ctx.train_iter
            output_log(episodes)


def output_log(episodes: EpisodeRecord) -> None:
    """Log a summary of the finished episodes, and clear them. Each of their steps is a train sample."""
    for episode in episodes.finished:
        episode["train_sample"] = episode["step"]
    episodes.train_sample_count = episodes.envstep
    summary = episodes.summary(with_samples=True)
    logger.info("collect end:\n%s", "\n".join(f"{key}: {value}" for key, value in summary.items()))
    episodes.finished.clear()


def inferencer(seed: int, policy: CollectMode, env: EnvManager) -> Collect:
    """Return a middleware that computes the policy's actions for the environments that wait for one.

    Reads ``ctx.collect_kwargs``, the keyword arguments of the forward. Writes ``ctx.obs`` (tensor ``[N, ...]``, or a
    tree of tensors), ``ctx.inference_output`` (env id -> output) and ``ctx.action`` (a list of N arrays).

    Args:
        seed: Seed of the environments, which are launched at the first call.
        policy: Collect mode of a policy; it gets tensors.
        env: Env manager.
    """
    env = as_manager(env)
    seed_collector_envs(env, seed)
    stepper = VectorStepper(v1_interface(env), [only_declared(policy)], transform=_policy_input(policy))

    def infer(ctx: OnlineRLContext) -> None:
        if env.closed:
            env.launch()
        obs = EnvBatch.from_dict(stepper.env.ready_obs)
        actions = stepper.act(obs, [ctx.collect_kwargs])
        ctx.obs = as_tree(to_tensor(obs.columns))
        ctx.inference_output = {env_id: as_tree(output) for env_id, output in stepper.sent.outputs[0].items()}
        ctx.action = [to_ndarray(action) for action in actions.values()]

    return infer


def rolloutor(
    policy: CollectMode, env: EnvManager, transitions: TransitionList, collect_print_freq: int = 100
) -> Collect:
    """Return a middleware that makes a vector step with ``ctx.action``, and adds its transitions to ``transitions``.

    Reads the output of :func:`inferencer` and ``ctx.train_iter``; adds to ``ctx.env_step`` and ``ctx.env_episode``.

    Args:
        policy: Collect mode of a policy, which creates the transitions.
        env: Env manager.
        transitions: Destination of the transitions.
        collect_print_freq: Train iterations between two logged summaries.
    """
    counted = CountedRollout(only_declared(policy), as_manager(env), length=1, print_freq=collect_print_freq)
    rollout = counted.rollout

    def roll(ctx: OnlineRLContext) -> None:
        start_s = time.perf_counter()
        output, stepper = ctx.inference_output, rollout.stepper
        stepper.sent = Sent([EnvBatch(list(output), ctx.obs)], [output])
        timesteps = stepper.env.step(dict(zip(output, ctx.action)))
        steps = rollout.record(stepper.join(timesteps), [counted.extra(ctx)], start_s)
        if steps:
            for env_id, (transition,) in zip(rollout.finished[0].tolist(), rollout.take_segments()):
                transitions.append(env_id, as_tree(transition))
            rollout.end_episodes(steps)
        counted.count(ctx)

    return roll


def _policy_input(*policies: CollectMode) -> Transform:
    """Return the input transform of policies: observations in network format, with attribute access for policies that
    receive them one by one.
    """
    if all(is_batched(policy.forward) for policy in policies):
        return as_network_input

    def rows(obs: ByEnv) -> ByEnv:
        given = as_network_input(obs)
        return {env_id: as_tree(row) for env_id, row in given.items()}

    return rows


def readable(transitions: Samples) -> Samples:
    """Return the transitions with attribute access."""
    return transitions if isinstance(transitions, TransitionBatch) else list(map(Row, transitions))
