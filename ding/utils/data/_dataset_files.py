"""Files of data sets: HDF5 and lists of transitions, and their errors.

Exceptions::

    DatasetError (ValueError)
    ├── DatasetFileError     the file is truncated, or has another format
    ├── DatasetFieldError    a field is missing, or has the wrong length, shape or type
    ├── DatasetKeyError (KeyError)  a key of the config is missing
    └── DatasetValueError    NaN or infinity in a field
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from ding.utils.errors import UserMistake
from ding.utils.file_helper import atomic_write, save_file
from ding.utils.import_helper import require_extra
from ding.utils.names import check_choice, did_you_mean

Arrays = dict[str, np.ndarray]

_HDF5_KEYS = ("obs", "action", "reward", "done", "next_obs")
# Bytes of a column processed at a time: a data set may be larger than memory.
_PART_BYTES = 1 << 20


class DatasetError(ValueError, UserMistake):
    """A data set cannot be used for training; the message names the file or field."""


class DatasetKeyError(DatasetError, KeyError):
    """A config key required by a data set is missing. ``str()`` is the plain message, without quotes."""

    def __str__(self) -> str:
        return str(self.args[0])


class DatasetFileError(DatasetError):
    """The file is truncated or has another format."""


class DatasetFieldError(DatasetError):
    """A field is missing, or has the wrong length, shape or type."""


class DatasetValueError(DatasetError):
    """A field holds NaN or infinity."""


class Column(Protocol):
    """An array ``[N, ...]``, or several files' arrays that are read as one."""

    @property
    def dtype(self) -> np.dtype:
        """dtype of the elements."""

    @property
    def shape(self) -> tuple[int, ...]:
        """``(N, ...)``."""

    def __len__(self) -> int:
        """Return N."""

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Return one row, or the rows of a slice or an int64 array of positions."""


def parts_of(column: Column) -> Iterator[tuple[int, np.ndarray]]:
    """Yield ``(first row, rows)`` for parts of a column that fit in memory."""
    row_bytes = column.dtype.itemsize * int(np.prod(column.shape[1:], dtype=np.int64))
    step = max(1, _PART_BYTES // max(1, row_bytes))
    for begin in range(0, len(column), step):
        yield begin, column[begin : begin + step]


def check_columns(columns: Mapping[str, Column], needed: Sequence[str], where: str) -> int:
    """Return the number of rows of the columns of a data set.

    Args:
        columns: Field name -> column.
        needed: Required fields.
        where: File or kind of the data set, for messages.

    Raises:
        DatasetFieldError: A required field is missing, or fields have different lengths.
        DatasetValueError: A float column holds NaN or infinity; the message names the first such row.
    """
    for name in needed:
        if name not in columns:
            raise DatasetFieldError(f"{where}: there is no field {name!r}.{did_you_mean(name, columns)}")
    for name, column in columns.items():
        if not column.shape:
            raise DatasetFieldError(f"{where}: field {name!r} is a single value, expected one for each row")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DatasetFieldError(f"{where}: the arrays of a data set must have one length, got {lengths}")
    for name, column in columns.items():
        if getattr(column.dtype, "kind", "") == "f":
            for begin, rows in parts_of(column):
                # The sum is finite if all rows are, except on overflow.
                if not np.isfinite(np.sum(rows, dtype=np.float64)):
                    wrong = ~np.isfinite(rows).reshape(len(rows), -1).all(1)
                    if wrong.any():
                        row = begin + int(wrong.argmax())
                        raise DatasetValueError(f"{where}: field {name!r} holds NaN or infinity in row {row}")
    return next(iter(lengths.values()), 0)


def mean_and_std(column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and standard deviation over the rows, float32 ``[...]`` each, with few rows in memory at a
    time.
    """
    shape = column.shape[1:]
    total, squares, count = np.zeros(shape), np.zeros(shape), max(1, len(column))
    for _, rows in parts_of(column):
        total += rows.sum(0, dtype=np.float64)
    mean = total / count
    for _, rows in parts_of(column):
        squares += np.square(rows - mean).sum(0)
    return mean.astype(np.float32), np.sqrt(squares / count).astype(np.float32)


def grouped(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields named ``group/name`` as ``{group: {name: ...}}``."""
    tree: dict[str, Any] = {}
    for name, value in rows.items():
        *groups, leaf = name.split("/")
        branch = tree
        for group in groups:
            branch = branch.setdefault(group, {})
        branch[leaf] = value
    return tree


def action_bounds(action: Column, low: ArrayLike, high: ArrayLike) -> np.ndarray | None:
    """Return the bounds ``[2, d]`` of continuous actions, widened by 5 % of their range within ``low`` and ``high``."""
    if action.dtype.kind != "f" or not len(action):
        return None
    ends = [(rows.min(0), rows.max(0)) for _, rows in parts_of(action)]
    smallest, largest = np.min([one for one, _ in ends], 0), np.max([one for _, one in ends], 0)
    margin = 0.05 * (largest - smallest)
    found: np.ndarray | None = np.clip(np.stack([smallest - margin, largest + margin]), low, high).astype(np.float32)
    return found


def read_hdf5(path: str) -> Arrays:
    """Return all numeric arrays of an HDF5 file; arrays in groups are named ``group/name``.

    Raises:
        MissingExtraError: h5py is not installed.
        FileNotFoundError: There is no such file.
        DatasetFileError: The file is truncated or not HDF5.
    """
    h5py = require_extra("h5py", "hdf5")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no data file {path}")
    arrays: Arrays = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None and item.dtype.kind in "biuf":
            arrays[name] = item[()]

    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
    except (OSError, RuntimeError, KeyError) as error:
        raise DatasetFileError(f"{path} is truncated, damaged or no HDF5 file: {error}") from error
    return arrays


def naive_save(exp_data: Sequence[Any], expert_data_path: str) -> None:
    """Write transitions to a file that ``NaiveRLDataset`` reads. Its folder must exist."""
    save_file(expert_data_path, list(exp_data))


def hdf5_save(exp_data: Sequence[Any], expert_data_path: str) -> None:
    """Write ``obs, action, reward, done, next_obs`` of transitions to ``<expert_data_path>_demos.hdf5``.

    Args:
        exp_data: N transitions with arrays, tensors or numbers.
        expert_data_path: Path prefix; a suffix ``.pkl`` is removed. The folder must exist.

    Raises:
        MissingExtraError: h5py is not installed.
        TypeError: A value is not a numeric array (``data_type='naive'`` takes such transitions).
    """
    h5py = require_extra("h5py", "hdf5")
    arrays = {key: _stacked(exp_data, key) for key in _HDF5_KEYS}
    for key in ("obs", "next_obs", "reward"):
        arrays[key] = arrays[key].astype(np.float32)
    arrays["done"] = arrays["done"].astype(np.bool_).reshape(len(exp_data))
    path = f"{expert_data_path.removesuffix('.pkl')}_demos.hdf5"
    with atomic_write(path) as whole, h5py.File(whole, "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array, compression="gzip")


def _stacked(transitions: Sequence[Any], key: str) -> np.ndarray:
    try:
        array = np.stack([np.asarray(one[key]) for one in transitions])
    except ValueError as error:
        raise TypeError(f"hdf5 stores transitions of one shape; {key!r} has several ({error})") from error
    if array.dtype.kind not in "biuf":
        raise TypeError(f"hdf5 stores arrays of numbers; {key!r} is none: save these with data_type='naive'")
    return array


# The columnar format uses TransitionBatch, which belongs to a higher layer.
_SAVERS = {"naive": f"{__name__}:naive_save", "hdf5": f"{__name__}:hdf5_save", "columns": "ding.data:columns_save"}


def offline_data_save_type(exp_data: Sequence[Any], expert_data_path: str, data_type: str = "naive") -> None:
    """Write transitions in the format that the data set of type ``data_type`` reads.

    Raises:
        KeyError: The format is unknown.
    """
    check_choice("data_type", data_type, _SAVERS, KeyError)
    module, _, name = _SAVERS[data_type].partition(":")
    saver = cast(Callable[[Sequence[Any], str], None], getattr(importlib.import_module(module), name))
    saver(exp_data, expert_data_path)


def needed_key(cfg: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path such as ``policy.collect.data_path``.

    Raises:
        DatasetKeyError: The key is missing.
    """
    value = cfg
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise DatasetKeyError(f"the data set needs the config key {path}, which is missing")
        value = value[name]
    return value
