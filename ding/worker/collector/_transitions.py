"""Where the transitions of a collector grow into training samples: as columns, or as the classic lists of dicts."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch

from ding.data import EnvBatch, SchemaError, TrajectoryStore, TransitionBatch, is_batched
from ding.data.columns import Columns, map_leaves, take
from ding.data.trajectory_store import FIRST_CAPACITY
from ding.worker.collector._rollout import VectorStep
from ding.worker.collector.base_serial_collector import TrajBuffer, to_tensor_transitions

Samples = Sequence[dict[str, Any]]
# A new train iteration is a new constant, so only few are of use at a time.
_MAX_CONSTANTS = 16


class Transitions(Protocol):
    """One growing trajectory piece per environment."""

    @property
    def counts(self) -> np.ndarray:
        """int64 ``[env_num]``: steps of the current piece of each environment."""

    def append(self, step: VectorStep, extra: dict[str, Any]) -> None:
        """Add one vector step; ``extra`` are values that every transition gets (a list: one per environment id)."""

    def pop_samples(self, env_ids: np.ndarray) -> tuple[Samples, np.ndarray]:
        """Take out the pieces of these environments, in this order, as training samples, with the number of samples
        per piece.
        """

    def pop_pieces(self, env_ids: np.ndarray) -> list[Samples]:
        """Take out the pieces of these environments, in this order, as trajectories of transitions."""

    def clear(self, env_ids: "np.ndarray | None" = None) -> None:
        """Forget the pieces of these environments (``None``: all)."""

    def adopt(self, previous: "Transitions") -> None:
        """Go on with the pieces that another policy began, where they have the same form."""


def make_transitions(policy: Any, env_num: int, traj_len: float, deepcopy: bool = False) -> Transitions:
    """The columnar form when the policy's ``process_transition`` is batched, else the classic one."""
    if is_batched(policy.process_transition):
        return ColumnTransitions(policy, env_num, traj_len)
    return RowTransitions(policy, env_num, traj_len, deepcopy)


class ColumnTransitions:
    """Transitions as columns, see :class:`Transitions`."""

    def __init__(self, policy: Any, env_num: int, traj_len: float) -> None:
        self._policy = policy
        self._batched_samples = is_batched(policy.get_train_sample)
        self._traj_len = traj_len
        capacity = FIRST_CAPACITY if traj_len == float("inf") else int(traj_len)
        self._store = TrajectoryStore(env_num, capacity, rows_as_tensors=True)
        # With a piece length of one, a step is a finished piece of each environment: it never enters the store.
        self._single_step = traj_len == 1
        self._last: tuple[np.ndarray, dict[str, Any]] | None = None
        self._constants: dict[tuple[type, Any, int], np.ndarray] = {}

    def _constant(self, value: Any, length: int) -> np.ndarray:
        """A new column of one value. It is copied from the last one like it, at a quarter of the cost of filling it."""
        key = (type(value), value, length)
        column = self._constants.get(key)
        if column is None:
            if len(self._constants) > _MAX_CONSTANTS:
                self._constants.clear()
            column = self._constants[key] = np.full(length, value)
        return column.copy()

    @property
    def counts(self) -> np.ndarray:
        if self._last is None:
            return self._store.counts
        counts = np.zeros_like(self._store.counts)
        counts[self._last[0]] = 1
        return counts

    def append(self, step: VectorStep, extra: dict[str, Any]) -> None:
        env_ids = step.timesteps.env_ids
        obs, output = EnvBatch.from_dict(step.obs).columns, EnvBatch.from_dict(step.output).columns
        columns = self._policy.process_transition(obs, output, step.timesteps)
        if not isinstance(columns, dict):
            raise SchemaError(f"process_transition must return a dict of columns, found {type(columns).__name__}")
        columns = tensor_columns(columns) if self._single_step else dict(columns)
        for key, value in extra.items():
            if isinstance(value, (list, np.ndarray)):
                columns[key] = np.asarray(value)[env_ids]
            else:
                columns[key] = self._constant(value, len(env_ids))
        if self._single_step:
            self._last = (env_ids, columns)
        else:
            self._store.append(env_ids, columns)

    def _pop(self, env_ids: np.ndarray) -> TransitionBatch:
        if not self._single_step:
            return self._store.pop(env_ids)
        last, self._last = self._last, None
        if last is None:
            return TransitionBatch.from_rows([])
        ids, columns = last
        if len(env_ids) == len(ids):
            return TransitionBatch.trusted(columns, len(ids), self._constant(1, len(ids)))
        kept = np.flatnonzero(np.isin(ids, env_ids))
        return TransitionBatch.trusted(
            {key: take(value, kept) for key, value in columns.items()}, len(kept), self._constant(1, len(kept))
        )

    def pop_samples(self, env_ids: np.ndarray) -> tuple[Samples, np.ndarray]:
        batch = self._pop(env_ids)
        if not len(batch):
            return [], np.zeros(0, dtype=np.int64)
        if self._batched_samples:
            samples = self._policy.get_train_sample(batch)
            return samples, _samples_per_piece(batch, samples)
        pieces = [self._policy.get_train_sample(piece.rows()) for piece in _pieces(batch)]
        return _flattened(pieces)

    def pop_pieces(self, env_ids: np.ndarray) -> list[Samples]:
        batch = self._pop(env_ids)
        return list(_pieces(batch)) if len(batch) else []

    def clear(self, env_ids: "np.ndarray | None" = None) -> None:
        self._last = None
        self._store.clear(env_ids)

    def adopt(self, previous: Transitions) -> None:
        if isinstance(previous, ColumnTransitions) and previous._traj_len == self._traj_len:
            self._store = previous._store


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
    return [TransitionBatch.trusted(batch[start:end].columns, end - start) for start, end in zip([0, *ends[:-1]], ends)]


def tensor_columns(columns: dict[str, Any]) -> dict[str, Any]:
    """Arrays with a row shape become tensors that share memory (float64 is copied to float32), scalar columns stay.

    The column form of :func:`~ding.worker.collector.base_serial_collector.to_tensor_transitions`.
    """
    return {key: map_leaves(_tensor_leaf, value) for key, value in columns.items()}


def _tensor_leaf(leaf: Any) -> Columns:
    if not isinstance(leaf, np.ndarray) or leaf.ndim < 2:
        return leaf
    if leaf.dtype == np.float64:
        leaf = leaf.astype(np.float32)
    return torch.from_numpy(leaf)


class RowTransitions:
    """Transitions as lists of dicts, one call of the policy per environment and step, see :class:`Transitions`."""

    def __init__(self, policy: Any, env_num: int, traj_len: float, deepcopy: bool) -> None:
        self._policy = policy
        self._deepcopy = deepcopy
        self._buffers = [TrajBuffer(maxlen=traj_len, deepcopy=deepcopy) for _ in range(env_num)]

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

    def pop_samples(self, env_ids: np.ndarray) -> tuple[Samples, np.ndarray]:
        return _flattened([self._policy.get_train_sample(piece) for piece in self._pop(env_ids)])

    def pop_pieces(self, env_ids: np.ndarray) -> list[Samples]:
        return list(self._pop(env_ids))

    def clear(self, env_ids: "np.ndarray | None" = None) -> None:
        for env_id in range(len(self._buffers)) if env_ids is None else env_ids.tolist():
            self._buffers[env_id].clear()

    def adopt(self, previous: Transitions) -> None:
        if isinstance(previous, RowTransitions) and len(previous._buffers) == len(self._buffers):
            self._buffers = previous._buffers
