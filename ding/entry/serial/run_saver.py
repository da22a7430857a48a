"""Writes snapshots of a run: copied in memory, and written while training goes on; see
:mod:`ding.entry.serial.run_state` for what they are.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ding.data.safe_file import SafeFileError, write_tree
from ding.data.tree_codec import encode_tree
from ding.entry.serial.ongoing import restart_envs
from ding.entry.serial.parts import SerialParts
from ding.entry.serial.run_state import FILE_KIND, STATE, copied_state, evaluate_anew, progress_of
from ding.entry.serial.snapshot_folders import own_folder
from ding.utils import get_rank, get_world_size
from ding.utils.checkpoint import CLASSIC_SUFFIX, LEARNER, keep_newest, write_parts
from ding.utils.file_helper import atomic_write, save_file
from ding.utils.seed import generator_states

logger = logging.getLogger("ding.entry")

_KEPT_SNAPSHOTS = 2
_TITLES = {"buffer": "replay buffer"}


class RunSaver:
    """Saves snapshots of a run, one at a time.

    Args:
        parts: the workers of the run.
    """

    def __init__(self, parts: SerialParts) -> None:
        self._parts = parts
        self._writer = ThreadPoolExecutor(1, "snapshot-writer")
        self._writing: Future[None] | None = None
        self._episodes = ""
        kept = getattr(parts.policy, "kept_samples", None)
        if kept is not None:
            # What a policy remembers beside its learn state, which checkpoints hold, too.
            parts.saved["kept_samples"] = kept

    def save(self, beside: bool = False) -> Path:
        """Save the learner's checkpoint, and a snapshot; older snapshots are removed. Returns the snapshot's folder.

        Args:
            beside: whether the snapshot is written in a thread, while the run goes on.

        Raises:
            DiskFullError: there is no space, now or for the snapshot before.
        """
        self.finish()
        parts, learner = self._parts, self._parts.learner
        learner.collector_envstep = parts.collector.envstep
        classic = f"iteration_{learner.train_iter}{CLASSIC_SUFFIX}"
        learner.save_checkpoint(classic)
        folder = Path(parts.cfg.exp_name) / "ckpt" / f"snapshot_{learner.train_iter}"
        state, episodes = copied_state(parts)
        if episodes not in (self._episodes, "go on"):
            logger.info("the envs do not go on from a snapshot, their episodes %s", episodes)
        self._episodes = episodes
        notes = {
            **progress_of(parts),
            "world_size": get_world_size(),
            "episodes": episodes,
        }
        optional = ("buffer", *parts.saved)
        learned = _writer_of_learner(parts, folder.with_name(classic)) if get_rank() == 0 else None

        def write() -> None:
            learner.saver.when_there_is_space(lambda: _write(folder, state, optional, learned, notes), folder)
            if get_rank() == 0:
                keep_newest(folder, learner.saver.keep_last or _KEPT_SNAPSHOTS)

        self._writing = self._writer.submit(write)
        if not beside:
            self.finish()
        return folder

    def go_on(self) -> None:
        """Do after a snapshot what a run that is taken up from it does, so that both are equal."""
        random_state = generator_states()
        if self._episodes != "go on":
            restart_envs(self._parts)
        for one in self._parts.saved.values():
            # Only those have it that a run takes up in another state than that in which they were saved.
            getattr(one, "go_on", lambda: None)()
        evaluate_anew(self._parts, random_state)

    def finish(self) -> None:
        """Wait for the snapshot that is being written; raises what it failed with."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()


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


def _write(
    folder: Path,
    state: dict[str, Any],
    optional: Sequence[str],
    learned: Callable[[str], object] | None,
    notes: dict[str, Any],
) -> None:
    def write_state(target: str) -> None:
        try:
            write_tree(target, state, FILE_KIND)
        except SafeFileError as error:
            # An object of the user's, in the buffer say: the run can go on without its old data.
            unsafe = [key for key in optional if not _is_safe(state[key])] or optional
            names = " and the ".join(_TITLES.get(key, key.replace("_", " ")) for key in unsafe)
            logger.warning("the %s is not saved: %s", names, error)
            write_tree(target, {**state, **dict.fromkeys(unsafe)}, FILE_KIND)

    parts = {STATE: write_state} if learned is None else {STATE: write_state, LEARNER: learned}
    write_parts(own_folder(folder), parts, notes)


def _is_safe(state: Any) -> bool:
    try:
        encode_tree(state, [])
    except (RecursionError, TypeError):
        return False
    return True
