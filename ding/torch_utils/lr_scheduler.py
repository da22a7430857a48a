"""Learning rate schedules."""

import math
from typing import NamedTuple

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


class LinearDecay(NamedTuple):
    """The learning rates of an optimiser fall linearly over ``epoch_num`` steps to the share ``min_lr_lambda``.

    The number of steps so far is part of the optimiser's parameter groups, so its state dict is that of the schedule.
    """

    rates: tuple[float, ...]
    """At the start, of each parameter group."""
    epoch_num: float
    min_lr_lambda: float

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Set the learning rates of the next epoch."""
        for rate, group in zip(self.rates, optimizer.param_groups):
            group["num_epochs"] = epoch = group.get("num_epochs", 0) + 1
            group["lr"] = rate * self.share(epoch)

    def share(self, epoch: int) -> float:
        """Return the remaining fraction of the learning rates after ``epoch`` steps."""
        return max(1.0 - epoch * (1.0 - self.min_lr_lambda) / self.epoch_num, self.min_lr_lambda)
