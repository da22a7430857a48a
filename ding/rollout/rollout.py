"""Rollouts: environments stepped with policies, each timestep joined to the observation and output that caused it."""

import copy
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ding.data import BaseEnvTimestep, EnvBatch, SchemaError, TimestepBatch, is_batched
from ding.data.columns import Columns, concat
from ding.data.roles import ByEnv, CollectMode, EnvManager, EvalMode, LearnMode, Samples, attribute_of
from ding.envs.env_manager._normalized import NormalizedEnvManager
from ding.rl_utils.normalization import Normalization
from ding.rollout.players import Game, VectorStep, episode_return, own_return, scalar, select
from ding.rollout.record import EpisodeRecord, Segments, Taken
from ding.torch_utils import network_input, to_ndarray, to_tensor
from ding.utils.nested import map_leaves
from ding.utils.rows import take

logger = logging.getLogger(__name__)

Infos = list[dict[str, Any]]
Transform = Callable[[ByEnv], ByEnv]

_NO_IDS = np.zeros(0, dtype=np.int64)


class Rollout:
    """Step environments with one policy, or with one per player, and record the results.

    An environment that reports ``info['abnormal']`` is restarted, and its unfinished episode is dropped.

    Args:
        env: env manager (v1 interface), launched before the first step.
        policies: one collect or eval mode per player.
        lengths: per player the length of its segments, or its segments; ``None``: its steps are not recorded.
        episodes: Record that counts the episodes.
        game: Splits the environments among several players; ``None`` for one player.
        transform: Conversion of observations for the policies, such as :func:`as_network_input`.
        copy_obs: keep copies of the observations.
        log: called with a line about each restart.
        evaluates: Whether to leave the statistics of observations unchanged.

    Attributes:
        stepper: the vector stepper.
        segments: per player its segments, or ``None``.
        episodes: as given.
        finished: per player the ids of the environments whose segments the last step or cut finished (int64 ``[S]``).
    """

    def __init__(
        self,
        env: EnvManager,
        policies: "Sequence[CollectMode | EvalMode]",
        lengths: Sequence[float | Segments | None],
        episodes: EpisodeRecord,
        game: Game | None = None,
        transform: Transform | None = None,
        copy_obs: bool = False,
        log: Callable[[str], object] = lambda line: None,
        evaluates: bool = False,
    ) -> None:
        self.stepper = VectorStepper(env, policies, game, transform, copy_obs, evaluates)
        self.episodes = episodes
        self.segments = [
            length
            if length is None or isinstance(length, Segments)
            else Segments(env.env_num, policy, length, copy_obs)  # type: ignore[arg-type]
            for policy, length in zip(policies, lengths)
        ]
        self.finished: list[np.ndarray] = [_NO_IDS for _ in policies]
        self._game = game
        self._log = log
        # For each waiting segment of each player, the episode that its samples belong to.
        self._episodes_of: list[list[dict[str, Any]]] = [[] for _ in policies]

    def take_over(self, previous: "Rollout") -> None:
        """Continue the segments of other policies in the same environments, player by player."""
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
        """Perform one vector step and record it.

        Args:
            policy_kwargs: per player the keyword arguments of the forward.
            extras: Per player the fields added to every transition, see :meth:`Segments.record`.
            allowed: Ids of the environments to step (``None``: all ready ones).

        Returns:
            For each episode that ended, its env id and its last info per player.
        """
        start_s = time.perf_counter()
        stepper, env = self.stepper, self.stepper.env
        obs = env.ready_obs if allowed is None else select(env.ready_obs, allowed)
        if not len(obs) and not stepper.is_waiting:
            # All envs have reached the manager's `episode_num`, or are not reset by it.
            env.reset(dict.fromkeys(range(env.env_num)))
            return []
        steps = self.record(stepper.join(env.step(stepper.act(obs, policy_kwargs))), extras, start_s)
        if steps and np.count_nonzero(steps[0].timesteps.done):
            return self.end_episodes(steps)
        return []

    def play(
        self, n_episode: int, policy_kwargs: Sequence[dict[str, Any]], extras: Sequence[dict[str, Any]]
    ) -> Iterator[list[tuple[int, Infos]]]:
        """Play exactly ``n_episode`` episodes from begin to end; environments without a share are not stepped.

        Yields:
            The result of each :meth:`step`.
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
        """Record the vector step of each player, started at ``start_s``; return it without abnormal timesteps.

        The result is empty if all timesteps are abnormal, or if an asynchronous manager has not answered yet.
        """
        if any(step.timesteps.infos for step in steps):
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
        """Count the episodes that ended with a recorded step, and reset the policies' memory of them."""
        timesteps = steps[0].timesteps
        positions = np.flatnonzero(timesteps.done)
        ended = []
        for position, env_id in zip(positions.tolist(), timesteps.env_ids[positions].tolist()):
            infos = [step.timesteps.info_at(position) for step in steps]
            returns = [episode_return(info, env_id) for info in infos]
            if self._game is None:
                self.episodes.end(env_id, {"reward": scalar(returns[0])})
            else:
                own = {f"reward{player}": scalar(own_return(value, player)) for player, value in enumerate(returns)}
                self.episodes.end(env_id, own)
            for policy in self.stepper.policies:
                policy.reset([env_id])
            ended.append((env_id, infos))
        return ended

    def cut_segments(self, num_steps: float, player: int = 0) -> None:
        """Finish a player's growing segments once they have ``num_steps`` steps; episodes continue in new ones."""
        segments = self.segments[player]
        assert segments is not None
        ended = self.finished[player] = segments.cut(num_steps)
        self._episodes_of[player] += [self.episodes.running[env_id] for env_id in ended.tolist()]

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
        """Reset these environments, whose episodes broke; their segments and running episodes are dropped."""
        self.stepper.restart(env_ids.tolist())
        self.episodes.drop(env_ids.tolist())
        self.episodes.dropped_count += len(env_ids)
        for segments in self.segments:
            if segments is not None:
                segments.clear(env_ids)
        self._log(f"envs {env_ids.tolist()} returned an abnormal step and were reset; what had begun is dropped")

    def forget(self) -> None:
        """Drop everything in progress: segments, running episodes, and sent actions."""
        self.stepper.forget()
        self.forget_segments()

    def forget_segments(self) -> None:
        """Drop all segments and running episodes; the environments continue."""
        self.episodes.begin(len(self.episodes.steps))
        self._episodes_of = [[] for _ in self._episodes_of]
        for segments in self.segments:
            if segments is not None:
                segments.clear()


class Sent(NamedTuple):
    """Observations and outputs of the players in one call of :meth:`VectorStepper.act`."""

    obs: list[ByEnv]
    outputs: list[ByEnv]


_NOTHING = Sent([], [])


class VectorStepper:
    """Step an env manager with one policy, or with one per player of a game::

        steps = stepper.join(env.step(stepper.act(env.ready_obs, [{}])))

    Environments of an asynchronous manager answer when they are ready, so that a timestep may belong to the observation
    of an earlier call; sent actions are kept until their timesteps arrive.

    Args:
        env: env manager.
        policies: collect or eval modes, one per player.
        game: Splits the environments among several players; ``None`` for one player.
        transform: Conversion of observations for the policies, such as :func:`as_network_input`; timesteps are joined
            to the unconverted observations.
        copy_obs: Whether to copy observations (for managers that reuse their arrays).
        evaluates: Whether to leave the statistics of observations unchanged.

    Attributes:
        sent: Observations and outputs of the last call of :meth:`act`, kept for :meth:`join`.
    """

    def __init__(
        self,
        env: EnvManager,
        policies: "Sequence[CollectMode | EvalMode]",
        game: Game | None = None,
        transform: Transform | None = None,
        copy_obs: bool = False,
        evaluates: bool = False,
    ) -> None:
        self.env = env
        self.policies = list(policies)
        if isinstance(env, NormalizedEnvManager):
            _use_statistics(env, self.policies, evaluates)
        self._game = game
        self._transform = transform
        self._copy_obs = copy_obs
        self._batched = [is_batched(policy.forward) for policy in self.policies]
        self.sent = _NOTHING
        self._pending: dict[int, Sent] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether an environment has not answered an action yet."""
        return bool(self._pending)

    def act(self, obs: ByEnv, policy_kwargs: Sequence[dict[str, Any]]) -> ByEnv:
        """Return actions by env id for the observations ``obs``; both are kept for :meth:`join`.

        Args:
            obs: observations of N environments by env id.
            policy_kwargs: per player the keyword arguments of the forward.

        Raises:
            ValueError: a policy returns no output for an environment of ``obs``, or outputs without ``action``.
        """
        if self._copy_obs:
            obs = copy.deepcopy(obs)
        seen = [obs] if self._game is None else self._game.observations(obs)
        outputs = []
        for policy, batched, view, kwargs in zip(self.policies, self._batched, seen, policy_kwargs):
            given = view if self._transform is None else self._transform(view)
            if batched:
                given = given if type(given) is EnvBatch else EnvBatch.from_dict(given)
            elif isinstance(given, EnvBatch):
                given = given.to_dict()
            output = policy.forward(given, **kwargs)
            if len(output) < len(view):
                missing = sorted(set(view) - set(output))
                raise ValueError(f"policy.forward gave no output for the envs {missing}; it must answer for each")
            outputs.append(output)
        # Transitions hold the observation returned by the environment, so that obs and next_obs have the same dtype.
        self.sent = Sent(seen, outputs)
        if self._game is not None:
            return self._game.actions(outputs)
        output = outputs[0]
        if not isinstance(output, EnvBatch):
            return {env_id: to_ndarray(row["action"]) for env_id, row in output.items()}
        columns = output.columns
        if not isinstance(columns, dict) or "action" not in columns:
            raise SchemaError("policy.forward gave outputs without the field 'action'")
        action = columns["action"]
        arrays = action.numpy(force=True) if isinstance(action, torch.Tensor) else map_leaves(to_ndarray, action)
        batch = EnvBatch.unchecked(output.env_ids, arrays)
        return batch if isinstance(obs, EnvBatch) else batch.to_dict()

    def join(self, timesteps: Mapping[int, BaseEnvTimestep]) -> list[VectorStep]:
        """Return per player the timesteps of ``env.step``, joined to the observations and actions that caused them.

        The list is empty if there are no timesteps.
        """
        if not len(timesteps):
            self._wait_for(self.sent)
            return []
        if self._copy_obs:
            timesteps = copy.deepcopy(timesteps)
        if self._game is not None:
            per_player = self._game.timesteps(timesteps)
        else:
            per_player = [timesteps if isinstance(timesteps, TimestepBatch) else TimestepBatch.from_dict(timesteps)]
        sent, self.sent = self.sent, _NOTHING
        env_ids = per_player[0].env_ids
        sent_ids = [part.env_ids if isinstance(part, EnvBatch) else list(part) for part in sent.obs + sent.outputs]
        if not self._pending and all(ids is env_ids or np.array_equal(ids, env_ids) for ids in sent_ids):
            return [VectorStep(*parts) for parts in zip(sent.obs, sent.outputs, per_player)]
        self._wait_for(sent)
        senders = [self._pending.pop(env_id) for env_id in env_ids.tolist()]
        return [
            VectorStep(
                _gather(env_ids, [sender.obs[player] for sender in senders]),
                _gather(env_ids, [sender.outputs[player] for sender in senders]),
                player_timesteps,
            )
            for player, player_timesteps in enumerate(per_player)
        ]

    def _wait_for(self, sent: Sent) -> None:
        self._pending.update(dict.fromkeys(sent.obs[0] if sent.obs else (), sent))
        self.sent = _NOTHING

    def restart(self, env_ids: Sequence[int]) -> None:
        """Reset these environments, whose episodes broke, and the policies' memory of them."""
        for env_id in env_ids:
            self.env.reset({env_id: None})
            self._pending.pop(env_id, None)
        for policy in self.policies:
            policy.reset(list(env_ids))

    def take_over(self, previous: "VectorStepper") -> None:
        """Wait for the answers to actions that another stepper sent to the same environments."""
        self._pending = previous._pending

    def forget(self) -> None:
        """Drop the sent actions."""
        self._pending = {}


def drop_abnormal(steps: list[VectorStep]) -> tuple[list[VectorStep], np.ndarray]:
    """Drop the environments whose info reports ``abnormal`` to any player.

    Returns:
        The remaining timesteps, and the ids of the dropped environments (int64 ``[M]``).
    """
    abnormal = {
        position for step in steps for position, info in step.timesteps.infos.items() if info.get("abnormal", False)
    }
    if not abnormal:
        return steps, _NO_IDS
    env_ids = steps[0].timesteps.env_ids
    kept = np.setdiff1d(np.arange(len(env_ids)), list(abnormal))
    return [step.take(kept) for step in steps], env_ids[sorted(abnormal)]


def statistics_of(policy: "LearnMode | CollectMode | EvalMode") -> Normalization | None:
    """Return the statistics of observations and rewards that a policy keeps, or ``None``."""
    found = attribute_of(policy, "normalization", getattr(policy, "normalization", None))
    return found if isinstance(found, Normalization) else None


def _use_statistics(env: NormalizedEnvManager, policies: "Sequence[CollectMode | EvalMode]", evaluates: bool) -> None:
    """Set an env manager to normalise by the statistics of the first policy that keeps some."""
    found = next(filter(None, map(statistics_of, policies)), None)
    if found is None:
        logger.warning("the policy keeps no statistics: those of obs_norm and reward_norm are in no checkpoint")
    else:
        env.use(found, evaluates)


def v1_interface(env: EnvManager) -> EnvManager:
    """Return ``env``, or the v1 view of a manager with the v2 interface (``base_v2``, ``subprocess_v2``).

    For a manager whose envs normalise, return a view in which the run normalises instead. Call it before the launch.

    Decided by the class, because a manager delegates attributes to its envs.

    Raises:
        TypeError: The object is not an env manager.
    """
    if not hasattr(env, "launch"):
        raise TypeError(f"expected an env manager (see ding.envs.create_env_manager), found {type(env).__name__}")
    normalized: EnvManager | None = env.run_view() if hasattr(type(env), "run_view") else None  # type: ignore[attr-defined]
    if normalized is not None:
        return normalized
    manager: EnvManager = env.as_dict_form() if hasattr(type(env), "as_dict_form") else env  # type: ignore[attr-defined]
    return manager


def as_network_input(obs: ByEnv) -> ByEnv:
    """Convert observations with :func:`~ding.torch_utils.network_input`."""
    if isinstance(obs, EnvBatch):
        return EnvBatch.unchecked(obs.env_ids, network_input(obs.columns))
    inputs: ByEnv = network_input(obs)
    return inputs


def as_float_tensors(obs: ByEnv) -> ByEnv:
    """Convert observations to float32 tensors."""
    if isinstance(obs, EnvBatch):
        return EnvBatch.unchecked(obs.env_ids, to_tensor(obs.columns, dtype=torch.float32))
    inputs: ByEnv = to_tensor(obs, dtype=torch.float32)
    return inputs


def _gather(env_ids: np.ndarray, sources: Sequence[ByEnv]) -> ByEnv:
    """Return row ``env_ids[i]`` of ``sources[i]`` for each i."""
    batches = [source for source in sources if isinstance(source, EnvBatch)]
    if len(batches) < len(sources):
        return {env_id: source[env_id] for env_id, source in zip(env_ids.tolist(), sources)}
    places: dict[int, list[int]] = {}
    for place, batch in enumerate(batches):
        places.setdefault(id(batch), []).append(place)
    parts: list[Columns] = []
    for group in places.values():
        batch = batches[group[0]]
        parts.append(take(batch.columns, np.array([batch.position(int(env_ids[place])) for place in group])))
    back = np.argsort(np.concatenate(list(places.values())))
    return EnvBatch.unchecked(env_ids, take(concat(parts), back))
