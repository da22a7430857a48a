"""Demonstrations for reward models."""

import torch

from ding.data import TransitionBatch
from ding.utils.data.dataset import NaiveRLDataset


def read_demonstrations(path: str, max_count: int | None = None) -> TransitionBatch:
    """Return the transitions of a file written by ``collect_demo_data``; if there are more than ``max_count``, a random
    subset.

    Raises:
        FileNotFoundError: The file is missing.
        ValueError: The file contains no transitions.
    """
    rows = NaiveRLDataset(path)[:]
    if not rows:
        raise ValueError(f"{path} holds no transitions")
    batch = TransitionBatch.from_rows(rows)
    if max_count is None or len(batch) <= max_count:
        return batch
    return batch[torch.randperm(len(batch))[:max_count].numpy()]
