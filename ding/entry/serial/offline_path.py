"""Batches of a data set instead of a collector's, and whether the data set fits the policy."""

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

#: The fields of a usual transition.
TRANSITION = ("obs", "next_obs", "action", "reward", "done")


class DrawnRows:
    """Batches that go through a data set again and again, every row once in each epoch.

    The order of an epoch follows from the seed and the number of the epoch alone. Of several ranks each draws its share
    of every batch.

    Args:
        dataset: a map-style data set. One with ``rows_at`` gives batches as columns, any other one lists of its items.
        seed: of the run.
        batch_size: rows of a batch, of all ranks together.
        whole: whether the rows behind the last whole batch of an epoch are left out; else they are a smaller one.

    Raises:
        ConfigValueError: there are fewer rows than a batch needs, or fewer rows in a batch than ranks.
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
        """Return the batch of this number, counted from 0 over all epochs."""
        epoch, place = divmod(number, self.batches_per_epoch)
        if self._order[0] != epoch:
            self._order = (epoch, self._shuffled(epoch))
        return self._rows(self._order[1][place * self._share : (place + 1) * self._share])

    def _shuffled(self, epoch: int) -> np.ndarray:
        """The rows of this rank in the order of an epoch; where the ranks' shares differ, the first rows come twice."""
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
    """Draws every row of a data set once in each epoch, one batch of ``policy.learn.batch_size`` in each pass, so that
    a resumed run draws what it would have drawn.

    Args:
        parts: the workers; no collector is needed.
        dataset: see :class:`DrawnRows`, also for errors.
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
    """Add the fields that a policy wants from later steps of the data; returns their names.

    Raises:
        ConfigValueError: the rows of the data set are no columns.
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

    Only data sets of columns and networks of ours are judged.

    Args:
        policy_cls: the policy class; its attribute ``learn_fields`` names the fields that it needs, where these are
            others than those of a usual transition.
        model_cfg: ``cfg.policy.model``.
        dataset: the data set.
        continuous: whether the actions are continuous, as far as the data set does not show it.

    Raises:
        DatasetFieldError: a field is missing, or has another shape, or discrete actions are out of range.
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
