"""Batches out of samples: collate functions, the prefetching loader, and data sets."""

from ding.utils import DATASET_REGISTRY
from ding.utils.exports import lazy_exports, register_lazily

# Optional dependencies: imported when such a data set is built.
for _name, _home in {
    "naive": "dataset:NaiveRLDataset",
    "hdf5": "dataset:HDF5Dataset",
    "d4rl": "dataset:D4RLDataset",
    "minari": "dataset:MinariDataset",
    "bco": "dataset:BCODataset",
    "d4rl_trajectory": "_trajectories:D4RLTrajectoryDataset",
    "d4rl_diffuser": "_trajectories:D4RLDiffuserDataset",
    "diffuser_traj": "_trajectories:SequenceDataset",
}.items():
    register_lazily(DATASET_REGISTRY, _name, f"ding.utils.data.{_home}")

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
