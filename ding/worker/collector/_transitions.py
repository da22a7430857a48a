"""Where the transitions of a collector grow into training samples: as columns, or as the classic lists of dicts."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ding.data import EnvBatch, SchemaError, TrajectoryStore, TransitionBatch, is_batched
from ding.data.trajectory_store import FIRST_CAPACITY
from ding.worker.collector._rollout import VectorStep
from ding.worker.collector._step_store import StepStore
from ding.worker.collector.base_serial_collector import INF, TrajBuffer, to_tensor_transitions

Samples = Sequence[dict[str, Any]]
_NO_COUNTS = np.zeros(0, dtype=np.int64)
# A new train iteration is a new constant, so only few are of use at a time.
_MAX_CONSTANTS = 16
# Steps per environment; with less, the store would have to make room too often.
_LEAST_CAPACITY = 32


class Transitions(Protocol):
    """One growing trajectory piece per environment, and the finished ones until their samples are taken."""

    @property
    def counts(self) -> np.ndarray:
        """int64 ``[env_num]``: steps of the current piece of each environment."""

    @property
    def samples_waiting(self) -> float:
        """The number of samples that :meth:`take_samples` would give; where that is not known yet, no less."""

    def append(self, step: VectorStep, extra: dict[str, Any]) -> None:
        """Add one vector step; ``extra`` are values that every transition gets (a list: one per environment id)."""

    def finish(self, env_ids: np.ndarray) -> None:
        """End the pieces of these environments: they wait, in this order, for :meth:`take_samples`."""

    def take_samples(self) -> tuple[Samples, np.ndarray]:
        """The training samples of the finished pieces, in their order, with the number of samples per piece."""

    def pop_samples(self, env_ids: np.ndarray) -> tuple[Samples, np.ndarray]:
        """Take out the pieces of these environments, in this order, as training samples, with the number of samples
        per piece.
        """

    def pop_pieces(self, env_ids: np.ndarray) -> list[Samples]:
        """Take out the pieces of these environments, in this order, as trajectories of transitions."""

    def clear(self, env_ids: "np.ndarray | None" = None) -> None:
        """Forget the growing pieces of these environments (``None``: everything)."""

    def adopt(self, previous: "Transitions") -> None:
        """Go on with the pieces that another policy began in the same environments, where they have the same form."""


def make_transitions(policy: Any, env_num: int, traj_len: float, deepcopy: bool = False) -> Transitions:
    """The columnar form when the policy's ``process_transition`` is batched, else the classic one."""
    if is_batched(policy.process_transition):
        return ColumnTransitions(policy, env_num, traj_len)
    return RowTransitions(policy, env_num, deepcopy)


class _Made:
    """Samples of finished pieces, made as soon as each was finished."""

    def __init__(self) -> None:
        self.samples: list[dict[str, Any]] = []
        self._per_piece = [_NO_COUNTS]

    def add(self, samples: Samples, per_piece: np.ndarray) -> None:
        self.samples.extend(samples)
        self._per_piece.append(per_piece)

    def per_piece(self) -> np.ndarray:
        return np.concatenate(self._per_piece)


class ColumnTransitions:
    """Transitions as columns, see :class:`Transitions`.

    Pieces finish one by one, as the episodes of their environments end, but they are picked from the store together,
    and a batched ``get_train_sample`` is called once for all of them.
    """

    def __init__(self, policy: Any, env_num: int, traj_len: float) -> None:
        self._policy = policy
        self._process_transition = policy.process_transition
        self._batched_samples = is_batched(policy.get_train_sample)
        self._made = _Made()
        # The most samples that a step has given so far, if that was more than one.
        self._samples_per_step = 1.0
        self._traj_len = traj_len
        self._store: Any = _make_store(env_num, traj_len)
        self._constants: dict[tuple[type, Any, int], np.ndarray] = {}

    @property
    def counts(self) -> np.ndarray:
        return self._store.counts

    @property
    def samples_waiting(self) -> float:
        if self._batched_samples:
            return self._store.finished_steps * self._samples_per_step
        return len(self._made.samples)

    def append(self, step: VectorStep, extra: dict[str, Any]) -> None:
        env_ids = step.timesteps.env_ids
        obs, output = EnvBatch.from_dict(step.obs).columns, EnvBatch.from_dict(step.output).columns
        columns = self._process_transition(obs, output, step.timesteps)
        if not isinstance(columns, dict):
            raise SchemaError(f"process_transition must return a dict of columns, found {type(columns).__name__}")
        columns = dict(columns)
        for key, value in extra.items():
            if isinstance(value, (list, np.ndarray)):
                columns[key] = np.asarray(value)[env_ids]
            else:
                columns[key] = self._constant(value, len(env_ids))
        self._store.append(env_ids, columns)

    def _constant(self, value: Any, length: int) -> np.ndarray:
        """A column of one value, which is made once."""
        key = (type(value), value, length)
        column = self._constants.get(key)
        if column is None:
            if len(self._constants) > _MAX_CONSTANTS:
                self._constants.clear()
            column = self._constants[key] = np.full(length, value)
        # Only a piece of one step leaves with the very columns that came in.
        return column.copy() if self._traj_len == 1 else column

    def finish(self, env_ids: np.ndarray) -> None:
        if self._batched_samples:
            self._store.finish(env_ids)
        else:
            self._made.add(*self.pop_samples(env_ids))

    def take_samples(self) -> tuple[Samples, np.ndarray]:
        if self._batched_samples:
            return self._samples_of(self._store.take_finished())
        made, self._made = self._made, _Made()
        return made.samples, made.per_piece()

    def pop_samples(self, env_ids: np.ndarray) -> tuple[Samples, np.ndarray]:
        return self._samples_of(self._store.pop(env_ids))

    def _samples_of(self, batch: TransitionBatch) -> tuple[Samples, np.ndarray]:
        if not len(batch):
            return [], _NO_COUNTS
        if self._batched_samples:
            samples = self._policy.get_train_sample(batch)
            self._samples_per_step = max(self._samples_per_step, len(samples) / len(batch))
            return samples, _samples_per_piece(batch, samples)
        return _flattened([self._policy.get_train_sample(piece.rows()) for piece in _pieces(batch)])

    def pop_pieces(self, env_ids: np.ndarray) -> list[Samples]:
        batch = self._store.pop(env_ids)
        return list(_pieces(batch)) if len(batch) else []

    def clear(self, env_ids: "np.ndarray | None" = None) -> None:
        self._store.clear(env_ids)
        if env_ids is None:
            self._made = _Made()

    def adopt(self, previous: Transitions) -> None:
        if isinstance(previous, ColumnTransitions) and np.count_nonzero(previous.counts):
            self._store = previous._store


def _make_store(env_num: int, traj_len: float) -> "TrajectoryStore | StepStore":
    if traj_len == 1:
        return StepStore(env_num)
    # Room for finished pieces and for growing ones.
    capacity = FIRST_CAPACITY if traj_len == INF else max(_LEAST_CAPACITY, 2 * int(traj_len))
    return TrajectoryStore(env_num, capacity, rows_as_tensors=True)


def _flattened(pieces: list[Samples]) -> tuple[Samples, np.ndarray]:
    counts = np.array([len(piece) for piece in pieces], dtype=np.int64)
    return [sample for piece in pieces for sample in piece], counts


def _samples_per_piece(batch: TransitionBatch, samples: Samples) -> np.ndarray:
    """Number of samples that each piece gave. Without ``lengths`` of the result it is exact when no step was lost."""
    pieces = batch.piece_lengths()
    lengths = getattr(samples, "lengths", None)
    if lengths is not None and len(lengths) == len(pieces):
        return lengths
    if len(samples) == len(batch):
        return pieces
    bounds = np.cumsum(pieces) * len(samples) // len(batch)
    return np.diff(bounds, prepend=0)


def _pieces(batch: TransitionBatch) -> list[TransitionBatch]:
    """The trajectory pieces of a batch, each as a batch whose columns are slices."""
    ends = np.cumsum(batch.piece_lengths()).tolist()
    return [
        TransitionBatch.unchecked(batch[start:end].columns, end - start) for start, end in zip([0, *ends[:-1]], ends)
    ]


class RowTransitions:
    """Transitions as lists of dicts, one call of the policy per environment and step, see :class:`Transitions`."""

    def __init__(self, policy: Any, env_num: int, deepcopy: bool) -> None:
        self._policy = policy
        self._deepcopy = deepcopy
        # Whoever finishes the pieces knows how long they may be.
        self._buffers = [TrajBuffer(maxlen=None, deepcopy=deepcopy) for _ in range(env_num)]
        self._made = _Made()

    @property
    def counts(self) -> np.ndarray:
        return np.array([len(buffer) for buffer in self._buffers], dtype=np.int64)

    def append(self, step: VectorStep, extra: dict[str, Any]) -> None:
        obs = step.obs.to_dict() if isinstance(step.obs, EnvBatch) else step.obs
        output = step.output.to_dict() if isinstance(step.output, EnvBatch) else step.output
        for env_id, timestep in step.timesteps.items():
            transition = self._policy.process_transition(obs[env_id], output[env_id], timestep)
            for key, value in extra.items():
                transition[key] = value[env_id] if isinstance(value, (list, np.ndarray)) else value
            self._buffers[env_id].append(transition)

    def _pop(self, env_ids: np.ndarray) -> list[list[dict[str, Any]]]:
        pieces = []
        for env_id in env_ids.tolist():
            buffer = self._buffers[env_id]
            if buffer:
                pieces.append(to_tensor_transitions(buffer, shallow_copy_next_obs=not self._deepcopy))
                buffer.clear()
        return pieces

    @property
    def samples_waiting(self) -> float:
        return len(self._made.samples)

    def finish(self, env_ids: np.ndarray) -> None:
        self._made.add(*self.pop_samples(env_ids))

    def take_samples(self) -> tuple[Samples, np.ndarray]:
        made, self._made = self._made, _Made()
        return made.samples, made.per_piece()

    def pop_samples(self, env_ids: np.ndarray) -> tuple[Samples, np.ndarray]:
        return _flattened([self._policy.get_train_sample(piece) for piece in self._pop(env_ids)])

    def pop_pieces(self, env_ids: np.ndarray) -> list[Samples]:
        return list(self._pop(env_ids))

    def clear(self, env_ids: "np.ndarray | None" = None) -> None:
        for env_id in range(len(self._buffers)) if env_ids is None else env_ids.tolist():
            self._buffers[env_id].clear()
        if env_ids is None:
            self._made = _Made()

    def adopt(self, previous: Transitions) -> None:
        if isinstance(previous, RowTransitions) and len(previous._buffers) == len(self._buffers):
            self._buffers = previous._buffers
