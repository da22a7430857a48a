"""Random streams of a run: every stream is derived from the run's seed.

A stream is identified by its place in the run: a role (``"collector"``), the index of the process in that role, the
index of the env in that process, and a purpose (``"collect"``, ``"evaluate"``, ``"warm-up"``). The same place and the
same seed always give the same stream, on every backend; two different places, or two different seeds, never share one.

Example::

    tree = SeedTree(0)
    manager.seed(tree.env_seeds(8, "collector", process=1))      # one seed per env
    tree.seed_process("collector", process=1)                    # random, numpy and torch of this process

Roles are ``collector``, ``evaluator``, ``learner``, ``expert`` and ``demonstrator`` (trained policies that play for a
data set), ``dataset`` (the order of its rows), ``node`` (a process of a task), ``env`` (a process with envs),
``worker`` (a process of a ``Supervisor``), ``sampler`` (of a sweep), and for a process of a parallel run its name, such
as ``learner0`` and ``collector3``. Processes that run the same script each have an index, see :func:`process_index`.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ding.utils.pytorch_ddp_dist_helper import get_rank

#: Seeds of envs are below this bound: envs add small numbers to them, and ``numpy.random.seed`` takes 32 bits.
ENV_SEED_BOUND = 2**31


#: Number of processes of one script that have their own streams in each of their lives.
_MAX_PROCESSES = 2**16
_node_index = 0


def set_process_index(index: int, life: int = 0) -> None:
    """Set the index of this process among those that run the same script, such as the nodes of a task.

    Args:
        index: Index, from 0.
        life: Number of restarts of the process. A new life does not repeat the random numbers of the previous one.
    """
    global _node_index
    _node_index = index + life * _MAX_PROCESSES


def process_index() -> int:
    """Return the index of this process in the seed tree among those that run the same script.

    Derived from its node in a task, else from its rank; 0 in a run of one process.
    """
    return _node_index or get_rank()


def set_pkg_seed(seed: int, use_cuda: bool = True) -> None:
    """Seed ``random``, ``numpy.random`` and torch (and its CUDA devices when ``use_cuda`` and there are any).

    If :func:`process_index` is not 0, the streams are derived from ``seed`` and the index, so that processes running
    the same script explore differently.

    Args:
        seed: 0 <= seed < 2**32.

    Raises:
        ValueError: ``seed`` is out of range.
    """
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be in [0, 2**32), got {seed}")
    index = process_index()
    if index:
        SeedTree(seed).seed_process("node", process=index, use_cuda=use_cuda)
    else:
        _seed_generators(seed, use_cuda)


def seed_env_process(seed: int | None, purpose: str = "reset") -> None:
    """Seed the global generators of a process that runs envs, for envs that use them.

    Do not call it in a process that also trains: training would repeat the numbers.

    Args:
        seed: Seed of an env; ``None`` uses numbers that no other process has.
        purpose: Purpose of the numbers.
    """
    if seed is None:
        own = int(np.random.SeedSequence().generate_state(1)[0])
    else:
        own = SeedTree(seed % 2**64).derived("env", purpose=purpose)
    random.seed(own)
    np.random.seed(own)
    # Without CUDA in use, torch.manual_seed takes a millisecond and more memory each time.
    torch.default_generator.manual_seed(own)


def _seed_generators(seed: int, use_cuda: bool) -> None:
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
            role: Kind of process or part, such as ``"collector"``.
            process: Index of the process within its role.
            index: Index of the env (or episode) in the process.
            purpose: Purpose of the numbers, such as ``"collect"`` or ``"evaluate"``.
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
        _seed_generators(self.derived(role, process=process, purpose="process"), use_cuda)


def _word(text: str) -> int:
    """Return 32 bits of a stable hash of ``text`` (Python's own differs between processes)."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def generator_states(use_cuda: bool = True) -> dict[str, Any]:
    """Return the states of the global generators of ``random``, numpy and torch, for :func:`set_generator_states`."""
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
    }
    if use_cuda and torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_generator_states(state: Mapping[str, Any]) -> None:
    """Restore the global generators from :func:`generator_states`; of CUDA, the device count must match."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    np.random.set_state(tuple(state["numpy"]))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
