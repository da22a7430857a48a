"""Learning rate schedules."""

import math

import torch
from torch.optim.lr_scheduler import LambdaLR


def get_lr_ratio(epoch: int, warmup_epochs: int, learning_rate: float, lr_decay_epochs: int, min_lr: float) -> float:
    """Factor of ``learning_rate`` at ``epoch``: linear from 0, then half a cosine down to ``min_lr``, then constant."""
    if epoch < warmup_epochs:
        return epoch / warmup_epochs
    if epoch >= lr_decay_epochs:
        return min_lr / learning_rate
    progress = (epoch - warmup_epochs) / (lr_decay_epochs - warmup_epochs)
    return (min_lr + 0.5 * (1.0 + math.cos(math.pi * progress)) * (learning_rate - min_lr)) / learning_rate


def cos_lr_scheduler(
    optimizer: torch.optim.Optimizer,
    learning_rate: float,
    warmup_epochs: int = 5,
    lr_decay_epochs: int = 100,
    min_lr: float = 6e-5,
) -> LambdaLR:
    """Cosine decay (Loshchilov and Hutter 2017, arXiv:1608.03983) after a linear warm-up.

    ``learning_rate`` must be the rate the optimizer was built with. Call ``step()`` once per epoch.
    """

    def ratio(epoch: int) -> float:
        return get_lr_ratio(epoch, warmup_epochs, learning_rate, lr_decay_epochs, min_lr)

    return LambdaLR(optimizer, ratio)
