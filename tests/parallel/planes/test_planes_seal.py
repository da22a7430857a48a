"""Forgeries by a peer that can write to the shared folders, but does not know the token of the run."""

import json
import os
import zlib

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.parallel.planes import BadFrame, ChunkBroken
from ding.parallel.planes.data_plane import pack_batch
from ding.parallel.planes.file.data_plane import FileDataPlane
from ding.parallel.planes.file.weight_plane import FileWeightPlane
from ding.parallel.planes.frames import pack
from ding.parallel.planes.seal import SEAL_BYTES, Seal
from ding.torch_utils.weight_checks import misfit
from ding.utils.credentials import worker_token

OURS, THEIRS = Seal("a token that only we know"), Seal("what somebody guessed")


def batch(value: float = 1) -> TransitionBatch:
    return TransitionBatch({"obs": np.full((3, 2), value)})


@pytest.fixture
def plane(tmp_path):
    return FileDataPlane(tmp_path / "data", "w", seal=OURS)


@pytest.mark.parametrize("seal", [Seal(), THEIRS])
def test_a_well_formed_chunk_of_a_stranger_is_refused(plane, seal) -> None:
    ref = FileDataPlane(plane.root, "forger", seal=seal).put(batch(9))
    with pytest.raises(ChunkBroken, match="quarantine"):
        plane.get(ref)
    assert plane.stats().quarantined_chunks == 1
    assert plane.chunks() == []


def test_all_tokens_of_a_run_make_the_same_seals() -> None:
    learner, collector = (Seal(worker_token("r" * 32, "role", name)) for name in "lc")
    assert (
        learner.close("name", b"frame") == collector.close("name", b"frame") == Seal("r" * 32).close("name", b"frame")
    )


def test_our_own_chunk_under_another_name_is_refused(plane) -> None:
    ref = plane.put(batch())
    crc = ref["chunk"].rpartition(".")[2]
    os.rename(os.path.join(plane.root, ref["chunk"] + ".chunk"), os.path.join(plane.root, f"w-77.{crc}.chunk"))
    with pytest.raises(ChunkBroken, match="seal"):
        plane.get(f"w-77.{crc}")


@pytest.mark.parametrize("at", [0, 9, 60, -1, -40])
def test_one_changed_bit_anywhere_is_refused(plane, at) -> None:
    ref = plane.put(batch())
    path = os.path.join(plane.root, ref["chunk"] + ".chunk")
    with open(path, "rb") as file:
        data = bytearray(file.read())
    data[at] ^= 1
    with open(path, "wb") as file:
        file.write(data)
    with pytest.raises(ChunkBroken):
        plane.get(ref)


def test_with_the_token_it_is_read() -> None:
    frame = pack_batch(batch(), None)
    sealed = OURS.close("name", frame)
    assert len(sealed) == len(frame) + SEAL_BYTES
    assert Seal("a token that only we know").open("name", sealed) == frame
    for other in (b"", sealed[:20], sealed[:-1], sealed + b"x", frame):
        with pytest.raises(BadFrame):
            OURS.open("name", other)


def test_the_token_comes_from_the_run_that_a_process_belongs_to(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("DING_RUN_TOKEN", "a token that only we know")
    ref = FileDataPlane(tmp_path, "w").put(batch(5))
    assert FileDataPlane(tmp_path, "r", seal=OURS).get(ref).columns["obs"][0, 0] == 5


def test_a_sparse_file_is_refused_before_it_is_read(plane) -> None:
    path = os.path.join(plane.root, "w-5.00000000.chunk")
    with open(path, "wb") as file:
        file.truncate(6 << 30)
    with pytest.raises(ChunkBroken, match="at most"):
        plane.get("w-5.00000000")


def test_forged_weights_are_passed_over_and_the_next_good_version_is_taken(tmp_path, caplog) -> None:
    learner = FileWeightPlane(tmp_path, "policy", seal=OURS)
    collector = FileWeightPlane(tmp_path, "policy", seal=OURS)
    learner.publish({"model": {"w": torch.ones(2)}}, 1)
    assert collector.fetch().version == 1
    FileWeightPlane(tmp_path, "policy", seal=THEIRS).publish({"model": {"w": torch.zeros(99)}}, 2)
    assert collector.fetch(1) is None
    assert "seal" in caplog.text
    forge_by_hand(tmp_path / "policy", 3)
    assert collector.fetch(1) is None
    # Ours, under the number of another version.
    forge_by_hand(tmp_path / "policy", 4, OURS.close("policy/1", frame()))
    assert collector.fetch(1) is None
    learner.publish({"model": {"w": torch.full((2,), 5.0)}}, 5)
    found = collector.fetch(1)
    assert (found.version, found.state["model"]["w"].tolist()) == (5, [5.0, 5.0])


def frame() -> bytes:
    return pack({"model": {"w": torch.zeros(2)}}, "weights", None)


def forge_by_hand(folder, version: int, data: bytes | None = None) -> None:
    data = frame() + b"\0" * SEAL_BYTES if data is None else data
    crc = zlib.crc32(data[:-SEAL_BYTES])
    name = f"weights_{version:010d}-{crc:08x}.safetensors"
    (folder / name).write_bytes(data)
    pointer = {"version": version, "file": name, "bytes": len(data), "crc": crc}
    (folder / "newest.json").write_text(json.dumps(pointer))


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"a": torch.zeros(3), "b": {"c": torch.zeros(1)}}, r"1 of another shape \(a is \[3\] there and \[2\] here\)"),
        ({"a": torch.zeros(2)}, r"1 not there \(b\.c\)"),
        ({"a": torch.zeros(2), "b": {"c": torch.zeros(1)}, "d": 1}, r"1 unknown \(d\)"),
        ({"a": [1, 2], "b": {"c": torch.zeros(1)}}, r"a is list there and \[2\] here"),
        ([1], "is a list, expected a dict"),
    ],
)
def test_weights_of_another_network_are_noticed_before_they_are_loaded(state, said) -> None:
    expected = {"a": torch.ones(2), "b": {"c": torch.ones(1)}}
    assert misfit(expected, expected) is None
    with pytest.raises(ValueError, match=said):
        raise ValueError(misfit(state, expected))


def test_who_has_no_token_reads_sealed_weights_and_a_wrong_token_does_not(tmp_path):
    FileWeightPlane(str(tmp_path), "policy", seal=Seal("the token of the run")).publish({"w": torch.ones(3)}, 7)
    fetched = FileWeightPlane(str(tmp_path), "policy", seal=Seal()).fetch()
    assert (fetched.version, fetched.state["w"].tolist()) == (7, [1.0, 1.0, 1.0])
    assert FileWeightPlane(str(tmp_path), "policy", seal=Seal("the token of another")).fetch() is None
