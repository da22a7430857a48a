"""Random streams of a run: every stream is derived from the run's seed.

A stream is named by its place in the run: a role (``"collector"``), the index of the process in that role, the index of
the env in that process, and a purpose (``"collect"``, ``"evaluate"``, ``"warm-up"``). The same place and the same seed
always give the same stream, on every backend; two different places, or two different seeds, never share one.

Example::

    tree = SeedTree(0)
    manager.seed(tree.env_seeds(8, "collector", process=1))      # one seed per env
    tree.seed_process("collector", process=1)                    # random, numpy and torch of this process
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass

import numpy as np
import torch

#: Seeds of envs are below this bound: envs add small numbers to them, and ``numpy.random.seed`` takes 32 bits.
ENV_SEED_BOUND = 2**31


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


@dataclass(frozen=True)
class SeedTree:
    """All random streams of a run.

    Args:
        seed: the seed of the run, at least 0.

    Raises:
        ValueError: ``seed`` is negative.
    """

    seed: int

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, got {self.seed}")

    def sequence(self, role: str, *, process: int = 0, index: int = 0, purpose: str = "") -> np.random.SeedSequence:
        """Return the seed sequence of one place in the run.

        Args:
            role: which kind of process or part, such as ``"collector"``.
            process: index of the process among those of its role.
            index: index of the env (or of the episode) in the process.
            purpose: what the numbers are for, such as ``"collect"`` or ``"evaluate"``.
        """
        return np.random.SeedSequence(self.seed, spawn_key=(_word(role), process, index, _word(purpose)))

    def derived(self, role: str, *, process: int = 0, index: int = 0, purpose: str = "") -> int:
        """Return a seed in ``[0, 2**31)`` for one place in the run; the arguments are those of :meth:`sequence`."""
        state = self.sequence(role, process=process, index=index, purpose=purpose).generate_state(1)
        return int(state[0]) % ENV_SEED_BOUND

    def env_seeds(self, count: int, role: str, *, process: int = 0, purpose: str = "collect") -> list[int]:
        """Return one seed per env (or per episode of an evaluation) of a process, for ``manager.seed``."""
        return [self.derived(role, process=process, index=index, purpose=purpose) for index in range(count)]

    def seed_process(self, role: str, *, process: int = 0, use_cuda: bool = True) -> None:
        """Seed ``random``, ``numpy.random`` and torch of the current process."""
        set_pkg_seed(self.derived(role, process=process, purpose="process"), use_cuda=use_cuda)


def _word(text: str) -> int:
    """Return 32 bits of a stable hash of ``text`` (Python's own differs between processes)."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")
