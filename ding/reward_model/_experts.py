"""Demonstrations that reward models learn from."""

import torch

from ding.data import TransitionBatch
from ding.utils.data.dataset import NaiveRLDataset


def read_demonstrations(path: str, max_count: int | None = None) -> TransitionBatch:
    """Return the transitions of a file that ``collect_demo_data`` wrote; ``max_count`` of them at random when there
    are more.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it holds no transitions.
    """
    rows = NaiveRLDataset(path)[:]
    if not rows:
        raise ValueError(f"{path} holds no transitions")
    batch = TransitionBatch.from_rows(rows)
    if max_count is None or len(batch) <= max_count:
        return batch
    return batch[torch.randperm(len(batch))[:max_count].numpy()]
