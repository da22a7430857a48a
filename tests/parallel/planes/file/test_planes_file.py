"""What is special about the planes in a folder: broken files, full disks, dead writers, readers beside a writer."""

import errno
import os
import socket
import subprocess
import sys
import threading
import zlib

import numpy as np
import pytest
import torch
from safetensors import safe_open

from ding.data import TransitionBatch
from ding.parallel.planes import (
    ChunkBroken,
    ChunkMissing,
    FileDataPlane,
    FileWeightPlane,
    StorageDenied,
    StorageError,
    StorageFull,
)


def batch_of(rows: int, width: int = 4, fill: float = 1.0) -> TransitionBatch:
    return TransitionBatch({"obs": torch.full((rows, width), fill), "t": np.arange(rows)})


def path_of(plane: FileDataPlane, ref) -> str:
    return os.path.join(plane.root, ref["chunk"] + ".chunk")


def files_in(folder) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.fixture
def read_only_view(tmp_path):
    """The folder ``policies``, as it is where it was mounted read-only."""
    folder, view = tmp_path / "policies", tmp_path / "view"
    folder.mkdir()
    view.mkdir()
    if subprocess.run(["mount", "--bind", str(folder), str(view)], capture_output=True).returncode:
        pytest.skip("mounting a folder is not permitted here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(view)], check=True, capture_output=True)
        yield view
    finally:
        subprocess.run(["umount", str(view)], check=True)


class TestFormat:
    def test_any_reader_of_safetensors_finds_the_arrays(self, tmp_path):
        plane = FileDataPlane(tmp_path)
        columns = {"flag": np.array([True, False]), "obs": torch.tensor([[1.5], [2.5]]), "n": np.array([1, 2])}
        with safe_open(path_of(plane, plane.put(TransitionBatch(columns))), "pt") as file:
            found = {name: file.get_tensor(name).tolist() for name in file.keys()}  # noqa: SIM118
        assert found == {"a0": [True, False], "a1": [[1.5], [2.5]], "a2": [1, 2]}

    def test_the_size_is_that_of_the_file(self, tmp_path):
        plane = FileDataPlane(tmp_path)
        ref = plane.put(batch_of(3))
        assert os.path.getsize(path_of(plane, ref)) == ref["bytes"]

    def test_arrays_lie_aligned(self, tmp_path):
        plane = FileDataPlane(tmp_path)
        columns = {"a": np.zeros(3, np.uint8), "b": np.arange(3.0), "c": np.zeros((3, 3), np.int16)}
        back = FileDataPlane(tmp_path).get(plane.put(TransitionBatch(columns))).columns
        assert all(leaf.flags.aligned and leaf.flags.writeable for leaf in back.values())


class TestReading:
    def test_writing_into_a_chunk_leaves_the_file_alone(self, tmp_path):
        plane = FileDataPlane(tmp_path)
        ref = plane.put(batch_of(100))
        plane.get(ref).columns["obs"].zero_()
        assert torch.equal(plane.get(ref).columns["obs"], torch.ones(100, 4))

    def test_a_chunk_outlives_its_release(self, tmp_path):
        plane = FileDataPlane(tmp_path)
        ref = plane.put(batch_of(100))
        batch = plane.get(ref)
        plane.release([ref])
        assert float(batch.columns["obs"].sum()) == 400


class TestBroken:
    @pytest.mark.parametrize("at", [0, 9, 200, -1])
    def test_a_flipped_byte_is_found_and_the_file_put_aside(self, tmp_path, at):
        plane = FileDataPlane(tmp_path)
        ref = plane.put(batch_of(30))
        with open(path_of(plane, ref), "r+b") as file:
            data = bytearray(file.read())
            data[at] ^= 0x10
            file.seek(0)
            file.write(data)
        with pytest.raises(ChunkBroken, match="quarantine"):
            plane.get(ref)
        assert plane.stats().quarantined_chunks == 1
        assert plane.chunks() == []
        assert files_in(tmp_path / "quarantine") == [ref["chunk"] + ".chunk"]
        with pytest.raises(ChunkMissing):
            plane.get(ref)

    @pytest.mark.parametrize("kept", [0, 5, 100, -1])
    def test_a_truncated_file_is_found(self, tmp_path, kept):
        plane = FileDataPlane(tmp_path)
        ref = plane.put(batch_of(30))
        os.truncate(path_of(plane, ref), kept % ref["bytes"])
        with pytest.raises(ChunkBroken):
            plane.get(ref)

    def test_a_chunk_under_another_name_is_found(self, tmp_path):
        plane = FileDataPlane(tmp_path)
        one, two = plane.put(batch_of(3)), plane.put(batch_of(3, fill=2.0))
        os.replace(path_of(plane, one), path_of(plane, two))
        with pytest.raises(ChunkBroken):
            plane.get(two)

    def test_one_percent_of_broken_files_costs_only_these(self, tmp_path):
        plane = FileDataPlane(tmp_path)
        refs = [plane.put(batch_of(8, fill=i)) for i in range(200)]
        for i in (50, 150):
            os.truncate(path_of(plane, refs[i]), 100)
        good = []
        for i, ref in enumerate(refs):
            try:
                assert float(plane.get(ref).columns["obs"][0, 0]) == i
                good.append(i)
            except ChunkBroken:
                assert i in (50, 150)
        assert len(good) == 198
        assert plane.stats().quarantined_chunks == 2

    def test_the_quarantine_is_bounded(self, tmp_path):
        plane = FileDataPlane(tmp_path, keep_quarantined=2)
        for _ in range(5):
            ref = plane.put(batch_of(3))
            os.truncate(path_of(plane, ref), 3)
            with pytest.raises(ChunkBroken):
                plane.get(ref)
        assert len(files_in(tmp_path / "quarantine")) == 2


class TestNoSpace:
    @pytest.mark.parametrize(
        ("code", "error"),
        [
            (errno.ENOSPC, StorageFull),
            (errno.EDQUOT, StorageFull),
            (errno.EROFS, StorageDenied),
            (errno.EACCES, StorageDenied),
            (errno.EIO, StorageError),
        ],
    )
    def test_a_failed_write_leaves_nothing_and_the_next_one_works(self, tmp_path, monkeypatch, code, error):
        plane = FileDataPlane(tmp_path)
        written = []

        def write(fd, data):
            if written:
                raise OSError(code, os.strerror(code))
            written.append(real(fd, data[:10]))
            return written[0]

        real = os.write
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write)
            with pytest.raises(error) as caught:
                plane.put(batch_of(3))
        assert type(caught.value) is error
        assert str(plane.root) in str(caught.value)
        assert files_in(tmp_path) == []
        assert plane.stats().refused_puts == 1
        assert len(plane.get(plane.put(batch_of(3)))) == 3

    def test_a_small_tmpfs(self, tmp_path):
        root = tmp_path / "small"
        root.mkdir()
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(root)], capture_output=True
        ).returncode:
            pytest.skip("mounting a tmpfs is not permitted here; the faked failures cover the rest")
        try:
            plane = FileDataPlane(root)
            refs = []

            def fill() -> None:
                while True:
                    refs.append(plane.put(batch_of(100, width=100)))

            with pytest.raises(StorageFull, match="release"):
                fill()
            assert all(len(FileDataPlane(root).get(ref)) == 100 for ref in refs)
            assert len(files_in(root)) == len(refs)
            plane.release(refs[:2])
            refs = refs[2:] + [plane.put(batch_of(100, width=100))]
            subprocess.run(["mount", "-o", "remount,ro", str(root)], check=True, capture_output=True)
            with pytest.raises(StorageDenied, match=r"[Rr]ead-only"):
                plane.put(batch_of(1))
            with pytest.raises(StorageDenied):
                plane.release(refs)
            subprocess.run(["mount", "-o", "remount,rw", str(root)], check=True, capture_output=True)
            assert plane.release(refs) == len(refs)
        finally:
            subprocess.run(["umount", str(root)], check=True)

    def test_a_refused_put_costs_no_share(self, tmp_path, monkeypatch):
        size = FileDataPlane(tmp_path / "a").put(batch_of(3))["bytes"]
        plane = FileDataPlane(tmp_path / "b", max_bytes=size)
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", _no_space)
            with pytest.raises(StorageFull):
                plane.put(batch_of(3))
        plane.put(batch_of(3))

    def test_what_others_wrote_and_removed_counts(self, tmp_path):
        other = FileDataPlane(tmp_path)
        ref = other.put(batch_of(3))
        plane = FileDataPlane(tmp_path, max_bytes=ref["bytes"])
        with pytest.raises(StorageFull):
            plane.put(batch_of(3))
        other.release([ref])
        plane.put(batch_of(3))

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(StorageError):
            FileDataPlane(tmp_path / "file" / "data")


def _no_space(*args):
    raise OSError(errno.ENOSPC, "no space")


class TestDeadWriters:
    def test_their_temporary_files_are_removed(self, tmp_path):
        child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
        host = f"{zlib.crc32(socket.gethostname().encode()):08x}"
        dead = tmp_path / f".{host}-{int(child.stdout)}-0.tmp"
        alive = tmp_path / f".{host}-{os.getpid()}-99.tmp"
        elsewhere = tmp_path / ".00000000-1-0.tmp"
        for path in (dead, alive, elsewhere):
            path.touch()
        FileDataPlane(tmp_path)
        assert files_in(tmp_path) == sorted([alive.name, elsewhere.name])

    def test_old_ones_are_removed_wherever_they_came_from(self, tmp_path):
        elsewhere = tmp_path / ".00000000-1-0.tmp"
        elsewhere.touch()
        os.utime(elsewhere, (1, 1))
        FileDataPlane(tmp_path)
        assert files_in(tmp_path) == []

    def test_a_writer_killed_in_the_middle_leaves_no_torn_file(self, tmp_path):
        code = (
            "import sys, torch\n"
            "from ding.data import TransitionBatch\n"
            "from ding.parallel.planes import FileDataPlane\n"
            "plane = FileDataPlane(sys.argv[1])\n"
            "batch = TransitionBatch({'x': torch.ones(1000, 100)})\n"
            "print('ready', flush=True)\n"
            "while True: plane.put(batch)\n"
        )
        child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
        try:
            assert child.stdout.readline() == b"ready\n"
            reader = FileDataPlane(tmp_path)
            while not reader.chunks():
                pass
        finally:
            child.kill()
            child.wait(10)
            child.stdout.close()
        reader = FileDataPlane(tmp_path)
        assert all(name.endswith(".chunk") for name in files_in(tmp_path))
        assert all(len(reader.get(chunk)) == 1000 for chunk in reader.chunks()[:50])


class TestWeightFiles:
    def test_the_last_versions_are_kept(self, tmp_path):
        plane = FileWeightPlane(tmp_path, "p", keep_versions=3)
        for version in range(6):
            plane.publish({"w": torch.full((2,), float(version))}, version)
        names = files_in(tmp_path / "p")
        assert names[0] == "newest.json"
        assert [name[:18] for name in names[1:]] == [f"weights_{version:010d}" for version in (3, 4, 5)]

    def test_a_reader_beside_a_writer_never_sees_a_half(self, tmp_path):
        writer, reader = FileWeightPlane(tmp_path, "p"), FileWeightPlane(tmp_path, "p", look_interval_s=0.001)
        last = 150
        seen = []

        def read() -> None:
            version = -1
            while version != last:
                found = reader.fetch(version, timeout_s=30)
                version = found.version
                seen.append((version, {float(leaf) for tensor in found.state.values() for leaf in tensor.unique()}))

        thread = threading.Thread(target=read)
        thread.start()
        for version in range(last + 1):
            writer.publish({str(i): torch.full((500,), float(version)) for i in range(4)}, version)
        thread.join(30)
        assert not thread.is_alive()
        assert all(values == {float(version)} for version, values in seen)
        assert [version for version, _ in seen] == sorted({version for version, _ in seen})
        assert reader.broken_versions == 0

    def test_a_broken_version_is_passed_over(self, tmp_path):
        plane = FileWeightPlane(tmp_path, "p")
        plane.publish({"w": torch.ones(3)}, 1)
        (file,) = (tmp_path / "p").glob("weights_*")
        os.truncate(file, 50)
        reader = FileWeightPlane(tmp_path, "p")
        assert reader.fetch(timeout_s=0.01) is None
        assert reader.fetch() is None
        assert reader.broken_versions == 1
        plane.publish({"w": torch.ones(3)}, 2)
        assert reader.fetch().version == 2

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[" * 4000,
            "{}",
            '{"version": 1, "file": "../../etc/passwd", "bytes": 1, "crc": 0}',
            '{"version": true, "file": "weights_1-00000000.safetensors", "bytes": 1, "crc": 0}',
        ],
    )
    def test_a_broken_pointer_is_no_version(self, tmp_path, text):
        plane = FileWeightPlane(tmp_path, "p")
        plane.publish({"w": torch.ones(3)}, 1)
        (tmp_path / "p" / "newest.json").write_text(text)
        assert plane.fetch() is None
        assert plane.newest() is None
        plane.publish({"w": torch.ones(3)}, 2)
        assert plane.fetch().version == 2

    def test_a_full_disk_keeps_the_version_before(self, tmp_path, monkeypatch):
        plane = FileWeightPlane(tmp_path, "p")
        plane.publish({"w": torch.ones(3)}, 1)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", _no_space)
            with pytest.raises(StorageFull):
                plane.publish({"w": torch.ones(3)}, 2)
        assert plane.fetch().version == 1
        assert not [name for name in files_in(tmp_path / "p") if name.endswith(".tmp")]

    def test_a_reader_needs_no_right_to_write(self, tmp_path, read_only_view):
        """Where collectors have the policies read-only, weights are the learner's alone, whatever a collector knows."""
        reader = FileWeightPlane(read_only_view, "p")
        assert reader.fetch() is None
        learner = FileWeightPlane(tmp_path / "policies", "p")
        learner.publish({"w": torch.ones(3)}, 1)
        assert reader.fetch().version == 1
        with pytest.raises(StorageDenied, match="Read-only"):
            reader.publish({"w": torch.zeros(3)}, 2)
        assert learner.fetch().version == 1

    def test_at_least_one_version_is_kept(self, tmp_path):
        with pytest.raises(ValueError, match="keep_versions"):
            FileWeightPlane(tmp_path, "p", keep_versions=0)
