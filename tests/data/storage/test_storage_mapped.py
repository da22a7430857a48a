"""Storages whose rows lie in memory-mapped files."""

import contextlib
import errno
import fcntl
import os
import resource
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from ding.data.storage import MappedFiles, StorageOptions, make_storage, mapped

KINDS = [{"elide_next_obs": False}, {"elide_next_obs": True}, {"frame_stack": 4}]
CAPACITY = 64


def rows(first, count):
    """Rows of 64 KiB for each of two observations, which no other row shares."""
    number = torch.arange(first, first + count)
    obs = number[:, None, None] * torch.ones(4, 4096)
    return {"obs": obs, "next_obs": -1 - obs, "n": number.numpy()}


@contextlib.contextmanager
def largest_file(nbytes):
    """No file may become larger than ``nbytes``."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def full_disk(monkeypatch):
    """A disk that has no space beyond what files have already."""

    def refuse(fd, offset, nbytes):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", refuse)
        yield


def check(storage, numbers):
    read = storage.read(np.arange(len(numbers))).columns
    assert read["n"].tolist() == numbers
    assert read["obs"][:, 0, 0].tolist() == numbers
    assert read["next_obs"][:, 3, -1].tolist() == [-1 - number for number in numbers]


@pytest.mark.parametrize("options", KINDS)
def test_a_write_without_space_is_refused_and_succeeds_later(options, tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "_STEP_BYTES", 1 << 16)
    storage = make_storage(rows(0, 1), CAPACITY, StorageOptions(path=str(tmp_path), **options))
    storage.write(0, rows(0, 4), 4)
    with full_disk(monkeypatch), pytest.raises(OSError, match=r"rows need \d+ more bytes: .*obs") as caught:
        storage.write(2, rows(100, 62), 62)
    assert os.path.dirname(caught.value.filename) == str(tmp_path)
    check(storage, [0, 1, 2, 3])
    storage.write(2, rows(100, 62), 62)
    check(storage, [0, 1, *range(100, 162)])
    # The ring goes round: nothing more is needed.
    with full_disk(monkeypatch):
        storage.write(60, rows(200, 4), 4)
        storage.write(62, rows(300, 4), 4)
    check(storage, [302, 303, *range(100, 158), 200, 201, 300, 301])
    storage.close()
    assert os.listdir(tmp_path) == []


def test_small_rows_are_refused_where_there_is_no_space(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "_STEP_BYTES", 32)
    source = {"x": torch.arange(8.0)[:, None] * torch.ones(2), "y": torch.ones(8, 2)}
    part = {key: leaf[4:6] for key, leaf in source.items()}
    storage = make_storage(source, 10, StorageOptions(path=str(tmp_path)))
    # Rows of 16 bytes, 8 for each field, four of them to a step.
    storage.write(0, {key: leaf[:3] for key, leaf in source.items()}, 3)
    storage.write(2, part, 2)
    with full_disk(monkeypatch), pytest.raises(OSError, match="No space"):
        storage.write(3, part, 2)
    assert storage.read(np.arange(5)).columns["x"][:, 1].tolist() == [0, 1, 4, 5, 0]
    storage.write(8, part, 2)
    storage.write(7, part, 2)
    storage.write(9, part, 2)
    assert storage.read(np.arange(10)).columns["x"][:, 1].tolist() == [5, 1, 4, 5, 0, 0, 0, 4, 5, 4]


def test_space_is_taken_as_rows_come(tmp_path):
    storage = make_storage(rows(0, 1), 1 << 20, StorageOptions(path=str(tmp_path), elide_next_obs=False))
    storage.write(0, rows(0, 2), 2)
    sizes = {entry.name.split("-")[-1]: entry.stat() for entry in os.scandir(tmp_path)}
    assert sizes["obs.bin"].st_size == 1 << 36
    assert sizes["obs.bin"].st_blocks * 512 <= 1 << 23


ON_A_SMALL_DISK = """
import os, sys
import numpy as np
import torch
from ding.data.storage import StorageOptions, make_storage

folder, number = sys.argv[1], 0
filler = open(os.path.join(folder, "filler"), "wb")
os.posix_fallocate(filler.fileno(), 0, 4 << 20)
def rows(first):
    obs = torch.arange(first, first + 8)[:, None] * torch.ones(1 << 14)
    return {"obs": obs, "next_obs": -1 - obs}
storage = make_storage(rows(0), 10_000, StorageOptions(path=folder, elide_next_obs=sys.argv[2] == "True"))
try:
    while True:
        storage.write(number, rows(number), 8)
        number += 8
except OSError as error:
    os.remove(filler.name)
    filler.close()
    storage.write(number, rows(number), 8)
    read = storage.read(np.arange(number + 8)).columns
    assert read["obs"][:, -1].tolist() == list(range(number + 8))
    assert read["next_obs"][:, 0].tolist() == [-1 - n for n in range(number + 8)]
    print(error.strerror, number)
"""


@pytest.mark.parametrize("elide", [True, False])
def test_a_full_file_system_does_not_end_the_process(elide, tmp_path):
    """Without space for a page that is written, the kernel sends SIGBUS."""
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(tmp_path)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a file system is not allowed here")
    try:
        child = [sys.executable, "-c", ON_A_SMALL_DISK, str(tmp_path), str(elide)]
        told = subprocess.run(child, capture_output=True, text=True, timeout=60)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert told.returncode == 0, told.stderr
    assert "No space left on device" in told.stdout


def test_a_file_that_cannot_be_so_large_is_named_and_leaves_nothing(tmp_path):
    with largest_file(1 << 20), pytest.raises(OSError, match=r"rows need \d+ bytes: .*obs") as caught:
        make_storage(rows(0, 1), CAPACITY, StorageOptions(path=str(tmp_path)))
    # Also while somebody still looks at the error.
    assert os.path.dirname(caught.value.filename) == str(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_none_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_storage(rows(0, 1), CAPACITY, StorageOptions(path=str(tmp_path / "file")))


def test_a_long_name_of_a_field_is_no_name_of_a_file(tmp_path):
    source = {"x/" * 300: torch.ones(1, 1000)}
    storage = make_storage(source, 2, StorageOptions(path=str(tmp_path)))
    storage.write(1, source, 1)
    assert storage.read(np.array([1])).columns["x/" * 300].sum() == 1000


def test_fields_of_similar_names_have_files_of_their_own(tmp_path):
    source = {name: torch.full((1, 1000), value) for name, value in (("x/y", 1.0), ("x_y", 2.0), ("x y", 3.0))}
    storage = make_storage(source, 2, StorageOptions(path=str(tmp_path)))
    storage.write(1, source, 1)
    assert [leaf[0, 0].item() for leaf in storage.read(np.array([1])).columns.values()] == [1, 2, 3]


def open_files(folder):
    """The open descriptors of this process that lead below ``folder``."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one of this very listing
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [path for path in found if path.startswith(str(folder))]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="reads /proc")
def test_a_closed_storage_keeps_no_descriptor(tmp_path):
    storage = make_storage(rows(0, 1), CAPACITY, StorageOptions(path=str(tmp_path)))
    storage.write(0, rows(0, 1), 1)
    assert open_files(tmp_path)
    storage.close()
    del storage
    assert not open_files(tmp_path)


def test_files_of_killed_processes_go_and_all_others_stay(tmp_path):
    """The kernel gives the lock of a killed process back."""
    used = MappedFiles(str(tmp_path))
    used("obs", (4,), np.dtype(np.float32))[:] = 1
    for name in ("rows-1-0-0-obs.bin", "rows-1-0-0-obs.bin.mine", "data", "rows-77-3-1-locked.bin"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "rows-1-0-0-link.bin").symlink_to(tmp_path / "data")
    before = set(os.listdir(tmp_path))
    with open(tmp_path / "rows-77-3-1-locked.bin", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        MappedFiles(str(tmp_path))
    assert before - set(os.listdir(tmp_path)) == {"rows-1-0-0-obs.bin"}
    used.close()
    assert len(os.listdir(tmp_path)) == len(before) - 2


def test_a_forked_child_does_not_remove_the_files_of_its_parent(tmp_path, monkeypatch):
    files = MappedFiles(str(tmp_path))
    array = files("obs", (4,), np.dtype(np.float32))
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        files.close()
    assert len(os.listdir(tmp_path)) == 1
    array[:] = 3
    assert array.tolist() == [3, 3, 3, 3]
