"""The recurrent states of a batch as columns, which look like a list of one state per row."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch


class StateRows(Sequence[Any]):
    """Recurrent states of B rows, one ``{'h', 'c'}`` per row, which are cut out of ``columns`` when they are read.

    Args:
        columns: ``{'h', 'c'}`` of ``[B, ...]``.
    """

    def __init__(self, columns: Mapping[str, torch.Tensor]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns["h"])

    def __getitem__(self, index: Any) -> Any:
        part = {key: value[index] for key, value in self.columns.items()}
        return StateRows(part) if isinstance(index, slice) else part

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        return (dict(zip(self.columns, row)) for row in zip(*(value.unbind(0) for value in self.columns.values())))
