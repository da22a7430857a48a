"""Snapshots of a whole parallel run: what it needs to go on after all of its processes are gone.

A snapshot is a checkpoint folder (:mod:`ding.utils.checkpoint`), ``EXP/ckpt/snapshot_<train iteration>``, with the
journal of the coordinator (tasks, ledger, buffers with priorities, counters, the commander's state), the checkpoints of
the learners and a list of the chunks that the buffers held. The chunks lie in ``EXP/ckpt/chunks``, one copy for all
snapshots; the id of a chunk holds the checksum of its bytes, which is compared when it is read. So do the weights of
the historical players of a league, which no learner publishes again, in ``EXP/ckpt/players``.

The coordinator writes one every ``policy.learn.run_state_freq`` train iterations, beside its work; the launcher writes
the last one when all processes have ended before the run was over.
"""

import contextlib
import json
import logging
import os
import re
import shutil
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from ding.league.base_league import historical_weights
from ding.parallel.planes import BadId
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
    """Takes snapshots in a thread, one at a time, every so many train iterations.

    Args:
        exp_name: the experiment folder.
        run_dir: the folder that the processes share.
        path_data: the folder of the chunks.
        freq: in train iterations; 0: never.
        files_held: while it is entered, no chunk is deleted.
        token: of the run.
        path_policy: the folder of the weights.
    """

    def __init__(
        self,
        exp_name: str,
        run_dir: str,
        path_data: str,
        freq: int,
        files_held: Callable[[], AbstractContextManager[None]],
        token: str | None = None,
        path_policy: str | None = None,
    ) -> None:
        self._take = partial(save_snapshot, exp_name, run_dir, path_data, token, path_policy)
        self._freq, self._files_held = freq, files_held
        self._last_iter: int | None = None
        self._thread: threading.Thread | None = None

    def look(self, train_iter: int) -> None:
        """Begin a snapshot when one is due."""
        if self._last_iter is None:
            self._last_iter = train_iter
        busy = self._thread is not None and self._thread.is_alive()
        if self._freq and train_iter - self._last_iter >= self._freq and not busy:
            self._last_iter = train_iter
            self._thread = threading.Thread(target=self._run, name="snapshot", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Wait for the snapshot that is being taken."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            with self._files_held():
                self._take()
        except OSError as error:
            logger.warning("no snapshot is taken, the one before is whole: %s", error)


def save_snapshot(
    exp_name: str,
    run_dir: str | os.PathLike[str],
    path_data: str,
    token: str | None = None,
    path_policy: str | None = None,
) -> Path | None:
    """Write a snapshot of a run; older ones but one are removed. Returns its folder, or None without a learner.

    Args:
        token: of the run, under which its chunks and weights are sealed.
        path_policy: the folder of the weights; None: those of a league's historical players are not saved.

    Raises:
        OSError: it cannot be written; those before are whole.
    """
    learners = _checkpoints_of_learners(exp_name)
    journal = Path(run_dir) / JOURNAL
    if not learners or not journal.is_file():
        return None
    root = Path(exp_name) / "ckpt"
    root.mkdir(parents=True, exist_ok=True)
    working = root / f"snapshot.{os.getpid()}.tmp"
    try:
        state = copy_journal(journal, working)
        chunks = [chunk.ref["chunk"] for chunk in state.chunks]
        # A chunk without a file is one that the learner will report as broken.
        FileDataPlane(path_data, seal=Seal(token)).copy_chunks(chunks, _pool(root))
        players = historical_weights(state.values.get("commander", {}).get("league", {}))
        if path_policy is not None:
            new = [name for name in players if _version(root / _PLAYERS, name) != _version(path_policy, name)]
            _copy_weights(new, path_policy, Seal(token), root / _PLAYERS, Seal())
        counters = _counters(state)
        notes = {**counters, "players": players}
        folder = root / f"snapshot_{counters['train_iter']}"
        parts = {JOURNAL: partial(shutil.copyfile, working), _CHUNKS: partial(_write_json, value=chunks)}
        write_parts(folder, {**parts, **{name: partial(link_file, path) for name, path in learners}}, notes)
    finally:
        with contextlib.suppress(FileNotFoundError):
            working.unlink()
    keep_newest(folder, _KEPT_SNAPSHOTS)
    _remove_unused_chunks(root)
    return folder


def newest_snapshot(exp_name: str | os.PathLike[str]) -> Manifest | None:
    """The newest good snapshot of a parallel run; those that are damaged are logged and passed over."""
    good = good_numbered(Path(exp_name) / "ckpt", "snapshot")
    return next((manifest for manifest in good if JOURNAL in manifest.parts), None)


def restore_snapshot(
    snapshot: Manifest,
    exp_name: str,
    run_dir: str | os.PathLike[str],
    path_data: str,
    token: str | None = None,
    path_policy: str | None = None,
) -> None:
    """Put what is in a snapshot where the processes of a new run look for it.

    Args:
        token: of the new run, under which the chunks and weights are sealed.
        path_policy: the folder of the weights, also when it is that of the run before.

    Raises:
        OSError, JournalError: it cannot be read or written.
    """
    chunks = json.loads(snapshot.path(_CHUNKS).read_text())
    missing = _pool(snapshot.folder.parent).copy_chunks(chunks, FileDataPlane(path_data, seal=Seal(token)))
    if missing:
        logger.warning(
            "%d of %d chunks are not in the snapshot; the run goes on without them", len(missing), len(chunks)
        )
    if path_policy is not None:
        players, source = snapshot.notes.get("players", []), snapshot.folder.parent / _PLAYERS
        for folder in source.glob("*"):
            # A player of a time after this snapshot: the run makes another one of that name.
            if folder.name not in players:
                shutil.rmtree(folder)
        _copy_weights(players, source, Seal(), path_policy, Seal(token))
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
    """The chunks of the snapshots; like checkpoints, they outlive the token of a run and have no seal."""
    return FileDataPlane(root / _POOL, seal=Seal())


def _copy_weights(
    names: Collection[str], source: str | os.PathLike[str], opener: Seal, target: str | os.PathLike[str], sealer: Seal
) -> None:
    """Copy the newest weights of each name. Those that are not here are left to their readers to miss."""
    for name in names:
        if _version(source, name) is None:
            continue
        weights = FileWeightPlane(source, name, seal=opener).fetch()
        if weights is not None:
            plane = FileWeightPlane(target, name, keep_versions=1, seal=sealer)
            plane.publish(weights.state, weights.version, weights.meta)


def _version(root: str | os.PathLike[str], name: str) -> int | None:
    """The newest version of a policy; None where there is none, as for a checkpoint that a user put there."""
    return FileWeightPlane(root, name).newest() if (Path(root) / name).is_dir() else None


def _counters(state: JournalState) -> dict[str, int]:
    own: Mapping[str, Any] = state.values.get("coordinator", {})
    rows = state.values.get(BUFFER_COUNTS, {}).get("rows", 0)
    return {"train_iter": int(own.get("learner_step", 0)), "pushed_rows": int(rows)}


def _checkpoints_of_learners(exp_name: str) -> list[tuple[str, Path]]:
    """Part and file of each checkpoint from which a learner goes on."""
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
