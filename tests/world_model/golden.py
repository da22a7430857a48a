"""What the golden vectors of world models are made of."""

import math

import numpy as np
import torch

from ding.data import TransitionBatch


def wave(shape, phase=0.0):
    """``sin(0.7 k + phase)`` in row-major order."""
    count = math.prod(shape)
    return torch.from_numpy(np.sin(0.7 * np.arange(count) + phase).reshape(shape).astype(np.float32))


def fill(module, scale):
    """Give the j-th parameter, by name, ``scale * wave(shape, j)``."""
    with torch.no_grad():
        for index, (_, parameter) in enumerate(sorted(module.named_parameters())):
            parameter.copy_(scale * wave(parameter.shape, index))


class Env:
    """Episodes end where the first feature is above 0.5."""

    def termination_fn(self, next_obs):
        return next_obs[:, 0] > 0.5


class Scalars:
    """A writer that keeps its scalars by tag."""

    def __init__(self):
        self.values = {}

    def add_scalar(self, tag, scalar_value, global_step=None):
        self.values[tag] = float(scalar_value)

    def flush(self):
        pass

    def close(self):
        pass


def transitions(count):
    """Transitions of 3 features and 1 action."""
    return TransitionBatch(
        {
            "obs": torch.stack([wave((3,), 0.3 * i) for i in range(count)]),
            "next_obs": torch.stack([wave((3,), 0.3 * i + 0.2) for i in range(count)]),
            "action": torch.stack([0.9 * wave((1,), 0.4 * i) for i in range(count)]),
            "reward": torch.stack([wave((1,), 0.5 * i) for i in range(count)]),
            "done": np.zeros(count, dtype=np.bool_),
        }
    )


class InOrder:
    """A buffer that gives its oldest transitions; those of a range only where ``newest`` is set."""

    newest = True

    def __init__(self, count):
        self.samples = transitions(count)
        self.ranges = []

    def count(self):
        return len(self.samples)

    def sample(self, size, train_iter, sample_range=None, replace=False):
        self.ranges.append(sample_range)
        found = self.samples[sample_range] if self.newest and sample_range is not None else self.samples
        return found[:size]
