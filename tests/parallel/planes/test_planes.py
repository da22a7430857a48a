"""What every data plane and weight plane does, whatever it is made of."""

import threading

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.parallel.planes import (
    BadFrame,
    BadId,
    ChunkMissing,
    FileDataPlane,
    StorageFull,
    new_writer_name,
    open_planes,
)


@pytest.fixture
def planes(planes_kind, new_root):
    """The planes of a run, of each kind."""
    root = new_root()
    return open_planes(planes_kind, root, root)


@pytest.fixture
def plane(planes):
    return planes.data()


@pytest.fixture
def weights(planes):
    return planes.weights(new_writer_name())


def batch_of(first: int, rows: int) -> TransitionBatch:
    ids = np.arange(first, first + rows)
    return TransitionBatch(
        {
            "obs": torch.arange(first * 4, (first + rows) * 4, dtype=torch.float32).reshape(rows, 4),
            "action": torch.from_numpy(ids.reshape(rows, 1).copy()),
            "done": ids % 3 == 0,
            "collect_iter": ids * 10,
        }
    )


def same(a, b):
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


class TestData:
    def test_a_batch_comes_back_as_it_was_put(self, plane):
        columns = {
            "obs": {"image": torch.randint(0, 255, (3, 2, 2), dtype=torch.uint8), "speed": np.ones((3, 2), np.float32)},
            "half": torch.ones(3, 2, dtype=torch.bfloat16) * 1.5,
            "done": np.array([True, False, True]),
            "reward": torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64),
            "name": ["a", None, "c"],
            "hidden": [torch.ones(1), torch.ones(2, 2), (torch.zeros(1), 3)],
            "empty": torch.zeros(3, 0),
        }
        batch = TransitionBatch(columns, lengths=[2, 1])
        ref = plane.put(batch)
        assert ref["rows"] == 3
        assert ref["bytes"] > 0
        back = plane.get(ref)
        assert same(back.columns, columns)
        assert back.lengths.tolist() == [2, 1]
        assert len(back) == 3

    def test_the_id_alone_is_enough(self, plane):
        ref = plane.put(batch_of(0, 2))
        assert same(plane.get(ref["chunk"]).columns, batch_of(0, 2).columns)

    def test_large_and_small_batches_come_back(self, plane):
        """Where a small frame travels within a message, a large one is an object of its own."""
        for rows in (8, 20_000):
            batch = batch_of(rows, rows)
            assert same(plane.get(plane.put(batch)).columns, batch.columns)

    def test_meta_comes_back(self, plane):
        meta = {"task_id": "t", "spans": [[0, 1, 2, 3]], "policy_iter": 7}
        ref = plane.put(batch_of(0, 2), meta)
        assert plane.meta(ref) == meta
        assert plane.meta(plane.put(batch_of(0, 2))) == {}

    def test_what_is_put_does_not_change_with_its_source(self, plane):
        batch = batch_of(0, 2)
        ref = plane.put(batch)
        batch.columns["obs"].zero_()
        assert same(plane.get(ref).columns, batch_of(0, 2).columns)

    def test_rows_that_a_reader_changes_are_its_own(self, plane):
        ref = plane.put(batch_of(0, 2))
        first = plane.get(ref)
        first[0]["done"] = None
        del first[0]["action"]
        assert same(plane.get(ref).columns, batch_of(0, 2).columns)

    def test_a_view_is_put_as_its_rows(self, plane):
        ref = plane.put(batch_of(0, 10)[np.array([7, 2])])
        assert plane.get(ref).columns["action"].flatten().tolist() == [7, 2]

    def test_release_deletes_once(self, plane):
        refs = [plane.put(batch_of(i, 1)) for i in range(3)]
        assert sorted(plane.chunks()) == sorted(ref["chunk"] for ref in refs)
        assert plane.release(refs[:2]) == 2
        assert plane.release(refs) == 1
        assert plane.chunks() == []
        with pytest.raises(ChunkMissing):
            plane.get(refs[0])

    def test_a_full_plane_says_so_and_goes_on_when_there_is_space(self, planes):
        size = planes.data().put(batch_of(0, 8))["bytes"]
        planes.data().release(planes.data().chunks())
        plane = planes.data(max_bytes=2 * size)
        refs = [plane.put(batch_of(i, 8)) for i in range(2)]
        with pytest.raises(StorageFull, match="max_bytes"):
            plane.put(batch_of(0, 8))
        plane.release(refs[:1])
        ref = plane.put(batch_of(5, 8))
        assert same(plane.get(ref).columns, batch_of(5, 8).columns)
        assert plane.stats().refused_puts == 1

    def test_stats_count(self, plane):
        refs = [plane.put(batch_of(0, 3)), plane.put(batch_of(3, 2))]
        plane.get(refs[0])
        plane.release(refs)
        stats = plane.stats()
        assert (stats.put_chunks, stats.put_rows, stats.got_chunks, stats.released_chunks) == (2, 5, 1, 2)
        assert stats.put_bytes == refs[0]["bytes"] + refs[1]["bytes"]
        assert (stats.refused_puts, stats.quarantined_chunks) == (0, 0)

    @pytest.mark.parametrize("column", [[object()], np.array([1 + 2j], dtype=np.complex256)])
    def test_what_has_no_safe_form_is_refused(self, plane, column):
        with pytest.raises(BadFrame):
            plane.put(TransitionBatch({"x": column}))
        assert plane.chunks() == []

    def test_an_empty_batch_is_refused(self, plane):
        with pytest.raises(BadFrame, match="one row"):
            plane.put(TransitionBatch.from_rows([]))

    def test_too_many_arrays_are_refused(self, plane):
        ragged = [torch.zeros(i % 2) for i in range(9000)]
        with pytest.raises(BadFrame, match="limits"):
            plane.put(TransitionBatch({"x": ragged}))

    def test_too_many_braces_are_refused(self, plane):
        assert plane.get(plane.put(TransitionBatch({"x": ["{" * 1000]}))).columns["x"] == ["{" * 1000]
        with pytest.raises(BadFrame, match=r"40\d{3} braces"):
            plane.put(TransitionBatch({"x": ["{" * 40_000]}))

    @pytest.mark.parametrize("bad", ["", "..", "a/b", "a\0b", "\N{FULLWIDTH FULL STOP}", "a" * 4096, None, 3])
    def test_bad_ids_are_refused(self, plane, bad):
        for call in (plane.get, lambda ref: plane.release([ref]), plane.meta):
            with pytest.raises(BadId):
                call(bad)

    def test_writers_do_not_collide(self, planes):
        writers = [planes.data() for _ in range(2)]
        refs = [plane.put(batch_of(0, 1)) for plane in writers for _ in range(3)]
        assert len({ref["chunk"] for ref in refs}) == 6

    def test_many_threads(self, plane):
        errors = []

        def work(first: int) -> None:
            try:
                for i in range(first, first + 10):
                    ref = plane.put(batch_of(i, 3))
                    assert same(plane.get(ref).columns, batch_of(i, 3).columns)
                    assert plane.release([ref]) == 1
            except BaseException as error:  # noqa: BLE001 - shown below
                errors.append(error)

        threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert errors == []
        assert plane.stats().released_chunks == 40
        assert plane.chunks() == []


class TestWeights:
    STATE = {"model": {"w.weight": torch.arange(6.0).reshape(2, 3), "steps": torch.tensor(3)}, "lr": 0.5}

    def test_nothing_yet(self, weights):
        assert weights.newest() is None
        assert weights.fetch() is None
        assert weights.fetch(timeout_s=0.02) is None

    def test_the_newest_version(self, weights):
        weights.publish({"w": torch.zeros(2)}, 0)
        weights.publish(self.STATE, 4, {"learner": "l0"})
        assert weights.newest() == 4
        version, state, meta = weights.fetch()
        assert (version, meta) == (4, {"learner": "l0"})
        assert same(state, self.STATE)

    def test_large_and_small_versions(self, weights):
        for version, size in enumerate((8, 200_000)):
            weights.publish({"w": torch.arange(size)}, version)
            assert same(weights.fetch(newer_than=version - 1).state, {"w": torch.arange(size)})

    def test_only_what_is_new(self, weights):
        weights.publish(self.STATE, 4)
        assert weights.fetch(newer_than=4) is None
        assert weights.fetch(newer_than=3).version == 4

    def test_a_learner_that_went_back_is_followed(self, weights):
        weights.publish(self.STATE, 400)
        weights.publish(self.STATE, 300)
        assert weights.fetch(newer_than=400).version == 300

    def test_the_tensors_are_the_receivers_own(self, weights):
        source = torch.ones(3)
        weights.publish({"w": source}, 0)
        source.zero_()
        weights.fetch().state["w"].fill_(7)
        assert weights.fetch().state["w"].tolist() == [1, 1, 1]

    def test_a_waiter_is_woken(self, weights):
        found = []
        thread = threading.Thread(target=lambda: found.append(weights.fetch(newer_than=1, timeout_s=30)))
        weights.publish(self.STATE, 1)
        thread.start()
        weights.publish(self.STATE, 2)
        thread.join(10)
        assert not thread.is_alive()
        assert found[0].version == 2

    def test_close_wakes_the_waiters(self, weights):
        found = []
        thread = threading.Thread(target=lambda: found.append(weights.fetch(timeout_s=30)))
        thread.start()
        weights.close()
        thread.join(10)
        assert not thread.is_alive()
        assert found == [None]

    @pytest.mark.parametrize("version", [-1, 1.0, True, "1"])
    def test_a_version_is_a_count(self, weights, version):
        with pytest.raises(ValueError, match="version"):
            weights.publish(self.STATE, version)

    def test_what_has_no_safe_form_is_refused(self, weights):
        weights.publish(self.STATE, 1)
        with pytest.raises(BadFrame, match="optimizer"):
            weights.publish({"optimizer": object()}, 2)
        assert weights.newest() == 1


class TestSharing:
    """Planes of one root see the same, whatever they are made of."""

    def test_chunks(self, planes):
        writer, reader = planes.data(), planes.data()
        ref = writer.put(batch_of(0, 3))
        assert same(reader.get(ref).columns, batch_of(0, 3).columns)
        assert reader.release([ref]) == 1
        assert writer.chunks() == []

    def test_weights(self, planes):
        name, another = new_writer_name(), new_writer_name()
        learner, collector, other = (planes.weights(one) for one in (name, name, another))
        learner.publish({"w": torch.ones(2)}, 3)
        assert collector.fetch().version == 3
        assert other.fetch() is None

    def test_closing_one_leaves_the_others_waiting(self, planes):
        name = new_writer_name()
        one, two = planes.weights(name), planes.weights(name)
        found = []
        thread = threading.Thread(target=lambda: found.append(two.fetch(timeout_s=30)))
        thread.start()
        one.close()
        one.publish({"w": torch.ones(2)}, 0)
        thread.join(10)
        assert found[0].version == 0

    def test_chunks_move_between_planes_of_any_kind(self, planes, tmp_path):
        folder, plane = FileDataPlane(tmp_path / "pool"), planes.data()
        ref = plane.put(batch_of(0, 3))
        assert plane.copy_chunks([ref["chunk"], "w-0.00000000"], folder) == ["w-0.00000000"]
        plane.release([ref])
        assert folder.copy_chunks(folder.chunks(), plane) == []
        assert same(plane.get(ref).columns, batch_of(0, 3).columns)
