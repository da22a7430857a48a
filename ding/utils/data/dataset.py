"""Data sets of transitions for offline training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils.data import Dataset

from ding.utils.default_helper import did_you_mean
from ding.utils.file_helper import read_file, save_file
from ding.utils.import_helper import import_module
from ding.utils.registry_factory import DATASET_REGISTRY


@DATASET_REGISTRY.register("naive")
class NaiveRLDataset(Dataset[Any]):
    """Transitions held in memory.

    Args:
        cfg: a list of transitions, the path of a file that ``naive_save`` wrote, or a compiled config that has such a
            path as ``policy.collect.data_path``.
    """

    def __init__(self, cfg: list[Any] | str | Mapping[str, Any]) -> None:
        if isinstance(cfg, list):
            self._data = cfg
            return
        path = cfg if isinstance(cfg, str) else cfg["policy"]["collect"]["data_path"]
        data = read_file(path)
        if not isinstance(data, list):
            raise TypeError(f"{path} holds a {type(data).__name__}, expected a list of transitions")
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> Any:
        return self._data[index]


def create_dataset(cfg: Mapping[str, Any], **kwargs: Any) -> Dataset[Any]:
    """The data set of type ``cfg.policy.collect.data_type``; ``cfg.policy.collect.import_names`` are imported first.

    Raises:
        KeyError: the type is not registered.
    """
    collect = cfg["policy"]["collect"]
    import_module(collect.get("import_names") or [])
    return DATASET_REGISTRY.build(collect["data_type"], cfg=cfg, **kwargs)


def naive_save(exp_data: Sequence[Any], expert_data_path: str) -> None:
    """Write transitions to a file that ``NaiveRLDataset`` reads. Its folder must exist."""
    save_file(expert_data_path, list(exp_data))


_SAVERS = {"naive": naive_save}


def offline_data_save_type(exp_data: Sequence[Any], expert_data_path: str, data_type: str = "naive") -> None:
    """Write transitions in the format ``data_type``.

    Raises:
        KeyError: no such format.
    """
    if data_type not in _SAVERS:
        raise KeyError(f"unknown data_type {data_type!r}.{did_you_mean(data_type, _SAVERS)}")
    _SAVERS[data_type](exp_data, expert_data_path)
