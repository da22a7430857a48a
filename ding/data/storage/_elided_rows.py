"""Rows whose observations are references to frames, as plain data for states and files.

The data are a dict: ``layout`` (``'elided'``), ``rows`` (their number), ``order`` (paths of all fields), ``columns``
(the other fields) and ``pairs``, per deduplicated pair the descriptions of both fields, ``frames`` ``[F, *frame]``
without holes, in the order in which rows first refer to them, and ``slots`` int32 ``[rows, 2 * stack]``. A sequence
buffer adds ``lengths``, those of its episodes.
"""

from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np

from ding.data.columns import SchemaError, check_rows
from ding.data.storage._saved_rows import SavedRows
from ding.data.storage._schema import field_from_dict
from ding.utils.nested import iter_paths

LAYOUT = "elided"


def is_elided(data: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether ``data`` have the form that this module describes (a field of rows is never a text)."""
    return isinstance(data, Mapping) and isinstance(data.get("layout"), str)


class ElidedRows(SavedRows):
    """Reads what :meth:`~ding.data.storage.ColumnStorage.copied` gave; ``columns`` are the fields left as they are.

    Args:
        data: the dict.
        mapped: see :class:`SavedRows`.

    Raises:
        SchemaError: a part is missing, or an index refers to no frame; the message names the field.
    """

    def __init__(self, data: Mapping[str, Any], mapped: bool = False) -> None:
        if data["layout"] != LAYOUT:
            raise SchemaError(f"unknown layout {data['layout']!r} of saved rows, expected {LAYOUT!r}")
        try:
            super().__init__(data["columns"], int(data["rows"]), _lengths(data), mapped)
            self._order = [tuple(path) for path in data["order"]]
            self._fields: dict[Any, tuple[Any, ...]] = {}
            for pair in data["pairs"]:
                self._add_pair(pair)
            check_rows(self.columns, self.count)
            known = {*self._fields, *(path for path, _ in iter_paths(self.columns))}
            if not self._fields or known != set(self._order):
                raise SchemaError(f"saved rows of layout {LAYOUT!r} are damaged: fields and their order differ")
            # What no row can be made of shows up without rows, too.
            self.expand(0, 0)
        except SchemaError:
            raise
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise SchemaError(f"saved rows of layout {LAYOUT!r} are damaged: {error!r}") from error

    def _add_pair(self, pair: Mapping[str, Any]) -> None:
        frames, slots = pair["frames"], pair["slots"]
        for half, name in enumerate(("obs", "next_obs")):
            field = field_from_dict(pair[name])
            frame = frames.shape[1:]
            stack = slots.shape[1] // 2
            fits = field.shape in ((stack, *frame), frame if stack == 1 else None) and frames.dtype == field.dtype
            if slots.shape != (self.count, 2 * stack) or slots.dtype != np.int32 or not fits:
                raise SchemaError(f"saved rows are damaged: frames and indices of {field.name!r} do not fit to it")
            if slots.size and (slots.min() < 0 or slots.max() >= len(frames)):
                raise SchemaError(
                    f"saved rows are damaged: an index of {field.name!r} is {int(slots.min())} or {int(slots.max())}, "
                    f"there are {len(frames)} frames"
                )
            self._fields[field.path] = (field, frames, slots[:, half * stack : (half + 1) * stack])

    def expand(self, begin: int, end: int) -> dict[str, Any]:
        """Return the rows ``begin`` to ``end`` as nested columns in full size."""
        plain = dict(iter_paths(self._part(begin, end)))
        result: dict[str, Any] = {}
        for path in self._order:
            inner = result
            for key in path[:-1]:
                inner = inner.setdefault(key, {})
            inner[path[-1]] = self._observation(path, begin, end) if path in self._fields else plain[path]
        return result

    def _observation(self, path: tuple[str, ...], begin: int, end: int) -> object:
        field, frames, slots = self._fields[path]
        # Not by ``take``, which first copies all frames when these do not lie aligned in the file.
        rows = frames[slots[begin:end].reshape(-1)]
        return field.restore(rows.reshape(end - begin, *field.shape))

    def _row_bytes(self) -> int:
        number: int = super()._row_bytes() + sum(field.row_bytes for field, _, _ in self._fields.values())
        return number


def _lengths(data: Mapping[str, Any]) -> "np.ndarray | None":
    if data.get("lengths") is None:
        return None
    lengths = np.asarray(data["lengths"], dtype=np.int64)
    if lengths.ndim != 1 or (lengths < 1).any() or lengths.sum() != data["rows"]:
        raise SchemaError("saved rows are damaged: the lengths of their segments do not add up to their number")
    return lengths
