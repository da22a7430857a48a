"""Batches from a data set instead of a collector, and checks of the data set against the policy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from ding.config import ConfigValueError
from ding.data import TransitionBatch
from ding.data.roles import Samples
from ding.entry.serial.loop import DataPath
from ding.entry.serial.parts import SerialParts
from ding.entry.serial.shape_check import is_our_network
from ding.policy import Policy
from ding.policy._samples.following import FollowingFields
from ding.policy.action_kind import as_tuple, is_shape
from ding.utils import SeedTree, get_rank, get_world_size
from ding.utils.data.dataset import ColumnDataset, DatasetFieldError

#: Fields of a usual transition.
TRANSITION = ("obs", "next_obs", "action", "reward", "done")


class DrawnRows:
    """Batches of successive epochs of a data set, each with every row once.

    The order of an epoch depends only on the seed and its number. Several ranks share every batch.

    Args:
        dataset: Map-style data set. With ``rows_at`` batches are columns, otherwise lists of its items.
        seed: Seed of the run.
        batch_size: Rows of a batch, over all ranks.
        whole: Whether the rows after the last whole batch of an epoch are skipped; otherwise they form a smaller batch.

    Raises:
        ConfigValueError: There are fewer rows than a batch needs, or fewer rows in a batch than ranks.
    """

    def __init__(self, dataset: Dataset[Any], seed: int, batch_size: int, whole: bool = False) -> None:
        self._dataset, self._seeds = dataset, SeedTree(seed)
        self._rank, self._ranks = get_rank(), get_world_size()
        self._count = len(dataset)  # type: ignore[arg-type]
        self._share = batch_size // self._ranks
        if self._count < (batch_size if whole else 1) or self._share == 0:
            raise ConfigValueError(
                f"cannot draw batches of {batch_size} rows for {self._ranks} ranks from a data set of {self._count} "
                "rows"
            )
        batches = self._count / (self._share * self._ranks)
        self.batches_per_epoch = math.floor(batches) if whole else math.ceil(batches)
        self._order: tuple[int, np.ndarray] = (-1, np.empty(0, np.int64))

    def batch(self, number: int) -> Samples:
        """Return the batch with this number, counted from 0 over all epochs."""
        epoch, place = divmod(number, self.batches_per_epoch)
        if self._order[0] != epoch:
            self._order = (epoch, self._shuffled(epoch))
        return self._rows(self._order[1][place * self._share : (place + 1) * self._share])

    def _shuffled(self, epoch: int) -> np.ndarray:
        """Return the rows of this rank in the order of an epoch; for equal shares, the first rows may occur twice."""
        order = np.arange(self._count, dtype=np.int32 if self._count < 2**31 else np.int64)
        np.random.default_rng(self._seeds.sequence("dataset", index=epoch)).shuffle(order)
        missing = -len(order) % self._ranks
        return np.concatenate([order, order[:missing]])[self._rank :: self._ranks] if self._ranks > 1 else order

    def _rows(self, places: np.ndarray) -> Samples:
        dataset = self._dataset
        if hasattr(dataset, "rows_at"):
            return TransitionBatch.unchecked(dataset.rows_at(places.astype(np.int64)), len(places))
        return [dataset[place] for place in places.tolist()]


class OfflinePath(DataPath):
    """Samples every row of a data set once per epoch, one batch of ``policy.learn.batch_size`` per pass; a resumed run
    gets the same batches.

    Args:
        parts: Workers of the run; no collector is needed.
        dataset: See :class:`DrawnRows`, also for errors.
    """

    def __init__(self, parts: SerialParts, dataset: Dataset[Any]) -> None:
        self._learner = parts.learner
        self._drawn = DrawnRows(dataset, parts.cfg.seed, int(parts.learner.policy.get_attribute("batch_size")))
        self.batches_per_epoch = self._drawn.batches_per_epoch
        self._number = 0

    def prepare(self) -> None:
        self._number = self._learner.train_iter

    def collect(self) -> None:
        return

    def batches(self) -> Iterator[Samples]:
        self._number += 1
        yield self._drawn.batch(self._number - 1)


def complete_data_set(policy: Policy, dataset: object) -> tuple[str, ...]:
    """Add the fields that a policy derives from later steps of the data; return their names.

    Raises:
        ConfigValueError: The rows of the data set are not columns.
    """
    if not isinstance(policy, FollowingFields):
        return ()
    if not isinstance(dataset, ColumnDataset):
        raise ConfigValueError(
            f"policy.collect.data_type: {policy.cfg.type.removesuffix('_command')} needs a data set of columns "
            f"('columns', 'hdf5', 'd4rl' or 'minari'), not a {type(dataset).__name__}"
        )
    fields = policy.fields_of_data_set(dataset.fields_at("action", "reward", "done"), dataset.following_rows())
    dataset.add_fields(fields)
    return tuple(fields)


def check_data_set(
    policy_cls: type[Policy], model_cfg: Mapping[str, Any], dataset: object, continuous: bool = False
) -> None:
    """Compare the columns of a data set with ``policy.model`` and with the fields that the policy learns from.

    Only columnar data sets and built-in networks are checked.

    Args:
        policy_cls: Policy class; its attribute ``learn_fields`` names the required fields, if they differ from those of
            a usual transition.
        model_cfg: ``cfg.policy.model``.
        dataset: Data set.
        continuous: Whether the actions are continuous, if the data set does not show it.

    Raises:
        DatasetFieldError: A field is missing or has another shape, or discrete actions are out of range.
    """
    if not isinstance(dataset, ColumnDataset) or not is_our_network(policy_cls, model_cfg):
        return
    shapes = dataset.row_shapes
    fields = {name.partition("/")[0] for name in shapes}
    for name in getattr(policy_cls, "learn_fields", TRANSITION):
        if name not in fields:
            raise DatasetFieldError(f"{policy_cls.__name__} learns from the field {name!r}, which the data set lacks")
    wanted = model_cfg.get("obs_shape")
    for name in ("obs", "next_obs"):
        if name in shapes and is_shape(wanted) and as_tuple(wanted) != shapes[name]:
            raise DatasetFieldError(
                f"rows of {name!r} have the shape {shapes[name]}, but policy.model.obs_shape is {wanted}"
            )
    count = model_cfg.get("action_shape")
    if "action" not in shapes or not isinstance(count, int):
        return
    if continuous or dataset.action_bounds is not None:
        if shapes["action"] != (count,) and not (continuous and count == 1 and shapes["action"] == ()):
            raise DatasetFieldError(
                f"continuous actions of the shape {shapes['action']} do not fit policy.model.action_shape, {count}"
            )
    elif len(dataset):
        low, high = dataset.action_range
        if not 0 <= low <= high < count:
            raise DatasetFieldError(f"discrete actions are {low} to {high}, but policy.model.action_shape is {count}")
