"""Transitions that can be told apart."""

import numpy as np
import torch

from ding.data import TransitionBatch


def batch(first, count, lengths=None):
    """``count`` transitions that are all derived from one running number."""
    numbers = torch.arange(first, first + count)
    return TransitionBatch(
        {
            "obs": numbers.float()[:, None] * torch.ones(3),
            "next_obs": (numbers + 1).float()[:, None] * torch.ones(3),
            "action": numbers[:, None] % 2,
            "reward": numbers.float()[:, None],
            "done": (numbers.numpy() % 10 == 9),
        },
        lengths,
    )


def row(number):
    """One such transition as a dict."""
    return dict(batch(number, 1)[0])


def numbers(sampled):
    """The running numbers of sampled transitions."""
    if isinstance(sampled, TransitionBatch):
        return sampled.columns["reward"].reshape(-1).long().tolist()
    return [int(np.asarray(one["reward"]).reshape(-1)[0]) for one in sampled]
