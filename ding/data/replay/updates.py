"""Ids, priorities and train iterations: how they come in with rows and updates, and how ids look in a sample."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from ding.data.replay.errors import BufferArgumentError
from ding.data.replay.index import UNKNOWN_ITER

Rows: TypeAlias = "dict[str, Any] | list[Any]"
"""Rows as nested columns, or as a list."""

_MISSING = -1
_LARGEST = int(np.iinfo(np.int64).max)
_SHOWN = 10


class UniqueIds(np.ndarray):
    """int64 column of running numbers whose rows are the texts ``<name>_<number>``.

    Texts are made when rows are taken: at once, and read again by each update, they would double the time of a
    prioritised sample and update of 256 rows (nothing that a whole serial run shows).
    """

    prefix: str

    def __array_finalize__(self, source: object) -> None:
        self.prefix = getattr(source, "prefix", "")

    def __reduce__(self) -> Any:
        return unique_ids, (np.asarray(self), self.prefix)

    def tolist(self) -> Any:
        """The texts."""
        if self.ndim != 1:
            return np.asarray(self).tolist()
        return [f"{self.prefix}_{number}" for number in np.asarray(self).tolist()]


def unique_ids(numbers: np.ndarray, prefix: str) -> UniqueIds:
    """``numbers`` (int64 ``[N]``, shared) as ids of the buffer ``prefix``."""
    ids = numbers.view(UniqueIds)
    ids.prefix = prefix
    return ids


def id_numbers(ids: "Iterable[object] | np.ndarray | torch.Tensor", prefix: str) -> np.ndarray:
    """Running numbers int64 ``[N]`` of ids in any form; -1 for what is no id of the buffer ``prefix``.

    Raises:
        BufferArgumentError: ``ids`` cannot be iterated over.
    """
    if isinstance(ids, UniqueIds):
        return np.asarray(ids) if ids.prefix == prefix else np.full(len(ids), _MISSING)
    if isinstance(ids, torch.Tensor):
        ids = ids.cpu().numpy()
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
        # Ids are not negative; what is below -1 may be the mark of an empty slot.
        return np.maximum(ids.astype(np.int64, copy=False).reshape(-1), _MISSING)
    try:
        return np.array([_id_number(one, prefix) for one in ids], dtype=np.int64)
    except TypeError as error:
        raise BufferArgumentError(f"replay_unique_id must be a list or an array, found {ids!r:.200}") from error


def _id_number(one: object, prefix: str) -> int:
    if isinstance(one, str):
        name, _, number = one.rpartition("_")
        # A number of more digits may not fit; there has never been such an id.
        return int(number) if name == prefix and number.isdecimal() and len(number) <= 18 else _MISSING
    return int(one) if isinstance(one, (int, np.integer)) and 0 <= one <= _LARGEST else _MISSING


def slot_numbers(positions: "Iterable[Any] | np.ndarray | torch.Tensor") -> np.ndarray:
    """Positions int64 ``[N]`` in any form; -1 for ``None``.

    Raises:
        BufferArgumentError: one is no number of 64 bits.
    """
    if isinstance(positions, torch.Tensor):
        positions = positions.cpu().numpy()
    try:
        if isinstance(positions, np.ndarray):
            return positions.astype(np.int64, copy=False).reshape(-1)
        return np.array([_MISSING if one is None else int(one) for one in positions], dtype=np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BufferArgumentError(f"replay_buffer_idx must be slot numbers, found {positions!r:.200}") from error


def checked_priorities(
    values: "torch.Tensor | np.ndarray | Sequence[Any]", where: str, error_type: type[Exception] = BufferArgumentError
) -> np.ndarray:
    """Priorities float64 ``[N]`` of a tensor, an array or a list.

    Raises:
        BufferArgumentError: one is negative, NaN or infinite; the message says which. Or another ``error_type``.
    """
    try:
        if isinstance(values, torch.Tensor):
            values = values.detach().cpu().numpy()
        elif isinstance(values, list):
            values = [float(value) if isinstance(value, torch.Tensor) else value for value in values]
        priorities = np.asarray(values, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError) as error:
        raise error_type(f"{where} must be numbers, found {values!r:.200}") from error
    # Several times faster than min and max. Of an array with NaN it is the NaN that they find.
    if not len(priorities) or (priorities[priorities.argmin()] >= 0 and priorities[priorities.argmax()] < math.inf):
        return priorities
    bad = np.flatnonzero(~((priorities >= 0) & (priorities < np.inf)))
    found = {int(i): float(priorities[i]) for i in bad[:_SHOWN]}
    raise error_type(
        f"{where} must be finite and not negative; {len(bad)} of {len(priorities)} are not, by index: {found}"
    )


def read_update(info: Mapping[str, Any], prefix: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Running numbers int64 ``[N]``, slots int64 ``[N]`` and priorities float64 ``[N]``.

    Args:
        info: what ``update`` of a prioritised buffer was given, with the key ``priority``.
        prefix: what the ids of the buffer begin with.

    Raises:
        BufferArgumentError: an entry is missing or not what it should be, or lengths differ.
    """
    missing = [key for key in ("replay_unique_id", "replay_buffer_idx") if key not in info]
    if missing:
        raise BufferArgumentError(f"an update of priorities needs the keys {missing}, found {list(info)}")
    ids = id_numbers(info["replay_unique_id"], prefix)
    slots = slot_numbers(info["replay_buffer_idx"])
    priority = checked_priorities(info["priority"], "priority of the update")
    if not len(ids) == len(slots) == len(priority):
        raise BufferArgumentError(
            f"an update needs as many ids as positions and priorities, found {len(ids)}, {len(slots)} and "
            f"{len(priority)}"
        )
    return ids, slots, priority


def split_rows(
    rows: Rows, count: int, default: float, added: frozenset[str]
) -> "tuple[float | np.ndarray, int | np.ndarray, Rows]":
    """What a buffer needs to know of pushed rows, and the rows without what it adds itself.

    Args:
        rows: columns, or a list of dicts.
        count: number of rows.
        default: priority of rows without one.
        added: fields that the buffer adds.

    Returns:
        Priority and collect iteration (one for all, or arrays ``[count]``), and the rows.

    Raises:
        BufferArgumentError: a priority is negative, NaN or infinite, or there are more or less than rows, or a
            ``collect_iter`` is no number.
    """
    try:
        collected = _collect_iters(rows, count)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise BufferArgumentError(f"collect_iter of the pushed rows must be whole numbers: {error}") from error
    given: Any
    if isinstance(rows, list):
        given = [row.get("priority") for row in rows]
        if any(not added.isdisjoint(row) for row in rows):
            rows = [{key: value for key, value in row.items() if key not in added} for row in rows]
    elif added.isdisjoint(rows):
        return default, collected, rows
    else:
        given = rows.get("priority")
        rows = {key: value for key, value in rows.items() if key not in added}
    if isinstance(given, list):
        given = None if all(one is None for one in given) else [default if one is None else one for one in given]
    if given is None:
        return default, collected, rows
    priority = checked_priorities(given, "priority of the pushed rows")
    if len(priority) != count:
        raise BufferArgumentError(f"{count} rows were pushed with {len(priority)} priorities")
    return priority, collected, rows


def _collect_iters(rows: Rows, count: int) -> "int | np.ndarray":
    """int64 ``[count]`` (or one value for all): key ``collect_iter`` of columns or rows; of a list, the smallest."""
    column = [row.get("collect_iter") for row in rows] if isinstance(rows, list) else rows.get("collect_iter")
    if column is None:
        return UNKNOWN_ITER
    if isinstance(column, torch.Tensor):
        column = column.detach().cpu().numpy()
    if isinstance(column, np.ndarray):
        return (column if column.ndim == 1 else column.reshape(count, -1).min(axis=1)).astype(np.int64, copy=False)
    return np.array([_iter_of(value) for value in column], dtype=np.int64)


def _iter_of(value: "int | Sequence[Any] | torch.Tensor | np.ndarray | None") -> int:
    if value is None:
        return UNKNOWN_ITER
    if isinstance(value, (list, tuple)):
        return min((_iter_of(one) for one in value), default=UNKNOWN_ITER)
    return int(value.min() if isinstance(value, (torch.Tensor, np.ndarray)) else value)  # type: ignore[arg-type]
