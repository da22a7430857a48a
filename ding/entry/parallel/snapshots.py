"""Snapshots of a whole parallel run: the state from which it resumes after all of its processes have ended.

A snapshot is a checkpoint folder (:mod:`ding.utils.checkpoint`), ``EXP/ckpt/snapshot_<train iteration>``, with the
journal of the coordinator (tasks, ledger, buffers with priorities, counters, the commander's state), the checkpoints of
the learners and a list of the chunks in the buffers. The chunks are in ``EXP/ckpt/chunks``, shared by all snapshots;
the id of a chunk contains the checksum of its bytes, which is verified on reading. Similarly, ``EXP/ckpt/players``
contains the weights of a league's historical players, which no learner publishes again.

The coordinator writes a snapshot every ``policy.learn.run_state_freq`` train iterations, or if that is 0 every
``policy.learn.run_state_every_s`` seconds, in the background; the launcher writes the last one after all processes have
ended.
"""

import contextlib
import json
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from ding.entry.snapshot_clock import SnapshotClock, has_room
from ding.league.base_league import historical_weights
from ding.parallel.planes import BadId, Planes, StorageError, WeightPlane, open_planes
from ding.parallel.planes.data_plane import StoredDataPlane
from ding.parallel.planes.file.data_plane import FileDataPlane
from ding.parallel.planes.file.weight_plane import FileWeightPlane
from ding.parallel.planes.seal import Seal
from ding.utils.checkpoint import (
    Manifest,
    checked_manifest,
    good_numbered,
    keep_newest,
    link_file,
    numbered,
    write_parts,
)
from ding.utils.file_helper import FileRefusedError, write_text
from ding.worker.coordinator.errors import JournalError
from ding.worker.coordinator.tasks.journal import BUFFER_COUNTS, JournalState, copy_journal, forget_workers

logger = logging.getLogger("ding.entry")

JOURNAL = "coordinator.sqlite"
_CHUNKS = "chunks.json"
_POOL = "chunks"
_PLAYERS = "players"
# The checkpoint of a learner's task in one of the folders ckpt*, as a part of a snapshot.
_LEARNER = re.compile(r"(ckpt[A-Za-z0-9_.-]*)--(resume_[A-Za-z0-9_.-]+\.pth\.tar)")
_KEPT_SNAPSHOTS = 2


class SnapshotTaker:
    """Takes snapshots in a background thread, one at a time.

    Args:
        exp_name: Experiment folder.
        run_dir: Folder shared by the processes.
        kept: Planes with the chunks and the weights.
        clock: Schedule of the snapshots.
        files_held: Context manager during which no chunk is deleted.
    """

    def __init__(
        self,
        exp_name: str,
        run_dir: str,
        kept: "KeptPlanes",
        clock: SnapshotClock,
        files_held: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._take = partial(save_snapshot, exp_name, run_dir, kept, asked=clock.counts_iterations)
        self._clock, self._files_held = clock, files_held
        self._begun = False
        self._thread: threading.Thread | None = None

    def look(self, train_iter: int) -> None:
        """Start a snapshot if one is due."""
        if not self._begun:
            self._clock.restart(train_iter)
            self._begun = True
        busy = self._thread is not None and self._thread.is_alive()
        if not busy and self._clock.is_due(train_iter):
            self._clock.restart(train_iter)
            self._thread = threading.Thread(target=self._run, name="snapshot", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Wait for the snapshot being taken."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            with self._files_held():
                self._take()
        except (OSError, JournalError) as error:
            logger.warning("no snapshot is taken, the one before is whole: %s", error)


def save_snapshot(
    exp_name: str, run_dir: str | os.PathLike[str], kept: "KeptPlanes", asked: bool = True
) -> Path | None:
    """Write a snapshot of a run, and remove all older ones but one.

    Args:
        asked: Whether the user requested it. An automatic one is skipped if disk space is low.

    Returns:
        Its folder; ``None`` if it was skipped, because no learner has a checkpoint yet or for lack of disk space.

    Raises:
        OSError, JournalError: It cannot be written; earlier snapshots are intact.
    """
    learners = _checkpoints_of_learners(exp_name)
    journal = Path(run_dir) / JOURNAL
    if not learners or not journal.is_file():
        return None
    root = Path(exp_name) / "ckpt"
    if not asked and not has_room(root, kept.nbytes() + sum(path.stat().st_size for _, path in learners)):
        return None
    root.mkdir(parents=True, exist_ok=True)
    working = root / f"snapshot.{os.getpid()}.tmp"
    try:
        state = copy_journal(journal, working)
        chunks = [chunk.ref["chunk"] for chunk in state.chunks]
        # A chunk without a file will be reported as broken by the learner.
        kept.data().copy_chunks(chunks, _pool(root))
        players = historical_weights(state.values.get("commander", {}).get("league", {}))
        _copy_weights(players, kept, _players(root))
        counters = _counters(state)
        notes = {**counters, "players": players, "written_s": time.time()}
        folder = root / f"snapshot_{counters['train_iter']}"
        parts = {JOURNAL: partial(shutil.copyfile, working), _CHUNKS: partial(_write_json, value=chunks)}
        write_parts(folder, {**parts, **{name: partial(link_file, path) for name, path in learners}}, notes)
    finally:
        # Including the auxiliary files of SQLite.
        for path in root.glob(f"{working.name}*"):
            path.unlink(missing_ok=True)
    keep_newest(folder, _KEPT_SNAPSHOTS)
    _remove_unused_chunks(root)
    return folder


def newest_snapshot(exp_name: str | os.PathLike[str]) -> Manifest | None:
    """Return the newest good snapshot of a parallel run; damaged ones are logged and skipped."""
    good = good_numbered(Path(exp_name) / "ckpt", "snapshot")
    return next((manifest for manifest in good if JOURNAL in manifest.parts), None)


def restore_snapshot(snapshot: Manifest, exp_name: str, run_dir: str | os.PathLike[str], kept: "KeptPlanes") -> None:
    """Restore the contents of a snapshot for the processes of a new run.

    Args:
        kept: Planes of the new run, which may be those of the previous run.

    Raises:
        OSError, JournalError: A file cannot be read or written.
    """
    chunks = json.loads(snapshot.path(_CHUNKS).read_text())
    missing = _pool(snapshot.folder.parent).copy_chunks(chunks, kept.data())
    if missing:
        logger.warning(
            "%d of %d chunks are not in the snapshot; the run goes on without them", len(missing), len(chunks)
        )
    players = snapshot.notes.get("players", [])
    for folder in (snapshot.folder.parent / _PLAYERS).glob("*"):
        # A player that is newer than this snapshot: the run will create another one of that name.
        if folder.name not in players:
            shutil.rmtree(folder)
    _copy_weights(players, _players(snapshot.folder.parent), kept, anew=True)
    journal = Path(run_dir) / JOURNAL
    shutil.copyfile(snapshot.path(JOURNAL), journal)
    forget_workers(journal, set(missing))
    for name in snapshot.parts:
        match = _LEARNER.fullmatch(name)
        if match is not None:
            folder = Path(exp_name) / match[1]
            folder.mkdir(exist_ok=True)
            link_file(snapshot.path(name), folder / match[2])


def _pool(root: Path) -> FileDataPlane:
    """Return the chunk store of the snapshots; like checkpoints, it outlives the run's token and has no seal."""
    return FileDataPlane(root / _POOL, seal=Seal())


def _players(root: Path) -> "KeptPlanes":
    return KeptPlanes("file", "", os.fspath(root / _PLAYERS), token=None)


class KeptPlanes:
    """Planes of a run with the data of snapshots, accessed by a process that is not one of its workers.

    Args:
        kind: Type of the planes.
        path_data, path_policy: See ``open_planes``.
        token: Token of the run, which seals files; ``None``: no seal.
    """

    def __init__(self, kind: str, path_data: str, path_policy: str, token: str | None) -> None:
        self._kind, self._path_data, self._path_policy = kind, path_data, path_policy
        self._seal = Seal(token)

    @classmethod
    def of_run(cls, cfg: Mapping[str, Any], token: str | None) -> "KeptPlanes":
        """Return the planes of a compiled config with actual folders."""
        own = cfg["system"]["coordinator"]
        path_policy = cfg["main"]["policy"]["other"]["commander"]["path_policy"]
        return cls(own.get("planes", "file"), own["path_data"], path_policy, token)

    def data(self) -> StoredDataPlane:
        """Return the data plane.

        Raises:
            StorageError: The plane's type does not support frames.
        """
        if self._kind == "file":
            return FileDataPlane(self._path_data, seal=self._seal)
        plane = self._planes().data()
        if not isinstance(plane, StoredDataPlane):
            raise StorageError(f"planes of type {self._kind!r} cannot be part of a snapshot")
        return plane

    def nbytes(self) -> int:
        """Return the size of the data in files in bytes; 0 if it is stored elsewhere."""
        files = Path(self._path_data).rglob("*") if self._kind == "file" else ()
        total = 0
        for path in files:
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                total += path.stat().st_size
        return total

    def newest(self, name: str) -> int | None:
        """Return the newest version of a policy; ``None`` if there is none, as for a checkpoint added by a user."""
        if self._kind == "file" and not (Path(self._path_policy) / name).is_dir():
            return None
        return self.weights(name).newest()

    def weights(self, name: str) -> WeightPlane:
        """Return the plane of a historical player's weights, of which the newest version is kept."""
        if self._kind == "file":
            return FileWeightPlane(self._path_policy, name, keep_versions=1, seal=self._seal)
        return self._planes().weights(name)

    def _planes(self) -> Planes:
        return open_planes(self._kind, self._path_data, self._path_policy)


def _copy_weights(names: Collection[str], source: KeptPlanes, target: KeptPlanes, anew: bool = False) -> None:
    """Copy the newest weights of each name; missing ones are skipped, and their readers will report them.

    Args:
        anew: Also copy existing ones, because the seal differs.
    """
    for name in names:
        version = source.newest(name)
        if version is None or (not anew and version == target.newest(name)):
            continue
        weights = source.weights(name).fetch()
        if weights is not None:
            target.weights(name).publish(weights.state, weights.version, weights.meta)


def _counters(state: JournalState) -> dict[str, int]:
    own: Mapping[str, Any] = state.values.get("coordinator", {})
    rows = state.values.get(BUFFER_COUNTS, {}).get("rows", 0)
    return {"train_iter": int(own.get("learner_step", 0)), "pushed_rows": int(rows)}


def _checkpoints_of_learners(exp_name: str) -> list[tuple[str, Path]]:
    """Return part name and file of each learner's resume checkpoint."""
    paths = sorted(Path(exp_name).glob("ckpt*/resume_*.pth.tar"))
    named = [(f"{path.parent.name}--{path.name}", path) for path in paths]
    return [(name, path) for name, path in named if _LEARNER.fullmatch(name)]


def _write_json(target: str, value: object) -> None:
    write_text(target, json.dumps(value))


def _remove_unused_chunks(root: Path) -> None:
    used: Collection[str] = set()
    for _, folder in numbered(root, "snapshot"):
        try:
            used = {*used, *json.loads(checked_manifest(folder).path(_CHUNKS).read_text())}
        except (FileNotFoundError, FileRefusedError, KeyError):
            continue
    pool = _pool(root)
    with contextlib.suppress(BadId):
        pool.release([{"chunk": chunk} for chunk in pool.chunks() if chunk not in used])
