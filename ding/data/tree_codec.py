"""Nested data as JSON plus a list of arrays.

Every value is a list that begins with a letter: ``v`` plain value, ``d`` dict, ``l`` list, ``t`` tuple, ``a`` array,
``T`` tensor, ``n`` numpy number, ``B`` ``TransitionBatch``. Arrays are referred to by their number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

from ding.data.transition_batch import TransitionBatch
from ding.utils.nested import Tree

_PLAIN = (str, bool, int, float, type(None))
_RECAST = {"bfloat16": (torch.bfloat16, torch.int16)}


@dataclass(frozen=True, eq=False)
class PickedRows:
    """Stands in a tree for ``source[positions]``, which may be larger than memory: a writer takes a slice at a time.

    Args:
        source: array ``[M, *shape]``.
        positions: int64 ``[N]``.
        tensor: a reader finds a tensor.
        recast: torch dtype of that tensor, for those without a numpy form; ``None``: that of ``source``.
    """

    source: np.ndarray
    positions: np.ndarray
    tensor: bool = False
    recast: "torch.dtype | None" = None

    @property
    def dtype(self) -> np.dtype:
        return self.source.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.positions), *self.source.shape[1:])

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Return a copy of these rows."""
        # Unlike ``take`` this makes no copy of a source that is a field of records.
        values: np.ndarray = self.source[self.positions[rows]]
        return values

    def whole(self) -> "np.ndarray | torch.Tensor":
        """Return a copy of all rows, as a reader finds them."""
        array = self[:]
        if not self.tensor:
            return array
        tensor = torch.from_numpy(array)
        return tensor if self.recast is None else tensor.view(self.recast)


# What a writer of trees gets for each array.
ArrayLike: TypeAlias = np.ndarray | PickedRows


def encode_tree(value: Any, arrays: "list[Any]", where: str = "data") -> list[Any]:
    """``value`` as JSON; its arrays (:data:`ArrayLike`) are appended to ``arrays``.

    Raises:
        TypeError: something has no such form; the message says where.
    """
    if type(value) in _PLAIN:
        return ["v", value]
    if isinstance(value, torch.Tensor):
        return _encode_tensor(value, arrays, where)
    if isinstance(value, np.generic):
        return ["n", _add(np.asarray(value), arrays, where)]
    if isinstance(value, np.ndarray):
        return ["a", _add(value, arrays, where)]
    if isinstance(value, PickedRows):
        number = _add(value, arrays, where)
        recast = None if value.recast is None else str(value.recast).removeprefix("torch.")
        return ["T", number, recast] if value.tensor else ["a", number]
    if isinstance(value, TransitionBatch):
        return _encode_batch(value, arrays, where)
    if isinstance(value, Mapping):
        for key in value:
            if type(key) not in (str, int):
                raise TypeError(f"{where} has the key {key!r}; keys must be texts or ints")
        return ["d", [[key, encode_tree(item, arrays, f"{where}[{key!r}]")] for key, item in value.items()]]
    if isinstance(value, (list, tuple)):
        mark = "t" if isinstance(value, tuple) else "l"
        return [mark, [encode_tree(item, arrays, f"{where}[{number}]") for number, item in enumerate(value)]]
    raise TypeError(f"{where} is a {type(value).__name__}; expected tensors, arrays, texts, numbers, dicts or lists")


def _add(array: ArrayLike, arrays: list[Any], where: str) -> int:
    if isinstance(array, np.ma.MaskedArray) or array.dtype.kind not in "biufc":
        raise TypeError(f"{where} is {type(array).__name__} of {array.dtype}; expected an array of numbers")
    if isinstance(array, np.ndarray):
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        array = np.asarray(array)
    arrays.append(array)
    return len(arrays) - 1


def _encode_tensor(tensor: torch.Tensor, arrays: list[Any], where: str) -> list[Any]:
    name = None
    for name_of_dtype, (dtype, as_int) in _RECAST.items():
        if tensor.dtype == dtype:
            name, tensor = name_of_dtype, tensor.detach().view(as_int)
    try:
        arrays.append(tensor.numpy(force=True))
    except (RuntimeError, TypeError) as error:
        raise TypeError(f"{where} is a tensor that has no form as an array: {error}") from error
    return ["T", len(arrays) - 1, name]


def _encode_batch(batch: TransitionBatch, arrays: list[Any], where: str) -> list[Any]:
    try:
        columns = batch.columns
    except ValueError:
        # Rows of different forms.
        return ["l", [encode_tree(row, arrays, f"{where}[{number}]") for number, row in enumerate(batch.rows())]]
    lengths = None if batch.lengths is None else batch.lengths.tolist()
    return ["B", encode_tree(columns, arrays, where), len(batch), lengths]


def decode_tree(code: Any, arrays: list[np.ndarray]) -> Tree:
    """Return the inverse of :func:`encode_tree`.

    Raises:
        LookupError, TypeError, ValueError: ``code`` is not what :func:`encode_tree` makes.
    """
    mark = code[0]
    if mark == "v":
        return code[1]
    if mark == "d":
        return {key: decode_tree(item, arrays) for key, item in code[1]}
    if mark in ("l", "t"):
        items = [decode_tree(item, arrays) for item in code[1]]
        return items if mark == "l" else tuple(items)
    if mark == "a":
        return arrays[code[1]]
    if mark == "n":
        return arrays[code[1]][()]
    if mark == "T":
        tensor = torch.from_numpy(arrays[code[1]])
        return tensor if code[2] is None else tensor.view(_RECAST[code[2]][0])
    if mark == "B":
        columns = decode_tree(code[1], arrays)
        lengths = None if code[3] is None else np.array(code[3], dtype=np.int64)
        return TransitionBatch(columns, lengths) if code[2] else TransitionBatch.from_rows([])
    raise ValueError(f"unknown mark {mark!r}")
