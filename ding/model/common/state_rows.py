"""Recurrent states of a batch as columns that behave like nested lists with one state per row and agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch


class StateRows(Sequence[Any]):
    """A list of recurrent states, which are cut out of ``columns`` when they are read.

    It is a list for ``isinstance``, so that code which distinguishes lists from dicts treats it as a list.

    Args:
        columns: ``{'h', 'c'}`` of ``[N, ...]``.
        depth: 1: entries are dicts ``{'h', 'c'}`` of ``[...]``; more: entries are lists again, of one depth less.
    """

    def __init__(self, columns: Mapping[str, torch.Tensor], depth: int = 1) -> None:
        self.columns, self.depth = columns, depth

    #: As for a mock, ``type()`` returns the real class.
    __class__ = property(lambda self: list)

    @staticmethod
    def of(value: object) -> StateRows | None:
        """Return ``value`` if it is of this class, which ``isinstance`` does not tell from a list, else None."""
        return value if type(value) is StateRows else None

    @staticmethod
    def joined(rows: Sequence[Any], like: object = None) -> StateRows | None:
        """Return what holds these as its entries; zeros as large as those of ``like`` stand for entries that are None.

        None if another entry is not of this class.
        """
        parts = [StateRows.of(row) for row in rows]
        first = next((part for part in [*parts, StateRows.of(like)] if part is not None), None)
        if first is None or any(part is None and row is not None for part, row in zip(parts, rows)):
            return None
        zeros = {key: torch.zeros_like(value) for key, value in first.columns.items()}
        filled = [zeros if part is None else part.columns for part in parts]
        return StateRows({key: torch.stack([part[key] for part in filled]) for key in zeros}, first.depth + 1)

    @property
    def agent_columns(self) -> dict[str, torch.Tensor]:
        """Columns with all agents of a row along one axis: ``[N, A, ...]``."""
        return {key: value.flatten(1, max(1, self.depth - 1)) for key, value in self.columns.items()}

    def __reduce__(self) -> tuple[type[StateRows], tuple[Mapping[str, torch.Tensor], int]]:
        # Pickle compares the class of what it makes with ``__class__``.
        return StateRows, (self.columns, self.depth)

    def __len__(self) -> int:
        return len(self.columns["h"])

    def __getitem__(self, index: Any) -> Any:
        part = {key: value[index] for key, value in self.columns.items()}
        if isinstance(index, slice):
            return StateRows(part, self.depth)
        return part if self.depth == 1 else StateRows(part, self.depth - 1)

    def __iter__(self) -> Iterator[Any]:
        for row in zip(*(value.unbind(0) for value in self.columns.values())):
            part = dict(zip(self.columns, row))
            yield part if self.depth == 1 else StateRows(part, self.depth - 1)

    def __repr__(self) -> str:
        return f"StateRows({ {key: tuple(value.shape) for key, value in self.columns.items()} }, depth={self.depth})"
