"""The copy of chunks in memory: what is read is what was put, however large the chunks are."""

import numpy as np
import pytest
import torch

from ding.data import SchemaError, TransitionBatch
from ding.parallel.planes import open_planes
from ding.worker.learner.comm.batch_loader import RowCache

RING = 1024


class Chunks:
    """A data plane of chunks whose rows all hold the number of the chunk."""

    def __init__(self):
        self.sizes = []
        self.reads = 0

    def add(self, rows):
        self.sizes.append(rows)
        return str(len(self.sizes) - 1)

    def get(self, chunk):
        self.reads += 1
        rows = self.sizes[int(chunk)]
        return TransitionBatch.unchecked({"number": np.full(rows, int(chunk))}, rows)


def ends_of(cache, chunk, rows):
    return cache.read([chunk], np.array([[0, 0], [0, rows - 1]]))["number"].tolist()


def test_large_chunks_do_not_overwrite_what_is_taken_for_kept():
    plane = Chunks()
    cache = RowCache(plane, RING // 2, 1 << 20)
    # The fourth and the fifth each begin at the front, while the third still lies at the back.
    for rows in (400, 400, 224, 500, 600):
        ends_of(cache, plane.add(rows), rows)
    assert ends_of(cache, "3", 500) == [3, 3]


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_chunks_of_any_size_are_their_own(seed):
    generator = np.random.default_rng(seed)
    plane = Chunks()
    cache = RowCache(plane, RING // 2, 1 << 20)
    for _ in range(300):
        plane.add(int(generator.integers(1, RING * 3 // 4)))
        newest = len(plane.sizes) - 1
        for chunk in {newest, *generator.integers(max(0, newest - 4), newest + 1, 3).tolist()}:
            assert ends_of(cache, str(chunk), plane.sizes[chunk]) == [chunk, chunk]


@pytest.fixture
def plane(planes_kind, new_root):
    return open_planes(planes_kind, new_root(), "").data()


@pytest.fixture(params=[0, 1 << 20], ids=["without a ring", "with a ring"])
def rows_of(request, plane):
    """Reads rows of chunks, with and without a copy of them in memory."""
    return RowCache(plane, RING // 2, request.param).read


def batch_of(first, rows):
    ids = np.arange(first, first + rows)
    columns = {"obs": torch.arange(first, first + rows).reshape(rows, 1) * 1.0, "action": ids, "done": ids % 3 == 0}
    return TransitionBatch(columns)


def put(plane, columns):
    return plane.put(TransitionBatch(columns))["chunk"]


def test_rows_come_in_the_order_asked_for(plane, rows_of):
    chunks = [plane.put(batch_of(100 * i, 10))["chunk"] for i in range(3)]
    for _ in range(2):
        columns = rows_of(chunks, [[2, 5], [0, 0], [2, 1], [1, 9], [0, 0]])
        assert columns["action"].tolist() == [205, 0, 201, 109, 0]
        assert columns["obs"].flatten().tolist() == [205, 0, 201, 109, 0]
        assert columns["done"].tolist() == [False, True, True, False, True]


def test_the_rows_are_the_callers_own(plane, rows_of):
    chunk = plane.put(batch_of(1, 4))["chunk"]
    rows_of([chunk], [[0, 1]])["obs"].zero_()
    assert rows_of([chunk], [[0, 1]])["obs"].tolist() == [[2.0]]
    assert plane.get(chunk).columns["obs"].flatten().tolist() == [1, 2, 3, 4]


def test_all_kinds_of_columns(plane, rows_of):
    nested = {"half": torch.arange(6, dtype=torch.bfloat16).reshape(3, 2), "flag": np.array([True, False, True])}
    chunks = [put(plane, {"nested": nested, "name": ["a", None, ("c", 1)]}) for _ in range(2)]
    for _ in range(2):
        found = rows_of(chunks, [[1, 2], [0, 0], [1, 0]])
        assert found["nested"]["half"].dtype == torch.bfloat16
        assert found["nested"]["half"].tolist() == [[4, 5], [0, 1], [0, 1]]
        assert found["nested"]["flag"].tolist() == [True, True, True]
        assert found["name"] == [("c", 1), "a", "a"]


@pytest.mark.parametrize(
    "other",
    [
        {"y": np.zeros(2)},
        {"x": {"z": np.zeros(2)}},
        {"x": np.zeros(2, np.float32)},
        {"x": np.zeros((2, 1))},
        {"x": torch.zeros(2, dtype=torch.float64)},
        {"x": [1, 2]},
    ],
)
def test_chunks_that_do_not_fit_together(plane, rows_of, other):
    chunks = [put(plane, {"x": np.zeros(2)}), put(plane, other)]
    for order in (chunks, chunks[::-1]):
        with pytest.raises(SchemaError, match=r": these chunks .* another version .* --load-path"):
            rows_of(order, [[0, 0], [1, 0]])
    assert rows_of(chunks[:1], [[0, 1]])["x"].tolist() == [0.0]


def test_nothing(rows_of):
    assert rows_of([], []) == {}


@pytest.mark.parametrize("place", [[0, 4], [1, 0], [-1, 0], [0, -1]])
def test_out_of_range(plane, rows_of, place):
    chunk = plane.put(batch_of(0, 4))["chunk"]
    with pytest.raises(IndexError):
        rows_of([chunk], [place])


def test_a_chunk_larger_than_the_ring_is_read_all_the_same(plane):
    cache = RowCache(plane, RING // 2, 1 << 20)
    chunks = [plane.put(batch_of(0, 10))["chunk"], plane.put(batch_of(0, 2 * RING))["chunk"]]
    assert cache.read(chunks, [[1, 2000], [0, 3]])["action"].tolist() == [2000, 3]


def test_what_is_in_the_ring_needs_the_plane_no_more(plane):
    cache = RowCache(plane, RING // 2, 1 << 20)
    chunks = [plane.put(batch_of(0, 10))["chunk"]]
    cache.read(chunks, [[0, 3]])
    plane.release(chunks)
    assert cache.read(chunks, [[0, 4]])["action"].tolist() == [4]
