"""Records of a rollout: trajectory segments, training samples and episode statistics.

=================  ==================================================================================================
term               meaning
=================  ==================================================================================================
env step           one step of one environment whose timestep was not abnormal
segment            consecutive steps of one environment; ends with its episode, or when it is long enough; then the
                   next one may begin with its last steps, so that sequences overlap
train sample one result of ``get_train_sample`` for a segment; it belongs to the episode of the segment episode
ends with ``done``; one that ends with an abnormal step is dropped, its steps stay counted duration           seconds
spent on the steps of finished episodes, each vector step shared out among its environments total              over all
ranks of a distributed run, as of the last :meth:`EpisodeRecord.sync` =================
==================================================================================================
"""

import copy
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ding.data import EnvBatch, SchemaError, TransitionBatch, is_batched
from ding.data.roles import CollectMode, Samples, StateDict, attribute_of
from ding.rollout.players import VectorStep
from ding.rollout.trajectory_store import TrajectoryStore
from ding.torch_utils.data_helper import to_tensor_transitions
from ding.utils import allreduce_data, get_world_size
from ding.utils.nested import plain_tree

INF = float("inf")

# The only field of a store whose rows are transition dicts of a policy that does not use columns.
_ROW = "transition"
_NO_SEGMENTS = np.zeros(0, dtype=np.int64)

# Key of a total in a state dict and in a summary -> attribute of the record.
_TOTALS = {
    "total_envstep_count": "envstep",
    "total_episode_count": "episode_count",
    "total_train_sample_count": "train_sample_count",
    "total_duration": "duration_s",
}

Episode: TypeAlias = dict[str, Any]
"""``time`` (seconds), ``step`` and ``train_sample``, and the returns: ``reward``, or ``reward<player>`` of a game."""


class Taken(NamedTuple):
    """Training samples of S finished segments, concatenated, and per segment (int64 ``[S]``) the numbers of samples and
    of new steps.
    """

    samples: Samples
    num_samples: np.ndarray
    num_steps: np.ndarray


class Segments:
    """The trajectory segments of one player: one growing segment per environment, and finished ones.

    With a batched ``process_transition`` the steps are columns. Without, the policy is called once per environment and
    step, and a segment is a list of transition dicts. Segments finish one by one, as the episodes of their
    environments end, but a batched ``get_train_sample`` is called once for all of them.

    Args:
        env_num: number of environments; their ids are ``0 .. env_num - 1``.
        policy: Policy that produced the steps.
        length: Maximum number of steps of a segment, which also ends with its episode; ``None``: it ends only when
            taken.
        copies: Whether transitions are deep copies, so that a policy or env may modify its outputs in place; the
            observations are copies already, and ``next_obs`` of a row form transition stays an object of its own.
    """

    def __init__(self, env_num: int, policy: CollectMode, length: float | None = INF, copies: bool = False) -> None:
        if not hasattr(policy, "process_transition"):
            raise TypeError(
                f"{type(policy).__name__} has no process_transition, which makes the transitions that are recorded; "
                "a player of a battle that is not recorded has collect_data = False"
            )
        self._env_num = env_num
        self._policy = policy
        self._copies = copies
        self._in_columns = is_batched(policy.process_transition)
        self._batched_samples = self._in_columns and is_batched(getattr(policy, "get_train_sample", None))
        sequence_len = int(attribute_of(policy, "unroll_len") or 1) if self._batched_samples else 1
        # Number of its last steps with which the next segment of the episode begins.
        self._overlap = int(attribute_of(policy, "sequence_overlap", 0)) if sequence_len > 1 else 0
        self._store = TrajectoryStore(env_num, self._in_columns, sequence_len)
        # Largest number of samples per sequence (or per step) so far, if above one.
        self._samples_per_sequence = 1.0
        self.length = length

    def take_over(self, previous: "Segments") -> bool:
        """Continue the segments of another policy, if both work on columns or neither does."""
        fits = previous._in_columns == self._in_columns and previous._env_num == self._env_num
        if fits:
            self._store = previous._store
        return fits

    @property
    def samples_waiting(self) -> float:
        """Number of samples that :meth:`take_samples` would return; an upper bound if not yet known."""
        sequences = self._store.finished_sequences
        # Samples built segment by segment are built immediately.
        return sequences * self._samples_per_sequence if self._batched_samples or not sequences else INF

    def record(self, step: VectorStep, extra: dict[str, Any]) -> np.ndarray:
        """Add a vector step, and finish the segments that reach their length or the end of their episode.

        Args:
            step: the step of N environments.
            extra: Fields added to every transition; a list or array has one value per environment id.

        Returns:
            The ids of the environments whose segments ended (int64 ``[S]``); they wait for :meth:`take_samples` or
            :meth:`take_segments`, in this order.

        Raises:
            SchemaError: A batched ``process_transition`` does not return a dict of columns.
        """
        env_ids, done = step.timesteps.env_ids, step.timesteps.done
        store = self._store
        store.append(env_ids, self._columns(step, extra) if self._in_columns else self._rows(step, extra))
        if self.length is None:
            return _NO_SEGMENTS
        # May exceed the length after taking over from a policy with longer segments.
        ended = done | (store.counts[env_ids] >= self.length)
        if not np.count_nonzero(ended):
            return _NO_SEGMENTS
        env_ids = env_ids[ended]
        store.finish(env_ids, np.where(done[ended], 0, self._overlap) if self._overlap else None)
        return env_ids

    def take_all(self) -> Taken:
        """Take all steps out unprocessed, environment by environment, with the number of steps of each."""
        counts = self._store.counts.copy()
        self._store.finish(np.arange(self._env_num))
        batch = self._store.take_finished()
        if self._in_columns or not len(batch):
            return Taken(batch, counts, counts)
        return Taken(to_tensor_transitions(batch.columns[_ROW], shallow_copy_next_obs=False), counts, counts)

    def cut(self, num_steps: float) -> np.ndarray:
        """Finish the growing segments once there are ``num_steps`` steps; returns like :meth:`record`."""
        store = self._store
        if store.finished_steps + np.add.reduce(store.counts) < num_steps:
            return _NO_SEGMENTS
        store.finish(env_ids := np.flatnonzero(store.counts))
        return env_ids

    def take_samples(self) -> Taken:
        """Take the finished segments out as training samples."""
        sequences = self._store.finished_sequences
        batch = self._store.take_finished()
        steps = batch.lengths
        if steps is None:
            return Taken([], _NO_SEGMENTS, _NO_SEGMENTS)
        if self._batched_samples:
            samples = self._policy.get_train_sample(batch)
            self._samples_per_sequence = max(self._samples_per_sequence, len(samples) / sequences)
            num_samples = samples.lengths if isinstance(samples, TransitionBatch) else None
            if num_samples is None or len(num_samples) != len(steps):
                # Exact where no step was lost.
                num_samples = np.diff(np.cumsum(steps) * len(samples) // len(batch), prepend=0)
            return Taken(samples, num_samples, self._store.new_steps)
        made = [self._policy.get_train_sample(segment) for segment in self._split(batch, as_rows=True)]
        return Taken(list(itertools.chain.from_iterable(made)), np.array([len(part) for part in made]), steps)

    def take_segments(self) -> list[Samples]:
        """Take the finished segments out unprocessed: each a list of transitions, or a ``TransitionBatch``."""
        return self._split(self._store.take_finished(), as_rows=False)

    def clear(self, env_ids: "np.ndarray | None" = None) -> None:
        """Drop the growing segments of these environments (``None``: everything)."""
        self._store.clear(env_ids)

    def state_dict(self) -> StateDict:
        """Return the growing segments; finished ones must have been taken."""
        return {"samples_per_sequence": self._samples_per_sequence, **self._store.state_dict()}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore the segments of a :meth:`state_dict`."""
        self._samples_per_sequence = state_dict["samples_per_sequence"]
        self._store.load_state_dict(state_dict)

    def _columns(self, step: VectorStep, extra: dict[str, Any]) -> dict[str, Any]:
        timesteps = step.timesteps
        obs = step.obs if isinstance(step.obs, EnvBatch) else EnvBatch.from_dict(step.obs)
        output = step.output if isinstance(step.output, EnvBatch) else EnvBatch.from_dict(step.output)
        columns = self._policy.process_transition(obs.columns, output.columns, timesteps)
        if not isinstance(columns, dict):
            raise SchemaError(f"process_transition must return a dict of columns, found {type(columns).__name__}")
        columns, env_ids = copy.deepcopy(columns) if self._copies else dict(columns), timesteps.env_ids
        for key, value in extra.items():
            by_env = isinstance(value, (list, np.ndarray))
            columns[key] = np.asarray(value)[env_ids] if by_env else np.full(len(env_ids), value)
        return columns

    def _rows(self, step: VectorStep, extra: dict[str, Any]) -> dict[str, Any]:
        obs = step.obs.to_dict() if isinstance(step.obs, EnvBatch) else step.obs
        output = step.output.to_dict() if isinstance(step.output, EnvBatch) else step.output
        transitions = []
        for env_id, timestep in step.timesteps.normalised().items():
            transition = plain_tree(self._policy.process_transition(obs[env_id], output[env_id], timestep))
            for key, value in extra.items():
                transition[key] = value[env_id] if isinstance(value, (list, np.ndarray)) else value
            transitions.append(copy.deepcopy(transition) if self._copies else transition)
        return {_ROW: transitions}

    def _split(self, batch: TransitionBatch, as_rows: bool) -> list[Samples]:
        """Return the segments of a batch; their columns are slices of its columns."""
        if not len(batch):
            return []
        bounds = itertools.pairwise([0, *np.cumsum(batch.segment_lengths()).tolist()])
        if not self._in_columns:
            transitions = batch.columns[_ROW]
            return [
                to_tensor_transitions(transitions[start:end], shallow_copy_next_obs=not self._copies)
                for start, end in bounds
            ]
        segments = [TransitionBatch.unchecked(batch[start:end].columns, end - start) for start, end in bounds]
        return [segment.rows() for segment in segments] if as_rows else list(segments)


class EpisodeRecord:
    """Counts and returns of episodes.

    Args:
        env_num: number of environments; their ids are ``0 .. env_num - 1``.

    Attributes:
        envstep, episode_count, train_sample_count: totals, see above.
        dropped_count: Number of broken episodes of this process.
        duration_s: total duration of the finished episodes.
        finished: Finished episodes not reported yet, in the order in which they ended.
        numbers: int64 ``[env_num]``, number of ended or dropped episodes of each environment.
        steps: int64 ``[env_num]``, steps of the running episodes.
        is_distributed: whether there are several ranks, whose totals :meth:`sync` sums.
        running: The running episodes; returns, steps and seconds are set when they end.
    """

    def __init__(self, env_num: int = 0) -> None:
        self.is_distributed = get_world_size() > 1
        self.finished: list[Episode] = []
        self.zero_totals()
        self.begin(env_num)

    def zero_totals(self) -> None:
        """Reset the totals and drop the finished episodes."""
        self.envstep = self.episode_count = self.train_sample_count = self.dropped_count = 0
        self.duration_s = 0.0
        self.finished.clear()
        self._synced = self._totals()

    def begin(self, env_num: int) -> None:
        """Drop the running episodes and begin new ones in ``env_num`` environments."""
        self.numbers = np.zeros(env_num, dtype=np.int64)
        self.steps = np.zeros(env_num, dtype=np.int64)
        self._seconds = np.zeros(env_num)
        self.running: list[Episode] = [{"train_sample": 0} for _ in range(env_num)]

    def step(self, env_ids: np.ndarray, seconds: float) -> None:
        """Count a vector step of these environments (int64 ``[N]``) and its duration."""
        count = len(env_ids)
        stepped = slice(None) if count == len(self.steps) else env_ids
        self.steps[stepped] += 1
        self._seconds[stepped] += seconds / count
        self.envstep += count

    def count_samples(self, episodes: Sequence[Episode], num_samples: np.ndarray) -> None:
        """Count the samples (int64 ``[S]``) of segments of these episodes, which may have ended."""
        counts = num_samples.tolist()
        for episode, count in zip(episodes, counts, strict=True):
            episode["train_sample"] += count
        self.train_sample_count += sum(counts)

    def end(self, env_id: int, returns: Mapping[str, float]) -> Episode:
        """End the running episode of an environment with these returns and begin the next one."""
        episode = self.running[env_id]
        episode.update(returns, time=float(self._seconds[env_id]), step=int(self.steps[env_id]))
        self.finished.append(episode)
        self.episode_count += 1
        self.duration_s += episode["time"]
        self.drop([env_id])
        return episode

    def drop(self, env_ids: Sequence[int]) -> None:
        """Drop the running episodes of these environments and begin the next ones."""
        for env_id in env_ids:
            self.numbers[env_id] += 1
            self.steps[env_id] = 0
            self._seconds[env_id] = 0.0
            self.running[env_id] = {"train_sample": 0}

    def set_envstep(self, value: int) -> None:
        """Set the env step counter to ``value``."""
        self.envstep = self._synced["total_envstep_count"] = value

    def sync(self) -> None:
        """Sum the counts since the last call over all ranks into the totals."""
        for key, now in self._totals().items():
            before = self._synced[key]
            setattr(self, _TOTALS[key], before + type(before)(allreduce_data(now - before, "sum")))
        self._synced = self._totals()

    def _totals(self) -> dict[str, Any]:
        return {key: getattr(self, name) for key, name in _TOTALS.items()}

    def state_dict(self) -> StateDict:
        """Return the totals and the finished episodes not reported yet. Running episodes are not included."""
        return {**self._totals(), "episode_info": [dict(episode) for episode in self.finished]}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore what :meth:`state_dict` returned."""
        for key, name in _TOTALS.items():
            setattr(self, name, state_dict[key])
        self._synced = self._totals()
        self.finished = [dict(episode) for episode in state_dict["episode_info"]]

    def summary(self, with_samples: bool) -> dict[str, float]:
        """Return sums, averages and rates of the finished episodes, and the totals.

        Args:
            with_samples: Whether to report train samples instead of times.
        """
        episodes = self.finished
        count = len(episodes)
        steps = sum(episode["step"] for episode in episodes)
        samples = sum(episode["train_sample"] for episode in episodes)
        duration_s = sum(episode["time"] for episode in episodes)
        info: dict[str, float] = {
            "episode_count": count,
            "envstep_count": steps,
            "train_sample_count": samples,
            "avg_envstep_per_episode": ratio(steps, count),
            "avg_sample_per_episode": ratio(samples, count),
            "avg_envstep_per_sec": ratio(steps, duration_s),
            "avg_train_sample_per_sec": ratio(samples, duration_s),
            "avg_episode_per_sec": ratio(count, duration_s),
            "collect_time": duration_s,
        }
        for key in [key for key in (episodes[0] if episodes else ()) if key.startswith("reward")]:
            info |= {f"{key}_{name}": value for name, value in spread([one[key] for one in episodes]).items()}
        info |= self._totals()
        if self.dropped_count:
            info["total_dropped_episode_count"] = self.dropped_count
        hidden = ("collect_time", "total_duration") if with_samples else ("sample",)
        return {key: value for key, value in info.items() if not any(part in key for part in hidden)}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return ``mean``, ``std``, ``max`` and ``min``."""
    return {name: float(getattr(np, name)(values)) for name in ("mean", "std", "max", "min")}


def ratio(value: float, count: float) -> float:
    """Return ``value / count``, or 0 if the count is 0."""
    return value / count if count > 0 else 0.0
