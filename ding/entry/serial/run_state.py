"""All that a run needs to go on: a snapshot of the learner, the replay buffer, the random generators and the counters.

A snapshot is a checkpoint folder (:mod:`ding.utils.checkpoint`) ``ckpt/snapshot_<train iteration>``; of several
processes, each but the first has its part in ``rank<r>`` below it. What it consists of is copied in memory, and is
written while training goes on. A run that goes on from it is equal, bit for bit, to the run that wrote it and went on:
the state of an env cannot be saved in general, so *both* begin new episodes there, from seeds that follow from the
config's seed and the train iteration.
"""

from __future__ import annotations

import copy
import logging
import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ding.data.safe_file import SafeFileError, read_tree, write_tree
from ding.entry.serial.parts import SerialParts
from ding.utils import get_rank, get_world_size
from ding.utils.checkpoint import (
    CLASSIC_SUFFIX,
    LEARNER,
    Manifest,
    checked_manifest,
    good_numbered,
    keep_newest,
    read_manifest,
    write_parts,
)
from ding.utils.file_helper import FileRefusedError, atomic_write, save_file

logger = logging.getLogger("ding.entry")

_STATE = "state.safetensors"
_FILE_KIND = "ding.run_state"
_KEPT_SNAPSHOTS = 2


class RunSaver:
    """Saves snapshots of a run, one at a time.

    Args:
        parts: The workers of the run.
    """

    def __init__(self, parts: SerialParts) -> None:
        self._parts = parts
        self._writer = ThreadPoolExecutor(1, "snapshot-writer")
        self._writing: Future[None] | None = None

    def save(self, beside: bool = False) -> Path:
        """Save the learner's checkpoint, and a snapshot; older snapshots are removed. Returns the snapshot's folder.

        Args:
            beside: Whether the snapshot is written in a thread, while the run goes on.

        Raises:
            DiskFullError: There is no space, now or for the snapshot before.
        """
        self.finish()
        parts, learner = self._parts, self._parts.learner
        learner.collector_envstep = parts.collector.envstep
        classic = f"iteration_{learner.train_iter}{CLASSIC_SUFFIX}"
        learner.save_checkpoint(classic)
        folder = Path(parts.cfg.exp_name) / "ckpt" / f"snapshot_{learner.train_iter}"
        state = _copied_state(parts)
        notes = {
            "train_iter": learner.train_iter,
            "env_step": int(parts.collector.envstep),
            "world_size": get_world_size(),
            # The state of envs is no part of a snapshot.
            "episodes": "begin anew",
        }
        learned = _writer_of_learner(parts, folder.with_name(classic)) if get_rank() == 0 else None

        def write() -> None:
            learner.saver.when_there_is_space(lambda: _write(folder, state, learned, notes), folder)
            if get_rank() == 0:
                keep_newest(folder, learner.saver.keep_last or _KEPT_SNAPSHOTS)

        self._writing = self._writer.submit(write)
        if not beside:
            self.finish()
        return folder

    def finish(self) -> None:
        """Wait for the snapshot that is being written; raises what it failed with."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()


def _copied_state(parts: SerialParts) -> dict[str, Any]:
    state: dict[str, Any] = {"random": _random_state(), "cfg_seed": int(parts.cfg.seed)}
    for key in ("collector", "evaluator"):
        state[key] = copy.deepcopy(_state_of(getattr(parts, key)))
    # A buffer gives copies.
    state["buffer"] = _state_of(parts.buffer)
    return state | {key: copy.deepcopy(one.state_dict()) for key, one in parts.saved.items()}


def _writer_of_learner(parts: SerialParts, classic: Path) -> Callable[[str], object]:
    """What writes the state of the learner as it is now, in the moment of this call."""
    if classic.is_file():
        data = classic.read_bytes()

        def write(target: str) -> None:
            with atomic_write(target) as file:
                file.write(data)

        return write
    # A hook of the user's saved it elsewhere.
    learner = parts.learner
    state = {**learner.policy.state_dict(), "last_iter": learner.train_iter, "last_step": learner.collector_envstep}
    state = copy.deepcopy(state)
    return lambda target: save_file(target, state)


def _write(folder: Path, state: dict[str, Any], learned: Callable[[str], object] | None, notes: dict[str, Any]) -> None:
    def write_state(target: str) -> None:
        try:
            write_tree(target, state, _FILE_KIND)
        except SafeFileError as error:
            # An object of the user's in the buffer: the run can go on without its old data.
            logger.warning("the replay buffer is not saved: %s", error)
            write_tree(target, {**state, "buffer": None}, _FILE_KIND)

    parts = {_STATE: write_state} if learned is None else {_STATE: write_state, LEARNER: learned}
    write_parts(_own_folder(folder), parts, notes)


def load_run_state(checkpoint: str | Path, parts: SerialParts) -> bool:
    """Take up the snapshot ``checkpoint``, or the one that belongs to this classic file; returns whether there is one.

    The learner has loaded the checkpoint itself before.

    Raises:
        FileRefusedError: The snapshot is damaged; the message names the newest good one.
    """
    folder = _snapshot_of(Path(checkpoint))
    if folder is None:
        return False
    try:
        state = read_tree(checked_manifest(_own_folder(folder)).path(_STATE), _FILE_KIND)
    except (FileRefusedError, SafeFileError) as error:
        good = next(_good_snapshots(folder.parent), None)
        offer = "there is no good one" if good is None else f"the newest good one is {good}"
        raise FileRefusedError(f"the saved state {folder} is refused: {error}; {offer}") from error
    except FileNotFoundError:
        return False
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
    """The newest good snapshot of an experiment; those that are damaged are logged and passed over."""
    return next(_good_snapshots(Path(exp_dir) / "ckpt"), None)


def _good_snapshots(folder: Path) -> Iterator[Path]:
    return (manifest.folder for manifest in good_numbered(folder, "snapshot", _checked_of_all_ranks))


def _checked_of_all_ranks(snapshot: Path) -> Manifest:
    manifest = checked_manifest(snapshot)
    for rank in range(1, int(manifest.notes.get("world_size", 1))):
        checked_manifest(_folder_of_rank(snapshot, rank))
    return manifest


def _snapshot_of(checkpoint: Path) -> Path | None:
    """The snapshot that ``checkpoint`` is or that has the same learner; None when there is none."""
    if checkpoint.is_dir():
        return checkpoint
    snapshot = checkpoint.with_name(checkpoint.name.removesuffix(CLASSIC_SUFFIX).replace("iteration_", "snapshot_"))
    try:
        learner = read_manifest(snapshot).path(LEARNER)
        same = learner.read_bytes() == checkpoint.read_bytes()
    except FileNotFoundError:
        return None
    return snapshot if same else None


def _own_folder(snapshot: Path) -> Path:
    return _folder_of_rank(snapshot, get_rank())


def _folder_of_rank(snapshot: Path, rank: int) -> Path:
    return snapshot / f"rank{rank}" if rank else snapshot


def _state_of(worker: object) -> Any:
    """The worker's state, or None for a worker that a run does not have, or one of the user's that has no state."""
    if worker is None:
        return None
    if not hasattr(worker, "state_dict"):
        logger.info("a %s has no state_dict; the run will go on with a new one", type(worker).__name__)
        return None
    return worker.state_dict()


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
