"""The copy of chunks in memory: what is read is what was put, however large the chunks are."""

import numpy as np
import pytest

from ding.data import TransitionBatch
from ding.worker.learner.comm._row_reader import RowReader

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


def ends_of(reader, chunk, rows):
    return reader.read([chunk], np.array([[0, 0], [0, rows - 1]]))["number"].tolist()


def test_large_chunks_do_not_overwrite_what_is_taken_for_kept():
    plane = Chunks()
    reader = RowReader(plane, RING // 2, 1 << 20)
    # The fourth and the fifth each begin at the front, while the third still lies at the back.
    for rows in (400, 400, 224, 500, 600):
        ends_of(reader, plane.add(rows), rows)
    assert ends_of(reader, "3", 500) == [3, 3]


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_chunks_of_any_size_are_their_own(seed):
    generator = np.random.default_rng(seed)
    plane = Chunks()
    reader = RowReader(plane, RING // 2, 1 << 20)
    for _ in range(300):
        plane.add(int(generator.integers(1, RING * 3 // 4)))
        newest = len(plane.sizes) - 1
        for chunk in {newest, *generator.integers(max(0, newest - 4), newest + 1, 3).tolist()}:
            assert ends_of(reader, str(chunk), plane.sizes[chunk]) == [chunk, chunk]
