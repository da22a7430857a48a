"""The data plane: transitions and per-environment values as columns that look like lists and dicts.

Exceptions::

    DataError
    └── SchemaError (ValueError)    rows or columns that do not fit together
"""

from ding.data.batched import batched, is_batched
from ding.data.columns import DataError, SchemaError
from ding.data.env_batch import BaseEnvTimestep, EnvBatch, TimestepBatch
from ding.data.trajectory_store import TrajectoryStore
from ding.data.transition_batch import TransitionBatch

__all__ = [
    "BaseEnvTimestep",
    "DataError",
    "EnvBatch",
    "SchemaError",
    "TimestepBatch",
    "TrajectoryStore",
    "TransitionBatch",
    "batched",
    "is_batched",
]
