"""A rollout: the vector stepper, the segments of the players and the episode record, moved together."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ding.data.roles import CollectMode, EnvManager, EvalMode, Samples
from ding.rollout.episodes import EpisodeRecord, Return, episode_return, scalar
from ding.rollout.players import Game
from ding.rollout.segments import Segments, Taken
from ding.rollout.stepper import VectorStep, VectorStepper, drop_abnormal, select

Infos = list[dict[str, Any]]

_NO_IDS = np.zeros(0, dtype=np.int64)


class Rollout:
    """Steps environments with one policy, or with one per player, and keeps what comes of it.

    An environment that reports ``info['abnormal']`` is restarted, and what had begun in it is dropped.

    Args:
        env: env manager (v1 interface), launched before the first step.
        policies: one collect or eval mode per player.
        lengths: per player the length of its segments; ``None``: its steps are not recorded.
        episodes: where episodes are counted.
        game: how the environments are split among several players; ``None``: there is one.
        transform_obs: hand float32 tensors to the policies.
        copy_obs: keep copies of the observations.
        log: called with a line about each restart.

    Attributes:
        stepper: the vector stepper.
        segments: per player its segments, or ``None``.
        episodes: as given.
        finished: per player the ids of the environments whose segments finished with the last step (int64 ``[S]``).
    """

    def __init__(
        self,
        env: EnvManager,
        policies: "Sequence[CollectMode | EvalMode]",
        lengths: Sequence[float | None],
        episodes: EpisodeRecord,
        game: Game | None = None,
        transform_obs: bool = False,
        copy_obs: bool = False,
        log: Callable[[str], object] = lambda line: None,
    ) -> None:
        self.stepper = VectorStepper(env, policies, game, transform_obs, copy_obs)
        self.episodes = episodes
        self.segments = [
            None if length is None else Segments(env.env_num, policy, length, copy_obs)  # type: ignore[arg-type]
            for policy, length in zip(policies, lengths)
        ]
        self.finished: list[np.ndarray] = [_NO_IDS for _ in policies]
        self._game = game
        self._log = log
        # Per player, of each segment that waits, the episode to which its samples belong.
        self._episodes_of: list[list[dict[str, Any]]] = [[] for _ in policies]

    def take_over(self, previous: "Rollout") -> None:
        """Go on with the segments that other policies began in the same environments, player by player."""
        if len(previous.segments) != len(self.segments):
            return
        self.stepper.take_over(previous.stepper)
        for player, (old, new) in enumerate(zip(previous.segments, self.segments)):
            if old is not None and new is not None and new.take_over(old):
                self._episodes_of[player] = previous._episodes_of[player]

    def step(
        self,
        policy_kwargs: Sequence[dict[str, Any]],
        extras: Sequence[dict[str, Any]],
        allowed: "set[int] | None" = None,
    ) -> list[tuple[int, Infos]]:
        """Make one vector step and record it.

        Args:
            policy_kwargs: per player the keyword arguments of the forward.
            extras: per player the fields that every transition gets, see :meth:`Segments.record`.
            allowed: ids of the environments to step (``None``: all that are ready).

        Returns:
            For each episode that ended its env id and, per player, its last info.
        """
        start_s = time.perf_counter()
        stepper, env = self.stepper, self.stepper.env
        obs = env.ready_obs if allowed is None else select(env.ready_obs, allowed)
        steps = self.record(stepper.join(env.step(stepper.act(obs, policy_kwargs))), extras, start_s)
        if steps and np.count_nonzero(steps[0].timesteps.done):
            return self.end_episodes(steps)
        return []

    def play(
        self, n_episode: int, policy_kwargs: Sequence[dict[str, Any]], extras: Sequence[dict[str, Any]]
    ) -> Iterator[list[tuple[int, Infos]]]:
        """Begin and finish exactly ``n_episode`` episodes: environments that have no part in them are not stepped.

        Yields:
            What each :meth:`step` returns.
        """
        admitted: set[int] = set()
        while n_episode or admitted:
            for env_id in self.stepper.env.ready_obs:
                if n_episode and env_id not in admitted:
                    admitted.add(env_id)
                    n_episode -= 1
            ended = self.step(policy_kwargs, extras, admitted)
            admitted.difference_update(env_id for env_id, _ in ended)
            yield ended

    def record(self, steps: list[VectorStep], extras: Sequence[dict[str, Any]], start_s: float) -> list[VectorStep]:
        """Record the vector step of each player, which began at ``start_s``; returns it without abnormal timesteps.

        Nothing is left of a step that is all abnormal, or of an asynchronous manager that did not answer yet.
        """
        steps, abnormal = drop_abnormal(steps)
        if len(abnormal):
            self.restart(abnormal)
        if not steps or not len(steps[0].timesteps):
            return []
        running = self.episodes.running
        for player, segments in enumerate(self.segments):
            if segments is not None:
                ended = self.finished[player] = segments.record(steps[player], extras[player])
                self._episodes_of[player] += [running[env_id] for env_id in ended.tolist()]
        self.episodes.step(steps[0].timesteps.env_ids, time.perf_counter() - start_s)
        return steps

    def end_episodes(self, steps: list[VectorStep]) -> list[tuple[int, Infos]]:
        """Count the episodes that ended with a recorded step, and reset what the policies remember of them."""
        timesteps = steps[0].timesteps
        positions = np.flatnonzero(timesteps.done)
        ended = []
        for position, env_id in zip(positions.tolist(), timesteps.env_ids[positions].tolist()):
            infos = [step.timesteps.info_at(position) for step in steps]
            returns = [episode_return(info, env_id) for info in infos]
            if self._game is None:
                self.episodes.end(env_id, {"reward": scalar(returns[0])})
            else:
                own = {f"reward{player}": scalar(_own(value, player)) for player, value in enumerate(returns)}
                self.episodes.end(env_id, own)
            for policy in self.stepper.policies:
                policy.reset([env_id])
            ended.append((env_id, infos))
        return ended

    def take_samples(self, player: int = 0) -> Taken:
        """Take out the training samples of a player's finished segments, and count them."""
        segments = self.segments[player]
        assert segments is not None
        taken = segments.take_samples()
        episodes, self._episodes_of[player] = self._episodes_of[player], []
        self.episodes.count_samples(episodes, taken.num_samples)
        return taken

    def take_segments(self, player: int = 0) -> list[Samples]:
        """Take out a player's finished segments as lists of transitions."""
        segments = self.segments[player]
        assert segments is not None
        self._episodes_of[player] = []
        return segments.take_segments()

    def restart(self, env_ids: np.ndarray) -> None:
        """Reset these environments, whose episodes broke; what had begun in them is dropped."""
        self.stepper.restart(env_ids.tolist())
        self.episodes.drop(env_ids.tolist())
        for segments in self.segments:
            if segments is not None:
                segments.clear(env_ids)
        self._log(f"envs {env_ids.tolist()} returned an abnormal step and were reset; what had begun is dropped")

    def forget(self) -> None:
        """Forget everything that has begun: segments, running episodes, and what environments were sent."""
        self.stepper.forget()
        self.forget_segments()

    def forget_segments(self) -> None:
        """Forget all segments and running episodes; the environments go on."""
        self.episodes.begin(len(self.episodes.steps))
        self._episodes_of = [[] for _ in self._episodes_of]
        for segments in self.segments:
            if segments is not None:
                segments.clear()


def _own(value: Return, player: int) -> Return:
    """A player's part of a return that may be one for all players."""
    if isinstance(value, (int, float)) or getattr(value, "ndim", 1) == 0:
        return value
    return value[player if len(value) > 1 else 0]
