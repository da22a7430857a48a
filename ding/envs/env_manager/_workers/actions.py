"""Transfer of actions to the workers: through shared memory if they have an array form, else pickled one by one."""

import logging
from typing import Any

import numpy as np
import torch

from ding.data import EnvBatch, SchemaError
from ding.data.columns import Columns
from ding.envs.env_manager._columns import action_rows
from ding.envs.env_manager._workers.engine import WorkerEngine
from ding.envs.env_manager._workers.shared_columns import RowSchema, SharedColumns
from ding.utils.nested import iter_leaves

logger = logging.getLogger(__name__)


class ActionSender:
    """Orders the steps of an engine, which owns the shared memory created here.

    Args:
        engine: Receives the orders.
        num_envs: Number of envs.
    """

    def __init__(self, engine: WorkerEngine, num_envs: int) -> None:
        self._engine = engine
        self._num_envs = num_envs
        self._schema: RowSchema | None = None
        self._arrays: list[np.ndarray] = []
        self._form: tuple[Any, ...] | None = None

    def send(self, batch: EnvBatch, as_given: bool, shared: bool) -> None:
        """Order one step of each of these envs.

        Args:
            batch: Actions ``[N, ...]``, or dicts of them, or any objects.
            as_given: See :func:`action_rows`.
            shared: Whether the workers read actions from shared memory.
        """
        columns = _columns_of(batch) if shared else None
        if columns is None or not self._fits(columns, batch, as_given):
            for env_id, action in zip(batch, action_rows(batch, discrete=False, as_given=as_given)):
                self._engine.step_object(env_id, action)
            return
        # Only idle envs are stepped, so no worker reads these rows now.
        for array, (_, leaf) in zip(self._arrays, iter_leaves(columns)):
            array[batch.env_ids] = leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else leaf
        self._engine.step(batch.env_ids.tolist())

    def _fits(self, columns: Columns, batch: EnvBatch, as_given: bool) -> bool:
        """Return whether the actions have an array form; provide memory of that form."""
        form = None
        if not isinstance(columns, (dict, list)):
            kind = type(next(iter(batch.values()))) if as_given else None
            form = (kind, type(columns), columns.dtype, columns.shape[1:])
            if form == self._form:
                return True
        schema = RowSchema.of(action_rows(batch, discrete=False, as_given=as_given)[0])
        if schema is None or any(isinstance(leaf, list) for _, leaf in iter_leaves(columns)):
            return False
        if schema != self._schema:
            # Memory of another schema is sent before the order that needs it, on the same pipe.
            memory = SharedColumns(schema.prefixed("action"), self._num_envs)
            self._schema, self._arrays = schema, memory.arrays
            self._engine.attach("actions", memory)
        self._form = form
        return True


def _columns_of(batch: EnvBatch) -> Columns | None:
    try:
        return batch.columns
    except SchemaError:
        logger.debug("actions of different shapes are sent one by one")
        return None
