"""Hostile files and names (S3, S4, S5 of the reliability list) in the shared folders."""

import json
import os
import pickle
import resource
import threading
import time
import tracemalloc
import zlib

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.parallel.planes import BadId, ChunkBroken, ChunkMissing, FileDataPlane, FileWeightPlane

TRAVERSAL = [
    "..",
    ".",
    ".hidden.00000000",
    "../secret.00000000",
    "a/../../secret.00000000",
    "/etc/passwd",
    "/etc/passwd.00000000",
    "a\\..\\b.00000000",
    "a\x00b.00000000",
    "secret.00000000\n",
    "\u2024\u2024\u2215x.00000000",
    "\uff0e\uff0e\uff0fx.00000000",
    "%2e%2e%2fx.00000000",
    "a b.00000000",
    "a" * 4096 + ".00000000",
    "",
]


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def place(root, data: bytes) -> str:
    """Put bytes where a chunk with a matching checksum would be; returns its id."""
    chunk = f"evil.{zlib.crc32(data):08x}"
    (root / f"{chunk}.chunk").write_bytes(data)
    return chunk


def frame(header: "dict | list | bytes", body: bytes = b"", length: "int | None" = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + body


X = ["d", [["x", ["a", 0]]]]


def meta(structure: object = None, **changes) -> dict:
    code = ["d", [["columns", X], ["rows", ["v", 2]], ["lengths", ["v", None]]]]
    return {
        "format": "ding-exchange-1",
        "kind": "chunk",
        "structure": json.dumps(code if structure is None else structure),
        "meta": "{}",
        **changes,
    }


def entry(dtype="I64", shape=(2,), start=0, stop=16) -> dict:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, stop]}


GOOD = frame({"__metadata__": meta(), "a0": entry()}, bytes(16))

HOSTILE = {
    "header length beyond the file": frame({"__metadata__": meta()}, length=1 << 40),
    "header length of all ones": frame({}, length=(1 << 64) - 1),
    "huge header": frame(b'{"a0":"' + b"x" * (30 << 20) + b'"}'),
    "100,000 entries": frame({"__metadata__": meta(), **{f"a{i}": entry() for i in range(100_000)}}),
    "many small entries": frame(b"{" + b",".join(b'"%d":0' % i for i in range(100_000)) + b"}"),
    "many empty dicts": frame(b'{"a0":[' + b"{}," * 340_000 + b"0]}"),
    "deep nesting": frame(b"[" * 900_000),
    "deep structure": frame({"__metadata__": meta(structure="[" * 5000)}),
    "deeper structure": frame({"__metadata__": {**meta(), "structure": '["l",[' * 60_000}}),
    "no JSON": frame(b"\xff\xfe\x00\x01"),
    "a list": frame([1, 2]),
    "a key twice": frame(b'{"a0":{},"a0":{}}'),
    "no metadata": frame({"a0": entry()}, bytes(16)),
    "another kind": frame({"__metadata__": meta(kind="weights"), "a0": entry()}, bytes(16)),
    "unknown dtype": frame({"__metadata__": meta(), "a0": entry(dtype="O")}, bytes(16)),
    "lying dtype": frame({"__metadata__": meta(), "a0": entry(dtype="F32")}, bytes(16)),
    "shape too large": frame({"__metadata__": meta(), "a0": entry(shape=(1 << 62, 1 << 62))}, bytes(16)),
    "negative shape": frame({"__metadata__": meta(), "a0": entry(shape=(-1, -2))}, bytes(16)),
    "empty but huge": frame({"__metadata__": meta(), "a0": entry(shape=(0, 1 << 62), stop=0)}),
    "bool in the shape": frame({"__metadata__": meta(), "a0": entry("U8", [True, 16])}, bytes(16)),
    "float in the shape": frame({"__metadata__": meta(), "a0": entry("U8", [16.0])}, bytes(16)),
    "many dimensions": frame({"__metadata__": meta(), "a0": entry("U8", [1] * 100, 0, 1)}, bytes(1)),
    "offsets beyond the end": frame({"__metadata__": meta(), "a0": entry(start=1 << 40, stop=(1 << 40) + 16)}),
    "offsets backwards": frame({"__metadata__": meta(), "a0": entry(start=16, stop=0)}, bytes(16)),
    "overlap": frame({"__metadata__": meta(), "a0": entry(), "a1": entry(start=8, stop=24)}, bytes(24)),
    "gap": frame({"__metadata__": meta(), "a0": entry(), "a1": entry(start=24, stop=40)}, bytes(40)),
    "bytes of nobody": frame({"__metadata__": meta(), "a0": entry()}, bytes(17)),
    "wrong numbering": frame({"__metadata__": meta(), "a7": entry()}, bytes(16)),
    "structure names no array": frame({"__metadata__": meta(["a", 5])}),
    "structure of an unknown kind": frame({"__metadata__": meta(["pickle", "x"])}),
    "rows that are not there": frame(
        {"__metadata__": meta(["d", [["columns", X], ["rows", ["v", 9]], ["lengths", ["v", None]]]]), "a0": entry()},
        bytes(16),
    ),
    "no batch": frame({"__metadata__": meta(["v", 3])}),
    "meta that is no dict": frame({"__metadata__": meta(meta="[]"), "a0": entry()}, bytes(16)),
}  # fmt: skip


def test_the_template_of_these_files_is_sound(tmp_path):
    plane = FileDataPlane(tmp_path)
    assert plane.get(place(tmp_path, GOOD)).columns["x"].tolist() == [0, 0]


@pytest.mark.parametrize("name", HOSTILE)
def test_s5_hostile_files_are_refused_quickly_and_with_little_memory(tmp_path, name):
    plane = FileDataPlane(tmp_path)
    chunk = place(tmp_path, HOSTILE[name])
    tracemalloc.start()
    try:
        with pytest.raises(ChunkBroken):
            plane.get(chunk)
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()
    # Again without the tracer, which is slow: the CPU time of the quickest of five, so that neither a busy machine nor
    # a busy host of it can fail the test.
    seconds = []
    for _ in range(5):
        chunk = place(tmp_path, HOSTILE[name])
        start = time.process_time()
        with pytest.raises(ChunkBroken):
            plane.get(chunk)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.1


def test_s5_a_sparse_giant_is_refused_without_reading_it(tmp_path):
    plane = FileDataPlane(tmp_path)
    with open(tmp_path / "giant.00000000.chunk", "wb") as file:
        file.write(frame({"__metadata__": meta(), "a0": entry()}))
        file.truncate(1 << 40)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ChunkBroken):
        plane.get("giant.00000000")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10


def test_s4_a_pickle_as_data_is_never_run(tmp_path):
    proof = tmp_path / "proof"
    plane = FileDataPlane(tmp_path / "data")
    torch.save(Payload(proof), tmp_path / "torch.pt")
    for data in (pickle.dumps(Payload(proof)), (tmp_path / "torch.pt").read_bytes()):
        with pytest.raises(ChunkBroken):
            plane.get(place(tmp_path / "data", data))
    assert not proof.exists()


def test_s4_a_pickle_as_policy_is_never_run(tmp_path):
    proof = tmp_path / "proof"
    plane = FileWeightPlane(tmp_path, "p")
    plane.publish({"w": torch.ones(1)}, 1)
    data = pickle.dumps(Payload(proof))
    name = f"weights_2-{zlib.crc32(data):08x}.safetensors"
    (tmp_path / "p" / name).write_bytes(data)
    pointer = {"version": 2, "file": name, "bytes": len(data), "crc": zlib.crc32(data)}
    (tmp_path / "p" / "newest.json").write_text(json.dumps(pointer))
    assert plane.fetch() is None
    (tmp_path / "p" / "newest.json").write_bytes(data)
    assert plane.fetch() is None
    assert not proof.exists()


@pytest.mark.parametrize("name", TRAVERSAL)
def test_s3_no_id_leaves_the_root(tmp_path, name):
    root = tmp_path / "run" / "data"
    plane = FileDataPlane(root)
    secret = tmp_path / "run" / "secret.00000000.chunk"
    secret.write_bytes(GOOD)
    for call in (plane.get, plane.meta, lambda chunk: plane.release([chunk])):
        with pytest.raises(BadId):
            call(name)
        with pytest.raises(BadId):
            call({"chunk": name, "rows": 1, "bytes": 1})
    with pytest.raises(BadId):
        FileWeightPlane(tmp_path / "policies", name)
    assert secret.exists()
    assert os.listdir(root) == []
    assert not (tmp_path / "policies").exists() or os.listdir(tmp_path / "policies") == []


def test_s3_links_and_pipes_are_not_followed(tmp_path):
    root = tmp_path / "data"
    plane = FileDataPlane(root)
    secret = tmp_path / "secret"
    secret.write_bytes(GOOD)
    os.symlink(secret, root / f"link.{zlib.crc32(GOOD):08x}.chunk")
    os.mkfifo(root / "pipe.00000000.chunk")
    with pytest.raises(ChunkBroken, match="a link"):
        plane.get(f"link.{zlib.crc32(GOOD):08x}")
    with pytest.raises(ChunkBroken, match="plain file"):
        plane.get("pipe.00000000")
    assert plane.stats().quarantined_chunks == 2
    assert secret.read_bytes() == GOOD


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_s3_a_pointer_to_weights_that_is_no_plain_file_is_passed_over(tmp_path, kind):
    other = FileWeightPlane(tmp_path, "other")
    other.publish({"w": torch.ones(1)}, 7)
    plane = FileWeightPlane(tmp_path, "p")
    pointer = tmp_path / "p" / "newest.json"
    if kind == "pipe":
        os.mkfifo(pointer)
    elif kind == "link":
        os.symlink(tmp_path / "other" / "newest.json", pointer)
    else:
        pointer.mkdir()
    found = []
    reader = threading.Thread(target=lambda: found.append((plane.newest(), plane.fetch())), daemon=True)
    reader.start()
    reader.join(10.0)
    assert found == [(None, None)]
    assert plane.broken_versions == 1


def test_s3_the_quarantine_is_not_a_chunk(tmp_path):
    plane = FileDataPlane(tmp_path)
    chunk = place(tmp_path, b"broken")
    with pytest.raises(ChunkBroken):
        plane.get(chunk)
    with pytest.raises(BadId):
        plane.get(f"quarantine/{chunk}")
    with pytest.raises((BadId, ChunkMissing)):
        plane.get("quarantine")


def test_a_temporary_file_is_not_followed_either(tmp_path):
    plane = FileDataPlane(tmp_path / "data")
    plane.put(TransitionBatch({"x": np.arange(2)}))
    (chunk,) = os.listdir(tmp_path / "data")
    assert os.stat(tmp_path / "data" / chunk).st_mode & 0o077 == 0
