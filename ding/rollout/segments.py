"""Where the steps of one player grow into trajectory segments, and segments become training samples."""

import itertools
from typing import Any, NamedTuple

import numpy as np

from ding.data import EnvBatch, SchemaError, TrajectoryStore, TransitionBatch, is_batched
from ding.data.roles import CollectMode, Samples, Transition
from ding.rollout.stepper import VectorStep
from ding.torch_utils import to_tensor

INF = float("inf")

# The only field of a store whose rows are the transition dicts of a policy that does not work on columns.
_ROW = "transition"


_NO_SEGMENTS = np.zeros(0, dtype=np.int64)


class Taken(NamedTuple):
    """Training samples of S finished segments, one segment after the other."""

    samples: Samples
    num_samples: np.ndarray
    """int64 ``[S]``, samples per segment."""
    num_steps: np.ndarray
    """int64 ``[S]``, steps per segment."""


class Segments:
    """The trajectory segments of one player: one that grows per environment, and the finished ones that wait.

    With a batched ``process_transition`` the steps are columns. Without, the policy is called once per environment and
    step, and a segment is a list of transition dicts. Segments finish one by one, as the episodes of their
    environments end, but a batched ``get_train_sample`` is called once for all of them.

    Args:
        env_num: number of environments; their ids are ``0 .. env_num - 1``.
        policy: whose steps these are.
        length: steps after which a segment ends, if its episode does not end before.
        copies: the observations are copies, so ``next_obs`` of a row form transition stays an object of its own.
    """

    def __init__(self, env_num: int, policy: CollectMode, length: float = INF, copies: bool = False) -> None:
        self._env_num = env_num
        self._policy = policy
        self._copies = copies
        self._in_columns = is_batched(policy.process_transition)
        self._batched_samples = self._in_columns and is_batched(policy.get_train_sample)
        self._store = TrajectoryStore(env_num, rows_as_tensors=self._in_columns)
        # The most samples that a step has given so far, if that was more than one.
        self._samples_per_step = 1.0
        self.length = length

    def take_over(self, previous: "Segments") -> bool:
        """Go on with the segments that another policy began, where both work on columns or neither does."""
        fits = previous._in_columns == self._in_columns and previous._env_num == self._env_num
        if fits:
            self._store = previous._store
        return fits

    @property
    def samples_waiting(self) -> float:
        """The number of samples that :meth:`take_samples` would return; where that is not known yet, no less."""
        steps = self._store.finished_steps
        # What is made segment by segment is made as soon as there is one.
        return steps * self._samples_per_step if self._batched_samples or not steps else INF

    def record(self, step: VectorStep, extra: dict[str, Any]) -> np.ndarray:
        """Add a vector step, and finish the segments that end with it: by their length, or with their episode.

        Args:
            step: the step of N environments.
            extra: fields that every transition gets; a list or array has one value per environment id.

        Returns:
            The ids of the environments whose segments ended (int64 ``[S]``); they wait for :meth:`take_samples` or
            :meth:`take_segments`, in this order.

        Raises:
            SchemaError: a batched ``process_transition`` returns something else than a dict of columns.
        """
        env_ids, done = step.timesteps.env_ids, step.timesteps.done
        store = self._store
        store.append(env_ids, self._columns(step, extra) if self._in_columns else self._rows(step, extra))
        # More than the length, where a policy with longer segments began them.
        ended = done | (store.counts[env_ids] >= self.length)
        num_ended = np.count_nonzero(ended)
        if not num_ended:
            return _NO_SEGMENTS
        if num_ended < len(env_ids):
            env_ids = env_ids[ended]
        store.finish(env_ids)
        return env_ids

    def take_samples(self) -> Taken:
        """Take the finished segments out as training samples."""
        batch = self._store.take_finished()
        steps = batch.lengths
        if steps is None:
            return Taken([], _NO_SEGMENTS, _NO_SEGMENTS)
        if self._batched_samples:
            samples = self._policy.get_train_sample(batch)
            self._samples_per_step = max(self._samples_per_step, len(samples) / len(batch))
            return Taken(samples, _samples_per_segment(steps, samples), steps)
        made = [self._policy.get_train_sample(segment) for segment in self._split(batch, as_rows=True)]
        num_samples = np.array([len(samples) for samples in made], dtype=np.int64)
        return Taken(list(itertools.chain.from_iterable(made)), num_samples, steps)

    def take_segments(self) -> list[Samples]:
        """Take the finished segments out as they are: each a list of transitions, or a ``TransitionBatch``."""
        return self._split(self._store.take_finished(), as_rows=False)

    def clear(self, env_ids: "np.ndarray | None" = None) -> None:
        """Forget the growing segments of these environments (``None``: everything)."""
        self._store.clear(env_ids)

    def _columns(self, step: VectorStep, extra: dict[str, Any]) -> dict[str, Any]:
        timesteps = step.timesteps
        obs = step.obs if isinstance(step.obs, EnvBatch) else EnvBatch.from_dict(step.obs)
        output = step.output if isinstance(step.output, EnvBatch) else EnvBatch.from_dict(step.output)
        columns = self._policy.process_transition(obs.columns, output.columns, timesteps)
        if not isinstance(columns, dict):
            raise SchemaError(f"process_transition must return a dict of columns, found {type(columns).__name__}")
        columns, env_ids = dict(columns), timesteps.env_ids
        for key, value in extra.items():
            by_env = isinstance(value, (list, np.ndarray))
            columns[key] = np.asarray(value)[env_ids] if by_env else np.full(len(env_ids), value)
        return columns

    def _rows(self, step: VectorStep, extra: dict[str, Any]) -> dict[str, Any]:
        obs = step.obs.to_dict() if isinstance(step.obs, EnvBatch) else step.obs
        output = step.output.to_dict() if isinstance(step.output, EnvBatch) else step.output
        transitions = []
        for env_id, timestep in step.timesteps.items():
            transition = self._policy.process_transition(obs[env_id], output[env_id], timestep)
            for key, value in extra.items():
                transition[key] = value[env_id] if isinstance(value, (list, np.ndarray)) else value
            transitions.append(transition)
        return {_ROW: transitions}

    def _split(self, batch: TransitionBatch, as_rows: bool) -> list[Samples]:
        """The segments of a batch; their columns are slices of its columns."""
        if not len(batch):
            return []
        ends = np.cumsum(batch.segment_lengths()).tolist()
        bounds = list(zip([0, *ends[:-1]], ends))
        if not self._in_columns:
            transitions = batch.columns[_ROW]
            return [
                to_tensor_transitions(transitions[start:end], shallow_copy_next_obs=not self._copies)
                for start, end in bounds
            ]
        segments = [TransitionBatch.unchecked(batch[start:end].columns, end - start) for start, end in bounds]
        return [segment.rows() for segment in segments] if as_rows else list(segments)


def _samples_per_segment(steps: np.ndarray, samples: Samples) -> np.ndarray:
    """Number of samples that each segment gave. Without ``lengths`` of the result it is exact when no step was lost."""
    lengths = samples.lengths if isinstance(samples, TransitionBatch) else None
    if lengths is not None and len(lengths) == len(steps):
        return lengths
    ends = np.cumsum(steps)
    return steps if len(samples) == ends[-1] else np.diff(ends * len(samples) // ends[-1], prepend=0)


def joined(parts: list[Samples]) -> Samples:
    """One sequence of all samples; a ``TransitionBatch`` where all parts are."""
    batches = [part for part in parts if isinstance(part, TransitionBatch)]
    if parts and len(batches) == len(parts):
        return TransitionBatch.concat(batches)
    return [sample for part in parts for sample in part]


def to_tensor_transitions(data: list[Transition], shallow_copy_next_obs: bool = True) -> list[Transition]:
    """Turn the arrays of transitions into tensors (float64 into float32) and leave Python scalars alone.

    Args:
        data: consecutive transitions of one environment.
        shallow_copy_next_obs: make ``next_obs`` of each transition the very object that is ``obs`` of the next one.
            The last transition keeps its own.

    Returns:
        A new list of new dicts.
    """
    if not data:
        return []
    if "next_obs" not in data[0] or not shallow_copy_next_obs:
        return [to_tensor(transition, transform_scalar=False) for transition in data]
    last = len(data) - 1
    tensors = [
        {k: to_tensor(v, transform_scalar=False) for k, v in transition.items() if k != "next_obs" or i == last}
        for i, transition in enumerate(data)
    ]
    for current, following in itertools.pairwise(tensors):
        current["next_obs"] = following["obs"]
    return tensors
