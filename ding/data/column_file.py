"""Data sets in columnar files that stay on disk, and so may be larger than memory.

A file is one of :mod:`ding.data.safe_file`; it holds one array per field. A data set is one file, or a folder of files
read in the order of their names; recording in parts adds one file per part.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ding.data.safe_file import SafeFileError, read_tree, write_tree
from ding.data.transition_batch import TransitionBatch
from ding.utils.data._dataset_files import needed_key
from ding.utils.data.dataset import ColumnDataset, DatasetFieldError, DatasetFileError
from ding.utils.nested import iter_leaves
from ding.utils.registry_factory import DATASET_REGISTRY

_KIND = "ding.dataset"


def columns_save(exp_data: Sequence[Any] | Mapping[str, Any] | ColumnDataset, expert_data_path: str) -> None:
    """Write transitions to a file for `ColumnFileDataset`. The folder is created if missing.

    Args:
        exp_data: N transitions as a list of dicts or a ``TransitionBatch``; or their columns ``{field: array [N,
            ...]}``, which are read a part at a time if memory-mapped; or a data set of columns.
        expert_data_path: Path of the file, or a folder, which gets the next file.

    Raises:
        DatasetFieldError: A field is not a numeric array, or fields have different lengths.
    """
    if isinstance(exp_data, ColumnDataset):
        tree = exp_data.rows_at(slice(None))
    elif isinstance(exp_data, Mapping):
        tree = dict(exp_data)
    else:
        tree = TransitionBatch.of(exp_data).columns
    columns: dict[str, np.ndarray] = {}
    for path, leaf in iter_leaves(tree):
        array = leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else leaf
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            raise DatasetFieldError(f"field {path!r} has no form in a columnar file: it is no array of numbers")
        columns[path.replace(".", "/")] = array
    if len({len(array) for array in columns.values()}) > 1:
        lengths = {name: len(array) for name, array in columns.items()}
        raise DatasetFieldError(f"the fields of a data set must have one length, got {lengths}")
    write_tree(expert_data_path, columns, _KIND)


class _JoinedColumn:
    """The concatenated arrays of several files; see :class:`ding.utils.data._dataset_files.Column`."""

    def __init__(self, parts: Sequence[np.ndarray]) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])
        self.dtype = parts[0].dtype
        self.shape = (int(self._ends[-1]), *parts[0].shape[1:])

    def __len__(self) -> int:
        number: int = self.shape[0]
        return number

    def __getitem__(self, rows: Any) -> np.ndarray:
        if isinstance(rows, (int, np.integer)):
            row: np.ndarray = self[np.array([rows])][0]
            return row
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        if (rows < -len(self)).any() or (rows >= len(self)).any():
            raise IndexError(f"a row of {rows.min()} to {rows.max()} of a column of {len(self)} rows")
        rows = np.where(rows < 0, rows + len(self), rows)
        numbers = np.searchsorted(self._ends, rows, side="right")
        found = np.empty((len(rows), *self.shape[1:]), self.dtype)
        for number in np.unique(numbers):
            picked = numbers == number
            begin = self._ends[number] - len(self._parts[number])
            found[picked] = self._parts[number][rows[picked] - begin]
        return found


@DATASET_REGISTRY.register("columns")
class ColumnFileDataset(ColumnDataset):
    """Transitions in columnar files that stay on disk; only the rows of a batch are loaded into memory.

    Opening a file checks its hash and searches its floats for NaN.

    Args:
        cfg: config with ``policy.collect.data_path`` (a file of `columns_save`, or a folder of such files), and
            ``env.norm_obs`` (``use_norm`` and ``offline_stats.use_offline_stats``: observations are standardised).

    Raises:
        DatasetKeyError: no path is given.
        FileNotFoundError: there is no such file, or the folder is empty.
        DatasetFileError: a file is truncated, was changed, or is no columnar file.
        DatasetFieldError: files of a folder with different fields, dtypes or shapes.
        DatasetValueError: NaN or infinity.
    """

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        path = needed_key(cfg, "policy.collect.data_path")
        parts = {file: _open(file) for file in _files(path)}
        first, *others = parts
        for file in others:
            _check_same(parts[first], parts[file], first, file)
        joined = parts[first]
        if others:
            joined = {name: _JoinedColumn([part[name] for part in parts.values()]) for name in joined}  # type: ignore[misc]
        super().__init__(joined, where=path)
        self._set_statistics(cfg)


def _files(path: str) -> list[str]:
    if not os.path.isdir(path):
        if not os.path.isfile(path):
            raise FileNotFoundError(f"there is no data file {path}")
        return [path]
    # Unfinished files have another name.
    files = sorted(entry.path for entry in os.scandir(path) if entry.is_file() and not entry.name.endswith(".tmp"))
    if not files:
        raise FileNotFoundError(f"there is no data file in the folder {path}")
    return files


def _open(file: str) -> dict[str, np.ndarray]:
    try:
        columns: dict[str, np.ndarray] = read_tree(file, _KIND, mapped=True)
    except SafeFileError as error:
        raise DatasetFileError(str(error)) from error
    return columns


def _check_same(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray], first: str, file: str) -> None:
    forms = [{name: (str(array.dtype), array.shape[1:]) for name, array in part.items()} for part in (one, other)]
    if forms[0] != forms[1]:
        name = next(iter(sorted(name for name, form in (forms[0].items() ^ forms[1].items()))))
        raise DatasetFieldError(
            f"{file}: field {name!r} is {forms[1].get(name, 'missing')}, but {forms[0].get(name, 'missing')} in {first}"
        )
