"""The newest observation of each env of a manager."""

from typing import Any

import numpy as np

from ding.data import EnvBatch, SchemaError
from ding.data.columns import Columns, row_list, stack_rows


class ObsBoard:
    """Keeps the newest observation of each env and hands out those of the ready envs.

    The observations of the last whole step stay the columns they came as; what changed since then for single envs
    (resets, steps of some envs only) lies beside them as rows, and the two are merged when the batch is asked for.
    Columns that were handed out are never written to.
    """

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._columns: Columns | None = None
        self._rows: dict[int, Any] = {}
        self._batch: EnvBatch | None = None

    def clear(self) -> None:
        """Forget everything."""
        self.__init__()  # type: ignore[misc]

    def write(self, env_ids: list[int], columns: Columns) -> None:
        """Take new observations of these envs; nobody may change ``columns`` afterwards."""
        self._batch = None
        if self._columns is None or self._ids == env_ids or set(self._ids) <= set(env_ids):
            self._ids, self._columns = env_ids, columns
            if self._rows:
                self._rows = {env_id: obs for env_id, obs in self._rows.items() if env_id not in set(env_ids)}
        else:
            self._rows.update(zip(env_ids, row_list(columns, len(env_ids))))

    def write_row(self, env_id: int, obs: Any) -> None:
        """Take the new observation of one env."""
        self._batch = None
        self._rows[env_id] = obs

    def row(self, env_id: int) -> Any:
        """The newest observation of one env."""
        return self._all_rows()[env_id]

    def batch(self, ready: list[int], ready_array: np.ndarray) -> EnvBatch:
        """The observations of the envs ``ready``; ``ready_array`` are the same ids as int64 ``[N]``."""
        if self._batch is not None and self._batch.env_ids is ready_array:
            return self._batch
        if not ready:
            return EnvBatch.from_dict({})
        if self._ids != ready or self._columns is None:
            self._restack(ready)
        elif self._rows:
            self._merge_rows(ready)
        assert self._columns is not None
        self._batch = EnvBatch.unchecked(ready_array, self._columns)
        return self._batch

    def _merge_rows(self, ready: list[int]) -> None:
        mine = [env_id for env_id in self._rows if env_id in ready]
        if not mine:
            return
        if not isinstance(self._columns, np.ndarray) or self._columns.ndim < 2:
            self._restack(ready)
            return
        columns = self._columns.copy()
        for env_id in mine:
            columns[ready.index(env_id)] = self._rows.pop(env_id)
        self._columns = columns

    def _restack(self, ready: list[int]) -> None:
        rows = self._all_rows()
        values = [rows.pop(env_id) for env_id in ready]
        try:
            columns = stack_rows(values)
        except SchemaError:
            columns = values
        self._ids, self._columns, self._rows = list(ready), columns, rows

    def _all_rows(self) -> dict[int, Any]:
        rows = {} if self._columns is None else dict(zip(self._ids, row_list(self._columns, len(self._ids))))
        rows.update(self._rows)
        return rows
