"""The folders of the snapshots of a serial run: which are good, with the parts of all processes."""

from collections.abc import Iterator
from pathlib import Path

from ding.utils import get_rank
from ding.utils.checkpoint import Manifest, checked_manifest, good_numbered


def good_snapshots(folder: Path) -> Iterator[Path]:
    """Yield the undamaged snapshots in ``ckpt/``, the newest first; those that are damaged are logged."""
    return (manifest.folder for manifest in good_numbered(folder, "snapshot", _checked_of_all_ranks))


def _checked_of_all_ranks(snapshot: Path) -> Manifest:
    manifest = checked_manifest(snapshot)
    for rank in range(1, int(manifest.notes.get("world_size", 1))):
        checked_manifest(_folder_of_rank(snapshot, rank))
    return manifest


def own_folder(snapshot: Path) -> Path:
    """The folder of this process in a snapshot; that of the first one is the snapshot itself."""
    return _folder_of_rank(snapshot, get_rank())


def _folder_of_rank(snapshot: Path, rank: int) -> Path:
    return snapshot / f"rank{rank}" if rank else snapshot
