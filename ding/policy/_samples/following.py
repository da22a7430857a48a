"""Fields that a sample gets from the steps after it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from ding.data import TransitionBatch, batched
from ding.data.roles import Samples
from ding.rl_utils import get_train_sample
from ding.rl_utils.following import following_in_segments


class FollowingFields(ABC):
    """What a policy has whose samples get fields from later steps: those that it collects segment by segment, and
    those of a data set all at once.
    """

    _unroll_len: int

    @abstractmethod
    def _following_fields(self, columns: Mapping[str, Any], following: np.ndarray) -> dict[str, np.ndarray]:
        """Return these fields, each ``[N, ...]``.

        Args:
            columns: ``action``, ``reward`` and ``done`` of N rows, arrays or tensors.
            following: the row of the step after each, int64 ``[N]``; -1: it is not known, or the episode ended.
        """

    def fields_of_data_set(self, columns: Mapping[str, Any], following: np.ndarray) -> dict[str, np.ndarray]:
        """Return the fields for all rows of a data set; arguments as those of :meth:`_following_fields`."""
        return self._following_fields(columns, following)

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Sequences of ``collect.unroll_len`` with these fields."""
        batch = TransitionBatch.of(transitions)
        following = following_in_segments(len(batch), batch.lengths)
        return get_train_sample(
            batch.with_columns(**self._following_fields(batch.columns, following)), self._unroll_len
        )
