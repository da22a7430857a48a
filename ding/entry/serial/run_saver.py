"""Writer of snapshots, which are copied in memory and written while training continues; see
:mod:`ding.entry.serial.run_state` for their contents, and :mod:`ding.entry.snapshot_clock` for the schedule.
"""

from __future__ import annotations

import copy
import logging
import time
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
from ding.entry.snapshot_clock import gigabytes, has_room
from ding.utils import allreduce_data, get_rank, get_world_size
from ding.utils.checkpoint import CLASSIC_SUFFIX, LEARNER, keep_newest, write_parts
from ding.utils.file_helper import atomic_write, save_file
from ding.utils.seed import generator_states
from ding.utils.system_helper import available_memory_bytes

logger = logging.getLogger("ding.entry")

_KEPT_SNAPSHOTS = 2
_TITLES = {"buffer": "replay buffer"}
_NOT_SAVED = "no snapshot is saved, the one before is whole: %s: %s"


class RunSaver:
    """Saves snapshots of a run, one at a time.

    Args:
        parts: Workers of the run.
    """

    def __init__(self, parts: SerialParts) -> None:
        self._parts = parts
        self._writer = ThreadPoolExecutor(1, "snapshot-writer")
        self._writing: Future[None] | None = None
        self._episodes = ""
        self._saved: dict[str, int] = {}
        kept = getattr(parts.policy, "kept_samples", None)
        if kept is not None:
            # State of the policy besides its learn state, which checkpoints contain, too.
            parts.saved["kept_samples"] = kept

    def save(self, beside: bool = False) -> Path:
        """Save the learner's checkpoint and a snapshot, and remove older snapshots; return the snapshot's folder.

        Args:
            beside: Write the snapshot in a background thread.

        Raises:
            DiskFullError: There is no space for this or the previous snapshot.
        """
        self.finish()
        learner = self._parts.learner
        learner.collector_envstep = self._parts.collector.envstep
        classic = f"iteration_{learner.train_iter}{CLASSIC_SUFFIX}"
        learner.save_checkpoint(classic)
        folder = self._folder()
        write = self._prepared(folder, folder.with_name(classic))
        self._writing = self._writer.submit(lambda: learner.saver.when_there_is_space(write, folder))
        if not beside:
            self.finish()
        return folder

    def save_unasked(self, beside: bool = True) -> None:
        """Save an automatic snapshot, which neither changes nor ends the run.

        A lack of memory or disk space, or a part of the run that cannot be saved, is logged.

        Args:
            beside: Write the snapshot in a background thread.
        """
        self.finish()
        progress = progress_of(self._parts)
        if not any(progress.values()) or progress == self._saved:
            return
        if not self._has_room():
            return
        self._parts.learner.collector_envstep = self._parts.collector.envstep
        try:
            write = self._prepared(self._folder())
        except Exception as error:  # noqa: BLE001 - a user-defined part may have no state, which the run does not need
            logger.warning(_NOT_SAVED, type(error).__name__, error)
            return

        def write_or_say() -> None:
            try:
                write()
            except Exception as error:  # noqa: BLE001 - as above, and any disk error
                logger.warning(_NOT_SAVED, type(error).__name__, error)

        self._writing = self._writer.submit(write_or_say)
        if not beside:
            self.finish()

    def _has_room(self) -> bool:
        """Return whether all processes have enough memory and disk for a snapshot; a lack is logged."""
        needed, free = _buffer_bytes(self._parts.buffer), available_memory_bytes()
        fits = free is None or needed <= free // 2
        if not fits:
            logger.warning(
                "no snapshot is saved: a copy of the replay buffer takes %s of the %s of memory that are free; "
                "policy.learn.run_state_every_s=0 saves none, run_state_freq=N saves one in any case",
                gigabytes(needed), gigabytes(free or 0),
            )  # fmt: skip
        else:
            try:
                fits = has_room(self._folder().parent, needed)
            except OSError as error:
                fits = False
                logger.warning(_NOT_SAVED, type(error).__name__, error)
        if self._parts.cfg.policy.get("multi_gpu", False) and get_world_size() > 1:
            # A snapshot without the part of a process is useless, and would displace a complete one.
            fits = allreduce_data(int(fits), "sum") == get_world_size()
        return fits

    def _folder(self) -> Path:
        return Path(self._parts.cfg.exp_name) / "ckpt" / f"snapshot_{self._parts.learner.train_iter}"

    def _prepared(self, folder: Path, classic: Path | None = None) -> Callable[[], None]:
        """Copy the state of the run, and return a function that writes the copy.

        Args:
            classic: Current checkpoint file of the learner, if any.
        """
        parts, saver = self._parts, self._parts.learner.saver
        state, episodes = copied_state(parts)
        if episodes not in (self._episodes, "go on"):
            logger.info("the envs do not go on from a snapshot, their episodes %s", episodes)
        self._episodes = episodes
        self._saved = progress_of(parts)
        notes = {
            **self._saved,
            "world_size": get_world_size(),
            "episodes": episodes,
            "written_s": time.time(),
        }
        optional = ("buffer", *parts.saved)
        learned = _writer_of_learner(parts, classic) if get_rank() == 0 else None

        def write() -> None:
            _write(folder, state, optional, learned, notes)
            if get_rank() == 0:
                keep_newest(folder, saver.keep_last or _KEPT_SNAPSHOTS)

        return write

    def note_taken_up(self) -> None:
        """Record that the run continues from a snapshot, which need not be written again before the run advances."""
        self._saved = progress_of(self._parts)

    def go_on(self) -> None:
        """Apply the changes that resumption from the snapshot implies, so that both runs are equal."""
        random_state = generator_states()
        if self._episodes != "go on":
            restart_envs(self._parts)
        for one in self._parts.saved.values():
            # Only parts that resume in another state than the saved one have this method.
            getattr(one, "go_on", lambda: None)()
        evaluate_anew(self._parts, random_state)

    def finish(self) -> None:
        """Wait for the snapshot being written; raise its error."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()


def _buffer_bytes(buffer: object) -> int:
    """Return the memory of a copy of the buffer in bytes; 0 if unknown."""
    return int(getattr(buffer, "nbytes", 0) or 0)


def _writer_of_learner(parts: SerialParts, classic: Path | None) -> Callable[[str], object]:
    """Return a function that writes the learner's state at the time of this call."""
    if classic is not None and classic.is_file():
        data = classic.read_bytes()

        def write(target: str) -> None:
            with atomic_write(target) as file:
                file.write(data)

        return write
    # It was not saved, or a user-defined hook saved it elsewhere.
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
            # A user-defined object, e.g. in the buffer: the run can resume without its old data.
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
