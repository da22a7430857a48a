"""Batches of a data set that fits into memory."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from easydict import EasyDict
from torch.utils.data import Dataset

from ding.framework.context import OfflineRLContext
from ding.framework.middleware._roles import for_roles
from ding.framework.task import Role
from ding.torch_utils.device import use_cuda
from ding.utils import get_rank, get_world_size


@for_roles(Role.LEARNER, Role.FETCHER)
class OfflineMemoryDataFetcher:
    """Writes the next shuffled batch of a data set of tuples to ``ctx.train_data``, as a list with one tensor per
    field.

    The whole data set is stacked at the first call (and moved to the GPU with ``policy.cuda``), so a batch costs one
    gather per field. Each epoch draws every item once, shared among the ranks. Adds the number of items to
    ``trained_env_step``, and counts epochs in ``train_epoch``.

    Args:
        cfg: ``policy.learn.batch_size`` (or ``policy.batch_size``) and ``policy.cuda``.
        dataset: Map-style data set; an item is a tuple of tensors.
    """

    def __init__(self, cfg: EasyDict, dataset: "Dataset[Any]") -> None:
        self._batch_size = cfg.policy.get("learn", {}).get("batch_size", cfg.policy.get("batch_size"))
        self._dataset: Any = dataset
        self._device = "cuda" if use_cuda(cfg.policy.get("cuda", False)) else "cpu"
        self._fields: list[torch.Tensor] = []
        self._epoch = 0
        self._places: Iterator[torch.Tensor] = iter(())

    def __call__(self, ctx: OfflineRLContext) -> None:
        if not self._fields:
            items = [self._dataset[place] for place in range(len(self._dataset))]
            self._fields = [torch.stack(list(field)).to(self._device) for field in zip(*items)]
        places = next(self._places, None)
        if places is None:
            ctx.train_epoch += self._epoch > 0
            self._places = iter(self._shuffled().split(self._batch_size))
            self._epoch += 1
            places = next(self._places)
        ctx.train_data = [field[places] for field in self._fields]
        ctx.trained_env_step += len(places)

    def _shuffled(self) -> torch.Tensor:
        """Return this rank's positions in the order of the epoch, which is equal on all ranks."""
        order = torch.randperm(len(self._fields[0]), generator=torch.Generator().manual_seed(self._epoch))
        return order[get_rank() :: get_world_size()].to(self._device)


def offline_data_fetcher_from_mem(cfg: EasyDict, dataset: "Dataset[Any]") -> Callable[[OfflineRLContext], None]:
    """Return an :class:`OfflineMemoryDataFetcher`."""
    return OfflineMemoryDataFetcher(cfg, dataset)
