"""Batches out of samples: collate functions, the prefetching loader, and data sets."""

from ding.utils.data.collate_fn import (
    default_collate,
    default_decollate,
    diff_shape_collate,
    timestep_collate,
    ttorch_collate,
)
from ding.utils.data.dataloader import AsyncDataLoader, LoaderError
from ding.utils.data.dataset import NaiveRLDataset, create_dataset, naive_save, offline_data_save_type

__all__ = [
    "AsyncDataLoader",
    "LoaderError",
    "NaiveRLDataset",
    "create_dataset",
    "default_collate",
    "default_decollate",
    "diff_shape_collate",
    "naive_save",
    "offline_data_save_type",
    "timestep_collate",
    "ttorch_collate",
]
