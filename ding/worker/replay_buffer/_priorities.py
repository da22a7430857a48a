"""Ids and priorities: how they come in, and how they look in a sample."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ding.worker.replay_buffer.errors import BufferArgumentError

_MISSING = -1
_LARGEST = int(np.iinfo(np.int64).max)
_SHOWN = 10


class UniqueIds(np.ndarray):
    """int64 column of running numbers whose rows are the texts ``<name>_<number>``.

    Making the texts costs more than sampling, so they are made when rows (or a list) are asked for.
    """

    prefix: str

    def __array_finalize__(self, source: Any) -> None:
        self.prefix = getattr(source, "prefix", "")

    def __reduce__(self) -> Any:
        return unique_ids, (np.asarray(self), self.prefix)

    def tolist(self) -> Any:
        """The texts."""
        if self.ndim != 1:
            return np.asarray(self).tolist()
        prefix = self.prefix
        return [f"{prefix}_{number}" for number in np.asarray(self).tolist()]


def unique_ids(numbers: np.ndarray, prefix: str) -> UniqueIds:
    """``numbers`` (int64 ``[N]``, shared) as ids of the buffer ``prefix``."""
    ids = numbers.view(UniqueIds)
    ids.prefix = prefix
    return ids


def id_numbers(ids: Any, prefix: str) -> np.ndarray:
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


def _id_number(one: Any, prefix: str) -> int:
    if isinstance(one, str):
        name, _, number = one.rpartition("_")
        # A number of more digits may not fit; there has never been such an id.
        return int(number) if name == prefix and number.isdecimal() and len(number) <= 18 else _MISSING
    return int(one) if isinstance(one, (int, np.integer)) and 0 <= one <= _LARGEST else _MISSING


def slot_numbers(positions: Any) -> np.ndarray:
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


def checked_priorities(values: Any, where: str) -> tuple[np.ndarray, float]:
    """Priorities float64 ``[N]`` of a tensor, an array or a list, and the largest of them (0 of none).

    Raises:
        BufferArgumentError: one is negative, NaN or infinite; the message tells which.
    """
    try:
        priorities = _float_array(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise BufferArgumentError(f"{where} must be numbers, found {values!r:.200}") from error
    if not len(priorities):
        return priorities, 0.0
    # Several times faster than min and max. Of an array with NaN it is the NaN that they find.
    smallest, largest = priorities.item(priorities.argmin()), priorities.item(priorities.argmax())
    if smallest >= 0 and largest < math.inf:
        return priorities, largest
    bad = np.flatnonzero(~((priorities >= 0) & (priorities < np.inf)))
    found = {int(i): float(priorities[i]) for i in bad[:_SHOWN]}
    raise BufferArgumentError(
        f"{where} must be finite and not negative; {len(bad)} of {len(priorities)} are not, by index: {found}"
    )


def _float_array(values: Any) -> np.ndarray:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    elif isinstance(values, list):
        try:
            # Takes anything that is a number, 0-d tensors too, without asking each for its type.
            return np.fromiter(values, np.float64, len(values))
        except (TypeError, ValueError):
            # Some are arrays or tensors of one element.
            values = [float(value) if isinstance(value, torch.Tensor) else value for value in values]
    return np.asarray(values, dtype=np.float64).reshape(-1)


def read_update(info: Mapping[str, Any], prefix: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Running numbers int64 ``[N]``, slots int64 ``[N]``, priorities float64 ``[N]`` and the largest of these.

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
    priority, largest = checked_priorities(info["priority"], "priority of the update")
    if not len(ids) == len(slots) == len(priority):
        raise BufferArgumentError(
            f"an update needs as many ids as positions and priorities, found {len(ids)}, {len(slots)} and "
            f"{len(priority)}"
        )
    return ids, slots, priority, largest
