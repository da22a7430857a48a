"""Rows of one schema on a device."""

from typing import Any

import numpy as np
import torch

from ding.data.columns import SchemaError, describe_leaf
from ding.data.storage._schema import Field, check_paths, check_values, dig, fields_of, nested
from ding.data.storage.base import RowStorage
from ding.data.transition_batch import TransitionBatch
from ding.torch_utils.device import send


class DeviceStorage(RowStorage):
    """One tensor per field on a torch device; what is read stays there.

    Array fields (per-row numbers such as ``done``) are kept as tensors too, so a batch that is read consists of
    tensors only.

    Args:
        capacity: number of rows.
        columns: some rows, for the schema.
        device: torch device.

    Raises:
        SchemaError: a field is neither a tensor nor a numeric array.
    """

    columnar = True

    def __init__(self, capacity: int, columns: dict[str, Any], device: str) -> None:
        self.capacity = capacity
        self.device = torch.device(device)
        self.fields = fields_of(columns)
        self._columns: dict[tuple[str, ...], torch.Tensor] = {}
        for field in self.fields:
            row = self._as_tensor(field, dig(columns, field.path))
            self._columns[field.path] = torch.zeros((capacity, *row.shape[1:]), dtype=row.dtype, device=self.device)

    @staticmethod
    def _as_tensor(field: Field, leaf: object) -> torch.Tensor:
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc" and leaf.dtype != np.longdouble:
            return torch.from_numpy(leaf.astype(leaf.dtype.newbyteorder("="), order="C", copy=False))
        if not isinstance(leaf, torch.Tensor):
            raise SchemaError(
                f"field {field.name!r} is {describe_leaf(leaf)}; a buffer on a device stores tensors and numbers"
            )
        return leaf.detach()

    def write(self, start: int, rows: dict[str, Any], count: int) -> None:
        check_paths(self.fields, rows)
        leaves = []
        for field in self.fields:
            column, leaf = self._columns[field.path], dig(rows, field.path)
            # Numbers may stand for others, by the rules of the other storages; tensors stay on their device.
            tensor = self._as_tensor(field, field.check(leaf, count) if isinstance(leaf, np.ndarray) else leaf)
            if tensor.dtype != column.dtype or tensor.shape != (count, *column.shape[1:]):
                raise SchemaError(
                    f"field {field.name!r} is {describe_leaf(leaf)} with {len(tensor)} rows, "
                    f"the buffer stores {describe_leaf(column)} and needs {count}"
                )
            leaves.append((column, tensor))
        until = min(count, self.capacity - start)
        for column, tensor in leaves:
            column[start : start + until].copy_(tensor[:until])
            if until < count:
                column[: count - until].copy_(tensor[until:])

    def check(self, columns: dict[str, Any], count: int) -> None:
        check_values(self.fields, columns, count)

    def read(self, positions: np.ndarray) -> TransitionBatch:
        index = send(torch.from_numpy(np.ascontiguousarray(positions, dtype=np.int64)), self.device)
        leaves = [(field, self._columns[field.path].index_select(0, index)) for field in self.fields]
        return TransitionBatch.unchecked(nested(leaves), len(positions))

    def copied(self, positions: np.ndarray) -> dict[str, Any]:
        return self.read(positions).columns

    def erase(self, positions: np.ndarray) -> None:
        """Tensors need no erasing."""

    @property
    def nbytes(self) -> int:
        return sum(column.numel() * column.element_size() for column in self._columns.values())
