"""What a checkpoint of the learner does not hold: replay buffer, random generators, and the counters of the workers.

It lies beside the checkpoint as ``iteration_<n>_state.safetensors`` and is written before it, so that a checkpoint
that exists has its state. Of several processes each has its own; ``rank<r>_`` stands before the names of all but the
first. A run that goes on from it is equal, bit for bit, to the run that wrote it and went on: the state of an env
cannot be saved in general, so *both* begin new episodes there, from seeds that follow from the config's seed and the
train iteration.
"""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ding.data.safe_file import SafeFileError, read_tree, write_tree
from ding.entry.serial.parts import SerialParts
from ding.utils import get_rank

logger = logging.getLogger("ding.entry")

_CHECKPOINT_SUFFIX = ".pth.tar"
_STATE_SUFFIX = "_state.safetensors"
_FILE_KIND = "ding.run_state"
_KEPT_STATES = 2


def save_run_state(parts: SerialParts) -> str:
    """Write the state of the run and then the learner's checkpoint; returns the path of the checkpoint.

    Older states are removed (all but the newest two), checkpoints are not.
    """
    learner = parts.learner
    learner.collector_envstep = parts.collector.envstep
    name = f"iteration_{learner.train_iter}{_CHECKPOINT_SUFFIX}"
    checkpoint = Path(parts.cfg.exp_name) / "ckpt" / name
    state = {"random": _random_state(), "cfg_seed": int(parts.cfg.seed)}
    for key in ("collector", "evaluator", "buffer"):
        state[key] = _state_of(getattr(parts, key))
    state |= {key: one.state_dict() for key, one in parts.saved.items()}
    try:
        write_tree(_state_file(checkpoint), state, _FILE_KIND)
    except SafeFileError as error:
        # An object of the user's in the buffer: the run can go on without its old data.
        logger.warning("the replay buffer is not saved: %s", error)
        write_tree(_state_file(checkpoint), {**state, "buffer": None}, _FILE_KIND)
    learner.save_checkpoint(name)
    _remove_old_states(checkpoint)
    return str(checkpoint)


def load_run_state(checkpoint: str | Path, parts: SerialParts) -> bool:
    """Take up what :func:`save_run_state` wrote for ``checkpoint``; returns whether there was anything.

    The learner has loaded the checkpoint itself before.

    Raises:
        SafeFileError: the state file is broken.
    """
    file = _state_file(Path(checkpoint))
    if not file.is_file():
        return False
    state = read_tree(file, _FILE_KIND)
    for key in ("collector", "evaluator", "buffer"):
        if state[key] is not None:
            getattr(parts, key).load_state_dict(state[key])
    for key, one in parts.saved.items():
        one.load_state_dict(state[key])
    begin_new_episodes(parts, state["random"])
    return True


def begin_new_episodes(parts: SerialParts, random_state: dict[str, Any] | None = None) -> None:
    """What a run does at a saved state, whether it goes on or is taken up: new episodes from known seeds.

    The global generators are left (or set) as they were when the state was saved.
    """
    random_state = _random_state() if random_state is None else random_state
    entropy = [int(parts.cfg.seed), int(parts.learner.train_iter), *([get_rank()] if get_rank() else [])]
    words = np.random.SeedSequence(entropy).generate_state(1)
    if hasattr(parts.collector, "restart_envs"):
        parts.collector.restart_envs(int(words[0] >> 1))
    parts.evaluator_env.seed(parts.cfg.seed, dynamic_seed=parts.evaluator_dynamic_seed)
    _set_random_state(random_state)


def newest_checkpoint(exp_dir: str | Path) -> Path | None:
    """The newest checkpoint of an experiment that has a state beside it."""
    found = [
        (int(file.name.removeprefix("iteration_").removesuffix(_STATE_SUFFIX)), file)
        for file in (Path(exp_dir) / "ckpt").glob(f"iteration_*{_STATE_SUFFIX}")
    ]
    for _, file in sorted(found, reverse=True):
        checkpoint = file.with_name(file.name.removesuffix(_STATE_SUFFIX) + _CHECKPOINT_SUFFIX)
        if checkpoint.is_file():
            return checkpoint
    return None


def _state_of(worker: object) -> Any:
    """The worker's state, or None for a worker that a run does not have, or one of the user's that has no state."""
    if worker is None:
        return None
    if not hasattr(worker, "state_dict"):
        logger.info("a %s has no state_dict; the run will go on with a new one", type(worker).__name__)
        return None
    return worker.state_dict()


def _state_file(checkpoint: Path) -> Path:
    return checkpoint.with_name(_rank_prefix() + checkpoint.name.removesuffix(_CHECKPOINT_SUFFIX) + _STATE_SUFFIX)


def _rank_prefix() -> str:
    return f"rank{get_rank()}_" if get_rank() else ""


def _remove_old_states(checkpoint: Path) -> None:
    files = checkpoint.parent.glob(f"{_rank_prefix()}iteration_*{_STATE_SUFFIX}")
    for file in sorted(files, key=lambda file: file.stat().st_mtime)[:-_KEPT_STATES]:
        file.unlink()


def _random_state() -> dict[str, Any]:
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def _set_random_state(state: dict[str, Any]) -> None:
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    np.random.set_state(tuple(state["numpy"]))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
