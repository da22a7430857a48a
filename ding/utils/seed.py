"""One seed for all generators of random numbers."""

import random

import numpy as np
import torch


def set_pkg_seed(seed: int, use_cuda: bool = True) -> None:
    """Seed ``random``, ``numpy.random`` and torch (and its CUDA devices when ``use_cuda`` and there are any).

    Args:
        seed: 0 <= seed < 2**32.
    """
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be in [0, 2**32), got {seed}")
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    if use_cuda and torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
