"""Write and read checkpoints.

A checkpoint is a folder of part files. ``manifest.json`` lists their sizes and SHA-256 and the versions that wrote
them. The manifest is written last and replaces the previous one atomically; the previous parts stay until then. A
process killed between any two writes leaves either the old checkpoint or the new one. ::

    ckpt/iteration_500/manifest.json      parts, versions, counters
    ckpt/iteration_500/learner.pth.tar    the state of the learner
    ckpt/iteration_500.pth.tar            the same file under its classic name; it carries its own SHA-256

Scripts and DI-engine load the classic file. :func:`read_checkpoint` accepts both.
"""

import contextlib
import hashlib
import json
import logging
import math
import os
import platform
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ding
from ding.utils.file_helper import FileRefusedError, atomic_write, read_file, save_file, write_text

logger = logging.getLogger(__name__)

PathLike = str | os.PathLike[str]
#: Function that writes a part of a checkpoint to the given path.
WritePart = Callable[[str], object]

LEARNER = "learner.pth.tar"
CLASSIC_SUFFIX = ".pth.tar"
_MANIFEST = "manifest.json"
_FORMAT = "ding-checkpoint"
_VERSION = 1
_MAX_MANIFEST_BYTES = 1 << 20
_PART_BYTES = 1 << 20
# Prefix for a part whose name the previous checkpoint uses.
_OTHER = "other-"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_BY_ITERATION = re.compile(r"iteration_([0-9]+)")


@dataclass(frozen=True)
class Manifest:
    """Contents of a checkpoint.

    Attributes:
        folder: Folder of the checkpoint.
        parts: part -> ``{'name', 'bytes', 'sha256'}`` of its file.
        notes: Entries added by the writer, such as counters.
        versions: Versions of the packages that wrote the checkpoint.
    """

    folder: Path
    parts: Mapping[str, Mapping[str, Any]]
    notes: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def path(self, part: str) -> Path:
        """Return the file of a part. Raises ``KeyError`` if there is no such part."""
        return self.folder / str(self.parts[part]["name"])


# ------------------------------------------------------------------ writing


def write_parts(folder: PathLike, parts: Mapping[str, WritePart], notes: Mapping[str, Any]) -> None:
    """Write a checkpoint of these parts, replacing an existing one.

    Args:
        folder: Folder of the checkpoint, created if missing.
        parts: Plain file names, and the function that writes each.
        notes: JSON-serialisable entries.

    Raises:
        OSError: The checkpoint cannot be written; the previous one is intact.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    used = _names_in_use(path)
    written: dict[str, dict[str, Any]] = {}
    for part, write in parts.items():
        name = _OTHER + part if part in used else part
        write(str(path / name))
        written[part] = {"name": name, "bytes": (path / name).stat().st_size, "sha256": _file_digest(path / name)}
    body = {
        "format": _FORMAT, "version": _VERSION, "versions": _versions(), "notes": dict(notes), "parts": written
    }  # fmt: skip
    write_text(path / _MANIFEST, json.dumps({**body, "sha256": _digest_of(body)}, indent=1))
    _sync_folder(path)
    kept = {_MANIFEST, *(entry["name"] for entry in written.values())}
    for entry in os.scandir(path):
        if entry.is_file(follow_symlinks=False) and entry.name not in kept:
            os.remove(entry.path)


def save_checkpoint(path: PathLike, state: Mapping[str, Any], notes: Mapping[str, Any]) -> None:
    """Write the state of a learner as a checkpoint, and as the classic file ``path``.

    The folder of the checkpoint is the path without ``.pth.tar``.

    Raises:
        TypeError: A value in ``state`` has no safe form.
        OSError: The checkpoint cannot be written; the previous one is intact.
    """
    folder = folder_of(path)
    if folder is None:  # a user's file name that leaves no name for a folder
        save_file(os.fspath(path), dict(state))
        return
    write_parts(folder, {LEARNER: lambda target: save_file(target, dict(state))}, notes)
    link_file(read_manifest(folder).path(LEARNER), path)


def folder_of(path: PathLike) -> Path | None:
    """Return the folder of the checkpoint whose classic file is ``path``; None if the name has no suffix to remove."""
    file = Path(path)
    if not file.name.endswith(CLASSIC_SUFFIX) or file.name == CLASSIC_SUFFIX:
        return None
    return file.with_name(file.name.removesuffix(CLASSIC_SUFFIX))


def is_checkpoint_folder(path: PathLike) -> bool:
    """Return whether ``path`` is the folder of a checkpoint, and not that of an experiment."""
    return (Path(path) / _MANIFEST).is_file()


def link_file(source: PathLike, target: PathLike) -> None:
    """Give a file a second name atomically; copy it where the file system has no hard links."""
    temporary = f"{os.fspath(target)}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        os.link(source, temporary)
        os.replace(temporary, target)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        with open(source, "rb") as file, atomic_write(target) as copy:
            shutil.copyfileobj(file, copy)


def remove_checkpoint(path: PathLike) -> None:
    """Remove a checkpoint, given as a folder or a classic file: both are removed. A missing one is ignored."""
    folder = folder_of(path) or Path(path)
    with contextlib.suppress(FileNotFoundError):
        os.remove(folder.with_name(folder.name + CLASSIC_SUFFIX))
    with contextlib.suppress(FileNotFoundError):
        # Without its manifest it no longer is a checkpoint, even if the removal is interrupted.
        os.remove(folder / _MANIFEST)
        shutil.rmtree(folder, ignore_errors=True)


def rename_checkpoint(path: PathLike, new_path: PathLike) -> None:
    """Give a checkpoint another classic name, in the same folder; an existing one is replaced."""
    folder, new_folder = folder_of(path), folder_of(new_path)
    if folder is not None and new_folder is not None and folder.is_dir():
        remove_checkpoint(new_path)
        os.rename(folder, new_folder)
    os.replace(path, new_path)


def keep_newest(saved: PathLike, keep_last: int) -> None:
    """Remove checkpoints ``<name>_<n>`` older than ``saved``, so that ``keep_last`` remain.

    Checkpoints with a higher number stay, so a run resumed from an older checkpoint keeps the one it has just saved.
    Nothing is removed if ``saved`` has no number.
    """
    folder = folder_of(saved) or Path(saved)
    name, _, number = folder.name.rpartition("_")
    if number.isdecimal():
        so_far = [path for other, path in numbered(folder.parent, name) if other <= int(number)]
        for path in so_far[: max(0, len(so_far) - keep_last)]:
            remove_checkpoint(path)


def numbered(folder: PathLike, name: str) -> list[tuple[int, Path]]:
    """Return the numbers and folders of the checkpoints ``<name>_<n>`` in a folder, lowest number first."""
    pattern = re.compile(rf"({re.escape(name)}_([0-9]+))(?:{re.escape(CLASSIC_SUFFIX)})?")
    matches = [pattern.fullmatch(path.name) for path in Path(folder).glob(f"{name}_*")]
    return sorted({(int(match[2]), Path(folder) / match[1]) for match in matches if match is not None})


# ------------------------------------------------------------------ reading


def read_manifest(folder: PathLike) -> Manifest:
    """Return the manifest of a checkpoint without checking its parts.

    Raises:
        FileNotFoundError: There is no checkpoint.
        FileRefusedError: The manifest is damaged, or its version is unknown.
    """
    path = Path(folder)
    with open(path / _MANIFEST, "rb") as file:
        text = file.read(_MAX_MANIFEST_BYTES + 1)
    try:
        body = json.loads(text)
        recorded = body.pop("sha256")
        parts = body["parts"]
        sound = len(text) <= _MAX_MANIFEST_BYTES and recorded == _digest_of(body)
        named = all(_NAME.fullmatch(entry["name"]) for entry in parts.values())
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise FileRefusedError(f"{path / _MANIFEST} is damaged: it cannot be read ({error})") from error
    if not sound or not named:
        raise FileRefusedError(f"{path / _MANIFEST} is damaged: it does not have its recorded SHA-256")
    if body.get("format") != _FORMAT or body.get("version") != _VERSION:
        raise FileRefusedError(
            f"{path} is a checkpoint of {body.get('format')!r}, version {body.get('version')!r}; this package reads "
            f"{_FORMAT!r}, version {_VERSION}"
        )
    return Manifest(path, parts, body["notes"], body["versions"])


def checked_manifest(folder: PathLike) -> Manifest:
    """Return the manifest of a checkpoint after checking that its parts are as written.

    Raises:
        FileNotFoundError: There is no checkpoint.
        FileRefusedError: A part is missing or damaged.
    """
    manifest = read_manifest(folder)
    for part, entry in manifest.parts.items():
        path = manifest.path(part)
        try:
            nbytes = path.stat().st_size
        except FileNotFoundError as error:
            raise FileRefusedError(f"{path} is missing") from error
        if nbytes != entry["bytes"]:
            raise FileRefusedError(f"{path} is truncated or damaged: {nbytes} bytes of {entry['bytes']}")
        if _file_digest(path) != entry["sha256"]:
            raise FileRefusedError(f"{path} is damaged: its bytes do not have the recorded SHA-256")
    return manifest


def read_checkpoint(path: PathLike) -> dict[str, Any]:
    """Return the state of the learner in a checkpoint: a folder, or a classic file (also one of DI-engine).

    Raises:
        FileNotFoundError: There is no checkpoint.
        FileRefusedError: The file is damaged or not a checkpoint; the message names the newest intact one in the same
            folder.
    """
    try:
        if os.path.isdir(path):
            state = read_file(str(checked_manifest(path).path(LEARNER)))
        else:
            state = read_file(os.fspath(path))
        if not isinstance(state, Mapping):
            raise FileRefusedError(f"{os.fspath(path)} is no checkpoint: it holds a {type(state).__name__}")
    except FileRefusedError as error:
        good = next(good_beside(path), None)
        offer = "there is no good one beside it" if good is None else f"the newest good one beside it is {good}"
        raise FileRefusedError(f"{error}; {offer}") from error
    except KeyError as error:
        raise FileRefusedError(f"{os.fspath(path)} holds no state of a learner") from error
    return dict(state)


def only_acts(state: Mapping[str, Any]) -> bool:
    """Return whether a state suffices to act but not to learn: it has no optimiser, for example.

    Agents and parallel runs save evaluated policies in this form.
    """
    return set(state) - {"normalization"} == {"model"}


def good_numbered(
    folder: PathLike, name: str, check: Callable[[Path], Manifest] = checked_manifest
) -> Iterator[Manifest]:
    """Yield the manifests of the intact checkpoints ``<name>_<n>`` in a folder, newest first; damaged ones are logged.

    The newest is the one written last, or the one with the highest number if the writers did not record the time.

    Args:
        check: Returns the manifest of an intact checkpoint, and raises like :func:`checked_manifest`.
    """
    by_number = reversed(numbered(folder, name))
    for path in sorted((path for _, path in by_number), key=_written_s, reverse=True):
        try:
            manifest = check(path)
        except FileNotFoundError:
            logger.info("%s is passed over: it was not written to its end", path)
        except FileRefusedError as error:
            logger.warning("%s is passed over: %s", path, error)
        else:
            yield manifest


def _written_s(folder: Path) -> float:
    """Return when a checkpoint was written, in seconds: 0 if not recorded, infinity if the checkpoint is damaged."""
    with contextlib.suppress(OSError, FileRefusedError, TypeError, ValueError):
        return float(read_manifest(folder).notes.get("written_s", 0.0))
    return math.inf


def good_beside(path: PathLike) -> Iterator[Path]:
    """Return the classic files of the other readable checkpoints in the folder of ``path``, most train iterations
    first.
    """
    given = Path(path)
    own = {given, folder_of(given), given.with_name(given.name + CLASSIC_SUFFIX)}
    others = [other for other in given.parent.glob(f"*{CLASSIC_SUFFIX}") if other not in own and other.is_file()]
    for other in sorted(others, key=progress_of, reverse=True):
        with contextlib.suppress(FileRefusedError, OSError):
            if isinstance(read_file(str(other)), Mapping):
                yield other


def train_iter_of(path: PathLike) -> int | None:
    """Return the train iteration of a checkpoint, given as a folder or a classic file.

    Recorded by the writer, else taken from a file name such as ``iteration_500``; None if neither is available.
    """
    folder = folder_of(path) or Path(path)
    with contextlib.suppress(OSError, FileRefusedError, LookupError, TypeError, ValueError):
        return int(read_manifest(folder).notes["train_iter"])
    match = _BY_ITERATION.fullmatch(folder.name)
    return None if match is None else int(match[1])


def progress_of(path: PathLike) -> tuple[int, int]:
    """Return the sort key of a checkpoint: the train iteration (-1 if unknown), then the time of the last write.

    The time comes second because the system clock may be set back.
    """
    train_iter = train_iter_of(path)
    return -1 if train_iter is None else train_iter, os.stat(path).st_mtime_ns


# ------------------------------------------------------------------ parts


def _names_in_use(folder: Path) -> set[str]:
    try:
        return {str(entry["name"]) for entry in read_manifest(folder).parts.values()}
    except (FileNotFoundError, FileRefusedError):
        return set()


def _file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(_PART_BYTES):
            digest.update(part)
    return digest.hexdigest()


def _digest_of(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _versions() -> dict[str, str]:
    return {
        "ding": ding.__version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
