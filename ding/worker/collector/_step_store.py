"""The store of trajectory pieces that are one step long."""

from typing import Any

import numpy as np
import torch

from ding.data import TransitionBatch
from ding.data.columns import Columns, concat, map_leaves, take

_Step = dict[str, Any]


class StepStore:
    """What :class:`~ding.data.TrajectoryStore` is, for pieces of one step, which need no log.

    The columns of one step leave as they came, uncopied. Each step must be finished or popped, in the order of its
    environments, before the next one comes.

    Args:
        env_num: number of environments.
    """

    def __init__(self, env_num: int) -> None:
        self._env_num = env_num
        self._last: tuple[np.ndarray, _Step] | None = None
        self._finished: list[_Step] = []
        self._finished_steps = 0

    @property
    def counts(self) -> np.ndarray:
        """int64 ``[env_num]``: steps of the growing piece of each environment."""
        counts = np.zeros(self._env_num, dtype=np.int64)
        if self._last is not None:
            counts[self._last[0]] = 1
        return counts

    @property
    def finished_steps(self) -> int:
        """Steps of the pieces that :meth:`take_finished` would give."""
        return self._finished_steps

    def append(self, env_ids: np.ndarray, columns: dict[str, Any]) -> None:
        """Take one step of the environments ``env_ids``; the columns belong to the store from now on."""
        self._last = (env_ids, columns)

    def finish(self, env_ids: np.ndarray) -> None:
        """End the growing pieces of these environments."""
        step, count = self._cut(env_ids)
        if count:
            self._finished.append(step)
            self._finished_steps += count

    def take_finished(self) -> TransitionBatch:
        """Take the finished pieces out, concatenated in the order in which they were finished.

        Raises:
            SchemaError: the steps differ in fields, dtypes or row shapes. They are lost then.
        """
        steps, total = self._finished, self._finished_steps
        self._finished, self._finished_steps = [], 0
        return self._batch(steps, total)

    def pop(self, env_ids: np.ndarray) -> TransitionBatch:
        """Take the growing pieces of these environments out; the pieces of the others are dropped."""
        step, count = self._cut(env_ids)
        return self._batch([step], count)

    def clear(self, env_ids: "np.ndarray | None" = None) -> None:
        """Forget the step that is not finished (``None``: everything, finished pieces too)."""
        self._last = None
        if env_ids is None:
            self._finished, self._finished_steps = [], 0

    def _cut(self, env_ids: np.ndarray) -> tuple[_Step, int]:
        """The last step, of these environments, with their number."""
        last, self._last = self._last, None
        if last is None:
            return {}, 0
        ids, columns = last
        if len(env_ids) == len(ids):
            return columns, len(ids)
        kept = np.flatnonzero(np.isin(ids, env_ids))
        return {key: take(value, kept) for key, value in columns.items()}, len(kept)

    def _batch(self, steps: list[_Step], total: int) -> TransitionBatch:
        if not total:
            return TransitionBatch.from_rows([])
        lengths = np.ones(total, dtype=np.int64)
        parts = [tensor_columns(step) for step in steps]
        columns: Any = parts[0] if len(parts) == 1 else concat(parts)
        return TransitionBatch.unchecked(columns, total, lengths)


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
