"""Snapshot folders of a serial run, and their validity including the parts of all processes."""

from collections.abc import Iterator
from pathlib import Path

from ding.utils import get_rank
from ding.utils.checkpoint import Manifest, checked_manifest, good_numbered


def good_snapshots(folder: Path) -> Iterator[Path]:
    """Yield the undamaged snapshots in ``ckpt/``, newest first; damaged ones are logged."""
    return (manifest.folder for manifest in good_numbered(folder, "snapshot", _checked_of_all_ranks))


def _checked_of_all_ranks(snapshot: Path) -> Manifest:
    manifest = checked_manifest(snapshot)
    for rank in range(1, int(manifest.notes.get("world_size", 1))):
        checked_manifest(_folder_of_rank(snapshot, rank))
    return manifest


def own_folder(snapshot: Path) -> Path:
    """Return the folder of this process in a snapshot; for the first process it is the snapshot itself."""
    return _folder_of_rank(snapshot, get_rank())


def _folder_of_rank(snapshot: Path, rank: int) -> Path:
    return snapshot / f"rank{rank}" if rank else snapshot
