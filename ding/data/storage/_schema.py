"""What one field of a ring storage holds, and the checks of what is written to it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ding.data.columns import Leaf, SchemaError, describe_leaf
from ding.utils import did_you_mean
from ding.utils.nested import iter_leaves, iter_paths

TENSOR, ARRAY, OBJECTS = "tensor", "array", "objects"

# Torch dtypes without a numpy form are stored as the integers of the same size.
_AS_INT = {torch.bfloat16: torch.int16}
_INT_OF = {torch.bfloat16: np.dtype(np.int16)}
_RECAST = {"bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Field:
    """One leaf of the rows.

    Args:
        path: keys from the row to the leaf.
        kind: ``'tensor'``, ``'array'`` or ``'objects'``: what the leaf of a batch that is read will be.
        dtype: of the stored array; ``None`` for objects.
        shape: of one row; ``()`` for objects.
        recast: torch dtype to view the stored integers as, for dtypes that numpy does not have.
    """

    path: tuple[str, ...]
    kind: str
    dtype: "np.dtype | None"
    shape: tuple[int, ...]
    recast: torch.dtype | None = None

    @property
    def name(self) -> str:
        """Keys joined by ``.``, for messages and files."""
        return ".".join(map(str, self.path))

    @property
    def row_bytes(self) -> int:
        """Bytes of one row; 0 for objects."""
        return 0 if self.dtype is None else self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))

    @property
    def stored_dtype(self) -> np.dtype:
        """The dtype of a field that is no field of objects."""
        assert self.dtype is not None
        return self.dtype

    def describe(self) -> str:
        """Kind, dtype and row shape, for messages."""
        if self.dtype is None:
            return "objects"
        return f"{self.kind} {self.recast or self.dtype}{list(self.shape)}".replace("torch.", "")

    def to_dict(self) -> dict[str, Any]:
        """JSON form; see :func:`field_from_dict`."""
        return {
            "path": list(self.path),
            "kind": self.kind,
            "dtype": None if self.dtype is None else self.dtype.str,
            "shape": list(self.shape),
            "recast": None if self.recast is None else str(self.recast).removeprefix("torch."),
        }

    def check(self, leaf: "Leaf | Mapping[str, Any]", rows: int) -> np.ndarray | list[Any]:
        """Return the leaf as what is stored: an array ``[rows, *shape]`` of the stored dtype, or a list.

        Accepts an array where tensors were stored and the other way round, and numbers of a dtype that casts without
        loss where scalars are stored.

        Raises:
            SchemaError: the leaf does not fit; the message names field, expectation and find.
        """
        if self.kind == OBJECTS:
            return _as_list(leaf)
        if isinstance(leaf, (list, Mapping)):
            raise SchemaError(f"field {self.name!r} is {describe_leaf(leaf)}, the buffer stores {self.describe()}")
        array = _as_array(leaf, self.name)
        if array.shape != (rows, *self.shape):
            raise SchemaError(
                f"field {self.name!r} is {describe_leaf(leaf)} with {len(array)} rows, "
                f"the buffer stores {self.describe()} and needs {rows}"
            )
        if array.dtype != self.dtype or _recast_of(leaf) != self.recast:
            if array.dtype.newbyteorder("=") == self.dtype and not self.recast:
                return array.astype(self.dtype)
            # A whole number where fractions are stored is what plain dicts are full of.
            if self.recast or self.shape or _recast_of(leaf) or not np.can_cast(array.dtype, self.stored_dtype, "safe"):
                raise SchemaError(f"field {self.name!r} is {describe_leaf(leaf)}, the buffer stores {self.describe()}")
            cast = array.astype(self.dtype)
            if not np.array_equal(cast.astype(array.dtype), array):
                raise SchemaError(f"field {self.name!r} has whole numbers beyond what {self.describe()} holds exactly")
            return cast
        return array

    def restore(self, array: np.ndarray) -> np.ndarray | torch.Tensor:
        """What was stored, as the leaf of a batch."""
        if self.kind != TENSOR:
            return array
        tensor = torch.from_numpy(array)
        return tensor if self.recast is None else tensor.view(self.recast)


def field_from_dict(data: Mapping[str, Any]) -> Field:
    """Return the inverse of :meth:`Field.to_dict`.

    Raises:
        SchemaError: the description is not a sound one.
    """
    try:
        path, kind, shape = tuple(data["path"]), data["kind"], tuple(int(size) for size in data["shape"])
        dtype = None if data["dtype"] is None else np.dtype(data["dtype"])
        recast = None if data["recast"] is None else _RECAST[data["recast"]]
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise SchemaError(f"unreadable description of a field: {data!r}") from error
    sound = path and kind in (TENSOR, ARRAY, OBJECTS) and (dtype is None) == (kind == OBJECTS)
    if not sound or (dtype and dtype.hasobject) or (recast and dtype != _INT_OF[recast]):
        raise SchemaError(f"unreadable description of a field: {data!r}")
    return Field(path, kind, dtype, shape, recast)


def fields_of(columns: dict[str, Any]) -> tuple[Field, ...]:
    """Return the fields of columns, in their order.

    Raises:
        SchemaError: there is no column.
    """
    fields = tuple(_field_of(path, leaf) for path, leaf in iter_paths(columns))
    if not fields:
        raise SchemaError("rows without fields cannot be stored as columns")
    return fields


def dig(columns: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return the leaf at the end of these keys."""
    value = columns
    for key in path:
        value = value[key]
    return value


def nested(leaves: Iterable[tuple[Field, Any]]) -> dict[str, Any]:
    """Leaves by field as nested columns."""
    result: dict[str, Any] = {}
    for field, leaf in leaves:
        inner = result
        for key in field.path[:-1]:
            inner = inner.setdefault(key, {})
        inner[field.path[-1]] = leaf
    return result


def _field_of(path: tuple[str, ...], leaf: Leaf) -> Field:
    if isinstance(leaf, torch.Tensor):
        try:
            stored = _as_array(leaf[:0], "")
        except (RuntimeError, SchemaError):
            return Field(path, OBJECTS, None, ())
        return Field(path, TENSOR, stored.dtype, tuple(leaf.shape[1:]), _recast_of(leaf))
    if isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject:
        return Field(path, ARRAY, leaf.dtype.newbyteorder("="), leaf.shape[1:])
    return Field(path, OBJECTS, None, ())


def _recast_of(leaf: object) -> torch.dtype | None:
    dtype = getattr(leaf, "dtype", None)
    return dtype if dtype in _AS_INT else None


def _as_array(leaf: "torch.Tensor | np.ndarray", name: str) -> np.ndarray:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    try:
        return (leaf.detach().view(_AS_INT[leaf.dtype]) if leaf.dtype in _AS_INT else leaf).numpy(force=True)
    except (RuntimeError, TypeError) as error:
        # Eight-bit floats, sparse tensors, those of the device "meta".
        raise SchemaError(f"field {name!r} is {describe_leaf(leaf)}, which has no form as an array: {error}") from error


def _as_list(leaf: "Leaf | Mapping[str, Any]") -> list[Any]:
    """Return the rows of a column, which share no memory with it."""
    if isinstance(leaf, torch.Tensor):
        return list(leaf.detach().clone().unbind(0))
    if isinstance(leaf, np.ndarray):
        return leaf.tolist() if leaf.ndim == 1 else list(leaf.copy())
    return list(leaf)


def check_paths(fields: tuple[Field, ...], columns: dict[str, Any]) -> None:
    """Raise a :class:`SchemaError` that names the missing and extra fields, if there are any."""
    wanted = {field.name for field in fields}
    found = {path for path, _ in iter_leaves(columns)}
    if wanted == found:
        return
    missing, extra = sorted(wanted - found), sorted(found - wanted)
    hint = did_you_mean(extra[0], missing) if extra and missing else ""
    raise SchemaError(
        f"the rows differ from those in the buffer: missing fields {missing}, extra fields {extra}.{hint}"
    )


def check_values(fields: tuple[Field, ...], columns: dict[str, Any], count: int) -> None:
    """Raise what :meth:`Field.check` raises for columns of ``count`` rows; fields may be left out."""
    found = dict(iter_paths(columns))
    for field in fields:
        if field.path in found and field.kind != OBJECTS:
            field.check(found[field.path], count)
