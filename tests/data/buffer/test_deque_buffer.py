"""DequeBuffer: pushes, every option of sample, updates, deletions, views, files."""

import copy
import pickle
import threading
from collections import Counter

import numpy as np
import pytest
import torch

import ding.data
from ding.data import Buffer, BufferedData, DequeBuffer, TransitionBatch
from ding.data.buffer import (
    IndexArray,
    NotEnoughDataError,
    RecordBatch,
    SampleArgumentError,
    UnknownIndexError,
    apply_middleware,
)
from ding.data.buffer.deque_buffer import BufferIndex
from ding.data.buffer.middleware import PriorityExperienceReplay, sample_range_view
from ding.data.columns import SchemaError
from ding.data.safe_file import SafeFileError, read_tree, write_tree


def rows(*values):
    """Rows whose ``x`` are the given values."""
    return TransitionBatch(
        {
            "x": torch.tensor(values, dtype=torch.int64),
            "obs": torch.tensor(values, dtype=torch.float32).repeat_interleave(2).reshape(-1, 2),
            "done": np.zeros(len(values), dtype=np.bool_),
        }
    )


def filled(count, size=10, **kwargs):
    buffer = DequeBuffer(size, **kwargs)
    for i in range(count):
        buffer.push(i)
    return buffer


def data_of(records):
    return [record.data for record in records]


def xs(buffer):
    return [int(record.data["x"]) for record in buffer]


# ---------------------------------------------------------------------- push


def test_the_newest_records_stay_and_know_their_places():
    buffer = filled(20)
    assert data_of(buffer) == list(range(10, 20))
    assert [buffer.indices.get(record.index) for record in buffer.storage] == list(range(10))
    assert len(buffer) == buffer.count() == len(buffer.indices) == 10
    assert buffer.push_count == 20


def test_push_gives_the_stored_record():
    buffer = DequeBuffer(3)
    data, meta = {"a": 1}, {"m": 2}
    record = buffer.push(data, meta)
    assert record.data is data
    assert record.meta is meta
    assert len(record.index) == 32
    assert int(record.index, 16) >= 0
    assert buffer.get(0) is record
    assert buffer.get_by_index(record.index) is record
    assert buffer.push(5).meta == {}


def test_a_list_is_one_record():
    buffer = DequeBuffer(3)
    episode = [{"a": 1}, {"a": 2}]
    buffer.push(episode)
    assert buffer.count() == 1
    assert buffer.sample(1)[0].data is episode


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_size_must_be_a_positive_int(size):
    with pytest.raises(ValueError, match="positive int"):
        DequeBuffer(size)


def test_extend_keeps_columns():
    buffer = DequeBuffer(4)
    indices = buffer.extend(rows(0, 1, 2), meta={"env": np.array([7, 8, 7]), "round": 3})
    assert isinstance(indices, IndexArray)
    records = buffer.sample(indices=indices)
    assert isinstance(records, RecordBatch)
    assert records.data.columns["x"].tolist() == [0, 1, 2]
    assert records.meta_column("env") == [7, 8, 7]
    assert records[1].meta == {"env": 8, "round": 3}
    assert records[2].index == indices[2]
    assert list(records.indices) == list(indices)


def test_extend_evicts_across_the_end_of_the_ring():
    buffer = DequeBuffer(5)
    for begin in range(0, 12, 3):
        buffer.extend(rows(begin, begin + 1, begin + 2))
    assert xs(buffer) == [7, 8, 9, 10, 11]


def test_extend_by_more_than_the_size():
    buffer = DequeBuffer(3)
    indices = buffer.extend(rows(*range(8)), meta={"n": list(range(8))})
    assert xs(buffer) == [5, 6, 7]
    assert [record.meta["n"] for record in buffer] == [5, 6, 7]
    assert [buffer.indices.has(index) for index in indices] == [False] * 5 + [True] * 3
    assert buffer.push_count == 8


def test_extend_copies_what_it_is_given():
    buffer = DequeBuffer(4)
    batch = rows(1, 2)
    buffer.extend(batch)
    batch.columns["x"].fill_(9)
    assert xs(buffer) == [1, 2]


def test_samples_of_columns_are_copies():
    buffer = DequeBuffer(4)
    buffer.extend(rows(1, 2), meta={"k": [1, 2]})
    sampled = buffer.sample(2)
    sampled.data.columns["x"].fill_(9)
    sampled[0].data["x"] = 9
    sampled[0].meta["k"] = 9
    assert xs(buffer) == [1, 2]
    assert [record.meta["k"] for record in buffer] == [1, 2]


def test_rows_of_another_schema_become_objects():
    buffer = DequeBuffer(6)
    buffer.extend(rows(0, 1))
    buffer.extend([{"x": 2}, {"x": 3}], meta=[{"m": 1}, {}])
    buffer.extend([4, "five"])
    assert [record.data if not isinstance(record.data, dict) else int(record.data["x"]) for record in buffer] == [
        0, 1, 2, 3, 4, "five",
    ]  # fmt: skip
    assert [record.meta for record in buffer][2:4] == [{"m": 1}, {}]
    assert isinstance(buffer.sample(6), list)


def test_extend_by_nothing():
    buffer = DequeBuffer(2)
    assert len(buffer.extend([])) == 0
    assert buffer.count() == 0


def test_copies_of_columns_are_independent():
    buffer = DequeBuffer(size=4)
    buffer.extend(rows(1, 2, 3))
    twin = copy.deepcopy(buffer)
    buffer.extend(rows(7, 8, 9))
    twin.extend(rows(4, 5))
    assert [record.data["x"].item() for record in twin.storage] == [2, 3, 4, 5]
    assert [record.data["x"].item() for record in buffer.storage] == [3, 7, 8, 9]


def test_extend_refuses_meta_of_another_length():
    buffer = DequeBuffer(4)
    with pytest.raises(ValueError, match="'env' has 3 values for 2 rows"):
        buffer.extend(rows(1, 2), meta={"env": [1, 2, 3]})
    with pytest.raises(ValueError, match="1 metas for 2 rows"):
        buffer.extend(rows(1, 2), meta=[{}])
    assert buffer.count() == 0


# ---------------------------------------------------------------------- sample


def test_distinct_draws():
    buffer = filled(10)
    assert sorted(data_of(buffer.sample(10))) == list(range(10))
    assert len(set(data_of(buffer.sample(7)))) == 7


def test_draws_are_uniform():
    buffer = filled(4, size=4)
    counts = Counter(value for _ in range(2000) for value in data_of(buffer.sample(2)))
    assert all(abs(counts[value] - 1000) < 150 for value in range(4))


def test_shortage_is_told():
    buffer = filled(2)
    with pytest.raises(NotEnoughDataError, match="asked for 3 records, there are 2"):
        buffer.sample(3)
    with pytest.raises(ValueError):
        buffer.sample(3)
    assert buffer.sample(3, ignore_insufficient=True) == []


def test_empty_with_replacement_is_a_shortage_too():
    with pytest.raises(NotEnoughDataError):
        DequeBuffer(3).sample(1, replace=True)


def test_repeats_are_independent():
    buffer = DequeBuffer(3)
    buffer.push({"a": [1], "t": torch.zeros(2)})
    first, second = buffer.sample(2, replace=True)
    assert first is buffer.get(0)
    second.data["a"].append(2)
    second.data["t"][0] = 5
    second.meta["m"] = 1
    assert first.index == second.index
    assert first.data["a"] == [1]
    assert first.data["t"].tolist() == [0, 0]
    assert first.meta == {}


def test_indices_in_order_with_repeats():
    buffer = filled(5)
    indices = [buffer.get(i).index for i in (3, 1, 3)]
    assert data_of(buffer.sample(indices=indices)) == [3, 1, 3]
    assert data_of(buffer.sample(3, indices=indices)) == [3, 1, 3]


@pytest.mark.parametrize("index", ["x", "0" * 32, None])
def test_unknown_index(index):
    buffer = filled(5)
    with pytest.raises(KeyError) as caught:
        buffer.sample(indices=[buffer.get(0).index, index])
    assert isinstance(caught.value, UnknownIndexError)
    assert isinstance(caught.value, ValueError)
    assert repr(index) in str(caught.value)


@pytest.mark.parametrize("serial", ["f" * 16, "-" + "1" * 15, "8" + "0" * 15])
def test_an_index_with_a_serial_that_no_record_can_have_is_unknown(serial):
    buffer = filled(3)
    index = buffer.get(0).index[:16] + serial
    assert not buffer.update(index, data=1)
    buffer.delete([index])
    assert data_of(buffer.sample(3, indices=[buffer.get(i).index for i in range(3)])) == [0, 1, 2]
    with pytest.raises(UnknownIndexError):
        buffer.get_by_index(index)


def test_evicted_index_is_unknown():
    buffer = filled(3, size=3)
    index = buffer.get(0).index
    buffer.push(3)
    with pytest.raises(UnknownIndexError):
        buffer.get_by_index(index)
    assert not buffer.update(index, data=1)


@pytest.mark.parametrize(
    ("sample_range", "candidates"),
    [
        (slice(2, 5), [2, 3, 4]), (slice(None, 2), [0, 1]), (slice(7, None), [7, 8, 9]),
        (slice(0, 10, 3), [0, 3, 6, 9]), (slice(-2, None), [8, 9]), (slice(-5, -3), [5, 6]),
    ],
)  # fmt: skip
def test_sample_range(sample_range, candidates):
    buffer = filled(10)
    sampled = buffer.sample(len(candidates), sample_range=sample_range)
    assert sorted(data_of(sampled)) == candidates
    with pytest.raises(NotEnoughDataError):
        buffer.sample(len(candidates) + 1, sample_range=sample_range)


def test_indices_outside_of_the_range():
    buffer = filled(10)
    inside, outside = buffer.get(8).index, buffer.get(2).index
    assert data_of(buffer.sample(indices=[inside], sample_range=slice(5, None))) == [8]
    with pytest.raises(UnknownIndexError, match="among the 5 candidates"):
        buffer.sample(indices=[inside, outside], sample_range=slice(5, None))


@pytest.mark.parametrize(
    "kwargs",
    [
        {}, {"size": 2, "indices": ["a"]}, {"indices": ["a"], "groupby": "g"}, {"size": 1, "unroll_len": 2},
        {"size": -1}, {"size": 1.5}, {"size": 1, "groupby": "g", "unroll_len": 0}, {"size": 1, "sample_range": 3},
    ],
)  # fmt: skip
def test_contradicting_arguments(kwargs):
    with pytest.raises(AssertionError) as caught:
        filled(3).sample(**kwargs)
    assert isinstance(caught.value, SampleArgumentError)


# ---------------------------------------------------------------------- groups


def grouped(groups, columns, size=100, **kwargs):
    """Records 0, 1, 2, ... whose groups are told by ``groups``."""
    buffer = DequeBuffer(size, **kwargs)
    if columns:
        buffer.extend(rows(*range(len(groups))), meta={"g": list(groups)})
    else:
        for x, group in enumerate(groups):
            buffer.push({"x": x}, {"g": group})
    return buffer


def x_of(group):
    return [int(record.data["x"]) for record in group]


@pytest.mark.parametrize("columns", [True, False])
def test_whole_groups_in_storage_order(columns):
    buffer = grouped("abacb", columns)
    assert sorted(map(x_of, buffer.sample(3, groupby="g"))) == [[0, 2], [1, 4], [3]]
    assert buffer.meta_index == {"g": list("abacb")}


@pytest.mark.parametrize("columns", [True, False])
def test_groups_follow_pushes_evictions_updates_and_deletions(columns):
    buffer = grouped("aabb", columns, size=4)
    buffer.sample(2, groupby="g")
    buffer.push({"x": 4}, {"g": "a"})
    assert sorted(map(x_of, buffer.sample(2, groupby="g"))) == [[1, 4], [2, 3]]
    buffer.update(buffer.get(1).index, meta={"g": "c"})
    assert sorted(map(x_of, buffer.sample(3, groupby="g"))) == [[1, 4], [2], [3]]
    buffer.delete(buffer.get(0).index)
    assert sorted(map(x_of, buffer.sample(3, groupby="g"))) == [[2], [3], [4]]
    buffer.clear()
    with pytest.raises(NotEnoughDataError):
        buffer.sample(1, groupby="g")


def test_an_updated_record_moves_to_its_place_in_the_other_group():
    buffer = grouped("abab", False)
    buffer.sample(2, groupby="g")
    buffer.update(buffer.get(1).index, meta={"g": "a"})
    assert sorted(map(x_of, buffer.sample(2, groupby="g"))) == [[0, 1, 2], [3]]


@pytest.mark.parametrize("columns", [True, False])
def test_groups_stay_in_storage_order_when_the_ring_wraps_between_samples(columns):
    buffer = grouped("aaaaa", columns, size=5)
    for first in range(5, 40, 3):
        batch = rows(first, first + 1, first + 2)
        for row in [batch] if columns else batch.rows():
            (buffer.extend if columns else buffer.push)(row, {"g": "a"})
        assert x_of(buffer.sample(1, groupby="g")[0]) == list(range(first - 2, first + 3))


def test_rows_in_reused_slots_have_no_meta_of_the_rows_before():
    buffer = DequeBuffer(3)
    buffer.extend(rows(0, 1, 2), meta={"a": [1, 2, 3]})
    buffer.extend(rows(3, 4), meta={"b": [4, 5]})
    assert [record.meta for record in buffer] == [{"a": 3}, {"b": 4}, {"b": 5}]


def test_records_without_the_key_are_a_group():
    buffer = grouped("aa", False)
    buffer.push({"x": 2})
    assert sorted(map(x_of, buffer.sample(2, groupby="g"))) == [[0, 1], [2]]


def test_too_few_groups():
    buffer = grouped("ab", True)
    with pytest.raises(NotEnoughDataError, match="There are less than 3 groups by 'g': 2"):
        buffer.sample(3, groupby="g")
    assert buffer.sample(3, groupby="g", ignore_insufficient=True) == []
    assert len(buffer.sample(3, groupby="g", replace=True)) == 3


def test_unhashable_group_value():
    buffer = DequeBuffer(3)
    buffer.push(1, {"g": [1]})
    with pytest.raises(SampleArgumentError, match=r"'g'.*list"):
        buffer.sample(1, groupby="g")


@pytest.mark.parametrize("value", [[1], np.array([1, 2]), np.array([1])])
def test_a_group_value_that_becomes_unhashable_is_named_until_it_is_gone(value):
    buffer = grouped("ab", False)
    buffer.sample(2, groupby="g")
    index = buffer.get(1).index
    buffer.update(index, meta={"g": value})
    for _ in range(2):
        with pytest.raises(SampleArgumentError, match=rf"'g'.*{type(value).__name__}"):
            buffer.sample(1, groupby="g")
    buffer.delete(index)
    assert list(map(x_of, buffer.sample(1, groupby="g"))) == [[0]]


@pytest.mark.parametrize("columns", [True, False])
def test_unroll_reaches_every_start(columns):
    buffer = grouped("a" * 6, columns)
    starts = Counter(x_of(buffer.sample(1, groupby="g", unroll_len=4)[0])[0] for _ in range(300))
    assert set(starts) == {0, 1, 2}
    assert min(starts.values()) > 60
    assert all(x_of(group) == list(range(x_of(group)[0], x_of(group)[0] + 4))
               for group in buffer.sample(8, groupby="g", unroll_len=4, replace=True))  # fmt: skip


@pytest.mark.parametrize("columns", [True, False])
def test_sliced_unroll(columns):
    buffer = grouped("a" * 10, columns, sliced=True)
    starts = Counter(x_of(buffer.sample(1, groupby="g", unroll_len=4)[0])[0] for _ in range(1000))
    assert set(starts) == {0, 4, 6}
    assert abs(starts[0] - 400) < 70
    assert abs(starts[4] - 400) < 70
    assert abs(starts[6] - 200) < 60


def test_groups_shorter_than_the_unroll_are_left_out():
    buffer = grouped("aaab", True)
    assert x_of(buffer.sample(1, groupby="g", unroll_len=3)[0]) == [0, 1, 2]
    with pytest.raises(NotEnoughDataError, match="of at least 4 records"):
        buffer.sample(1, groupby="g", unroll_len=4)


def test_groups_within_a_range():
    buffer = grouped("ababab", True)
    assert sorted(map(x_of, buffer.sample(2, groupby="g", sample_range=slice(2, 6)))) == [[2, 4], [3, 5]]


def test_groups_of_columns_have_columns():
    buffer = grouped("aabb", True)
    groups = buffer.sample(2, groupby="g")
    assert all(isinstance(group, RecordBatch) for group in groups)
    assert sorted(group.data.columns["x"].tolist() for group in groups) == [[0, 1], [2, 3]]


# ---------------------------------------------------------------------- update, delete, clear


def test_update_replaces_data_and_the_whole_meta():
    buffer = DequeBuffer(3)
    record = buffer.push(1, {"a": 1, "b": 2})
    assert buffer.update(record.index, data=5, meta={"a": 3})
    assert buffer.get(0) == BufferedData(5, record.index, {"a": 3})
    assert buffer.update(record.index)
    assert buffer.get(0) == BufferedData(5, record.index, {"a": 3})
    assert buffer.update("no such index", data=1) is False


def test_update_of_a_row_of_columns():
    buffer = DequeBuffer(3)
    indices = buffer.extend(rows(0, 1, 2), meta={"a": [0, 1, 2], "b": [0, 0, 0]})
    assert buffer.update(indices[1], meta={"a": 9})
    assert [record.meta for record in buffer] == [{"a": 0, "b": 0}, {"a": 9}, {"a": 2, "b": 0}]
    assert isinstance(buffer.sample(3), RecordBatch)
    assert buffer.update(indices[1], data="new")
    assert buffer.get(1) == BufferedData("new", indices[1], {"a": 9})
    assert int(buffer.get(2).data["x"]) == 2


def test_batch_update():
    buffer = DequeBuffer(4)
    indices = buffer.extend(rows(0, 1), meta={"a": [1, 2]})
    record = buffer.push(2, {"a": 3})
    known = buffer.batch_update([*indices, record.index, "gone"], metas={"p": np.array([0.5, 1.5, 2.5, 3.5])})
    assert known.tolist() == [True, True, True, False]
    assert [record.meta for record in buffer] == [{"a": 1, "p": 0.5}, {"a": 2, "p": 1.5}, {"a": 3, "p": 2.5}]
    known = buffer.batch_update([record.index, indices[0]], datas=["x", None], metas=[None, {"q": 1}])
    assert known.tolist() == [True, True]
    assert buffer.get(2).data == "x"
    assert buffer.get(0).meta == {"q": 1}
    with pytest.raises(ValueError, match="1 metas for 2 indices"):
        buffer.batch_update(indices, metas=[{}])


def test_delete_keeps_all_other_indices():
    buffer = filled(10)
    indices = [record.index for record in buffer]
    buffer.delete(indices[4])
    assert buffer.count() == 9
    assert [buffer.indices.has(index) for index in indices] == [i != 4 for i in range(10)]
    assert buffer.update(indices[9], data="last")
    assert data_of(buffer) == [0, 1, 2, 3, 5, 6, 7, 8, "last"]
    buffer.delete([indices[0], "unknown", indices[9], indices[0]])
    assert data_of(buffer) == [1, 2, 3, 5, 6, 7, 8]


def test_deleted_places_are_used_again_before_anything_is_evicted():
    buffer = filled(4, size=4)
    buffer.delete([buffer.get(1).index, buffer.get(2).index])
    buffer.push(4)
    buffer.push(5)
    assert data_of(buffer) == [0, 3, 4, 5]
    buffer.push(6)
    assert data_of(buffer) == [3, 4, 5, 6]


def test_extend_after_deletions_fills_scattered_places():
    buffer = DequeBuffer(6)
    indices = buffer.extend(rows(*range(6)))
    buffer.delete([indices[1], indices[4]])
    buffer.extend(rows(6, 7, 8))
    assert xs(buffer) == [2, 3, 5, 6, 7, 8]


def test_clear():
    buffer = filled(5)
    index = buffer.get(0).index
    buffer.clear()
    assert buffer.count() == 0
    assert not buffer.indices.has(index)
    buffer.extend([{"other": 1}])
    assert buffer.count() == 1


def test_get_outside():
    buffer = filled(3)
    assert buffer[-1].data == 2
    with pytest.raises(IndexError, match="record 3 of a buffer that holds 3"):
        buffer.get(3)


# ---------------------------------------------------------------------- middleware and views


def test_the_first_middleware_is_outermost():
    calls = []

    def named(name):
        def middleware(action, chain, *args, **kwargs):
            calls.append((name, action))
            result = chain(*args, **kwargs)
            calls.append((name, "done"))
            return result

        return middleware

    buffer = DequeBuffer(3)
    assert buffer.use(named("a")).use(named("b")) is buffer
    buffer.push(1)
    assert calls == [("a", "push"), ("b", "push"), ("b", "done"), ("a", "done")]


def test_middleware_changes_arguments_and_results_and_may_leave_the_chain():
    def double(action, chain, *args, **kwargs):
        if action == "push":
            chain(args[0] * 10)
            return chain(args[0])
        if action == "sample":
            return [record.data for record in chain(*args, **kwargs)]
        if action == "clear":
            return "refused"
        return chain(*args, **kwargs)

    buffer = DequeBuffer(4).use(double)
    buffer.push(1)
    assert sorted(buffer.sample(2)) == [1, 10]
    assert buffer.clear() == "refused"
    assert buffer.count() == 2


def test_plain_middleware_sees_single_records():
    seen = []

    def spy(action, chain, *args, **kwargs):
        result = chain(*args, **kwargs)
        seen.append((action, type(result).__name__))
        return result

    buffer = DequeBuffer(4)
    buffer.extend(rows(0))
    buffer.use(spy)
    indices = buffer.extend(rows(1, 2), meta={"m": [1, 2]})
    buffer.batch_update(indices, metas={"n": [3, 4]})
    buffer.sample(3)
    assert seen == [("push", "BufferedData")] * 2 + [("update", "bool")] * 2 + [("sample", "list")]
    assert [record.meta for record in buffer] == [{}, {"m": 1, "n": 3}, {"m": 2, "n": 4}]


def test_a_middleware_may_refuse_rows():
    buffer = DequeBuffer(4).use(
        lambda action, chain, *args, **kwargs: (
            None if action == "push" and args[0]["x"] == 1 else chain(*args, **kwargs)
        )
    )
    indices = buffer.extend(rows(0, 1, 2))
    assert xs(buffer) == [0, 2]
    assert list(indices) == [record.index for record in buffer]


def test_views_share_records_but_not_middleware():
    buffer = filled(3, sliced=True)
    buffer.use(lambda action, chain, *args, **kwargs: "blocked")
    for view in (buffer.view(), copy.copy(buffer)):
        assert view.sliced
        view.push("seen")
    assert buffer.sample(1) == "blocked"
    assert data_of(buffer) == [0, 1, 2, "seen", "seen"]
    view.delete(view.get(0).index)
    view.clear()
    assert buffer.count() == 0
    view.push(7)
    assert data_of(buffer) == [7]


def test_a_buffer_of_ones_own():
    class ListBuffer(Buffer):
        def __init__(self, size):
            super().__init__(size)
            self.items = []

        @apply_middleware("push")
        def push(self, data, meta=None):
            self.items.append(BufferedData(data, str(len(self.items)), meta or {}))
            return self.items[-1]

        def update(self, index, data=None, meta=None):
            self.items[int(index)].meta = meta
            return True

        def sample(self, *args, **kwargs):
            return self.items

        delete = save_data = load_data = clear = sample

        def count(self):
            return len(self.items)

        def get(self, idx):
            return self.items[idx]

    buffer = ListBuffer(3).use(lambda action, chain, data: chain(data + 1))
    buffer.push(1)
    assert buffer[0].data == 2
    assert len(buffer) == 1
    assert buffer.batch_update(["0"], metas={"p": [0.5]}) == [True]
    assert buffer[0].meta == {"p": 0.5}


# ---------------------------------------------------------------------- export, files, threads


def test_export_and_import():
    buffer = filled(3)
    other = DequeBuffer(2)
    other.import_data((record.data, {"old": record.index}) for record in buffer.export_data())
    assert data_of(other) == [1, 2]
    assert other.get(0).meta == {"old": buffer.get(1).index}


@pytest.mark.parametrize("size", [8, 3])
def test_save_and_load(tmp_path, size):
    buffer = DequeBuffer(8)
    buffer.extend(rows(*range(5)), meta={"env": [0, 1, 0, 1, 0]})
    buffer.push({"x": torch.tensor(5), "names": ["a", None]}, {"k": (1, "two")})
    buffer.push("text", {"deep": {"t": torch.ones(2)}})
    buffer.delete(buffer.get(1).index)
    buffer.update(buffer.get(1).index, meta={"other": 1.5})
    file = tmp_path / "made" / "data.hkl"
    buffer.save_data(str(file))
    other = DequeBuffer(size)
    other.push("goes away")
    other.load_data(str(file))
    expected = buffer.export_data()[-size:]
    assert len(other) == len(expected)
    for record, wanted in zip(other, expected):
        assert record.index == wanted.index
        assert str(record.data) == str(wanted.data)
        assert str(record.meta) == str(wanted.meta)
    assert all(other.indices.has(record.index) for record in expected)
    indices = [record.index for record in other]
    other.extend(rows(7))
    assert len({*indices, other.get(-1).index}) == len(indices) + 1


def steps(frames, begin, count):
    """Rows whose ``next_obs`` is the ``obs`` of the next one."""
    return TransitionBatch(
        {
            "obs": frames[begin : begin + count],
            "next_obs": frames[begin + 1 : begin + count + 1],
            "x": torch.arange(begin, begin + count),
        }
    )


def with_observations(size=30):
    """Evicted rows, deleted ones and an object among rows whose observations are stored once."""
    frames = torch.from_numpy(np.random.default_rng(0).integers(0, 255, (61, 32, 32), dtype=np.uint8))
    buffer = DequeBuffer(size)
    for begin in range(0, 60, 5):
        buffer.extend(steps(frames, begin, 5), meta={"env": begin})
    buffer.push("an object")
    buffer.delete([buffer.get(place).index for place in (3, 4, 11)])
    return buffer


@pytest.mark.parametrize("part_bytes", [1 << 26, 5000])
@pytest.mark.parametrize("size", [30, 12])
def test_saved_observations_are_there_once(tmp_path, monkeypatch, size, part_bytes):
    monkeypatch.setattr("ding.data.storage._saved_rows.CHUNK_BYTES", part_bytes)
    buffer = with_observations()
    file = tmp_path / "data"
    buffer.save_data(str(file))
    assert file.stat().st_size < 0.75 * buffer.count() * 2 * 32 * 32
    other = DequeBuffer(size)
    other.load_data(str(file))
    assert xs_or_objects(other) == xs_or_objects(buffer)[-size:]
    for record, wanted in zip(other, buffer.export_data()[-size:]):
        assert (record.index, record.meta) == (wanted.index, wanted.meta)
        for key in ("obs", "next_obs") if record.data != "an object" else ():
            assert torch.equal(record.data[key], wanted.data[key])


def xs_or_objects(buffer):
    return [record.data if isinstance(record.data, str) else int(record.data["x"]) for record in buffer]


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda columns: columns["pairs"][0]["slots"].__setitem__((3, 1), 10**6), "1000000"),
        (lambda columns: columns.update(rows=5), "do not fit|damaged"),
        (lambda columns: columns.update(layout="other"), "unknown layout 'other'"),
    ],
)
def test_damaged_observations_change_nothing(tmp_path, damage, match):
    with_observations().save_data(str(tmp_path / "data"))
    contents = read_tree(tmp_path / "data", "deque_buffer")
    damage(contents["columns"])
    write_tree(tmp_path / "data", contents, "deque_buffer", contents["columns"]["layout"])
    buffer = filled(2)
    with pytest.raises(SchemaError, match=match):
        buffer.load_data(str(tmp_path / "data"))
    assert data_of(buffer) == [0, 1]


def test_fewer_observations_than_records_change_nothing(tmp_path):
    with_observations().save_data(str(tmp_path / "data"))
    contents = read_tree(tmp_path / "data", "deque_buffer")
    contents["row_places"] = contents["row_places"][:-1]
    write_tree(tmp_path / "data", contents, "deque_buffer", contents["columns"]["layout"])
    buffer = filled(2)
    with pytest.raises(SchemaError, match="26 saved rows for 25 records"):
        buffer.load_data(str(tmp_path / "data"))
    assert data_of(buffer) == [0, 1]


def test_load_refuses_what_is_no_buffer(tmp_path):
    buffer = filled(2)
    file = tmp_path / "broken"
    buffer.save_data(str(file))
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 255
    file.write_bytes(raw)
    with pytest.raises(SafeFileError):
        buffer.load_data(str(file))
    assert data_of(buffer) == [0, 1]


def test_save_tells_what_has_no_safe_form(tmp_path):
    buffer = DequeBuffer(2)
    buffer.push({"fn": len})
    with pytest.raises(SafeFileError, match="fn"):
        buffer.save_data(str(tmp_path / "file"))
    assert not (tmp_path / "file").exists()


def test_pushes_samples_and_deletions_from_threads_never_tear_a_row():
    buffer = DequeBuffer(50)
    buffer.extend(rows(*range(50)))
    errors = []

    def guarded(work):
        def run():
            try:
                for number in range(150):
                    work(number)
            except Exception as error:  # noqa: BLE001 - reported below
                errors.append(error)

        return threading.Thread(target=run)

    def push(number):
        buffer.extend(rows(*range(number, number + 16)))

    def look(number):
        columns = buffer.sample(8, replace=True).data.columns
        assert torch.equal(columns["obs"], columns["x"].float().unsqueeze(1).expand(-1, 2))

    def delete(number):
        buffer.extend(rows(number, -number))
        buffer.delete(buffer.sample(2).indices)

    threads = [guarded(work) for work in (push, look, look, delete)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not errors
    assert not any(thread.is_alive() for thread in threads)


# ---------------------------------------------------------------------- the rest of the surface


def test_buffer_index():
    index = BufferIndex(3)
    for key in "abcde":
        index.append(key)
    assert [index.has(key) for key in "abcde"] == [False, False, True, True, True]
    assert [index.get(key) for key in "cde"] == [0, 1, 2]
    assert len(index) == 3
    with pytest.raises(KeyError):
        index.get("a")
    index.clear()
    assert len(index) == 0
    index.append("z")
    assert index.get("z") == 0


def test_names_of_the_package():
    assert ding.data.create_dataset is not None
    assert ding.data.DataLoader is torch.utils.data.DataLoader
    assert ding.data.DequeBuffer is DequeBuffer
    with pytest.raises(AttributeError, match="DequeBufer"):
        ding.data.DequeBufer
    assert set(ding.data.__all__) <= set(dir(ding.data))


def test_a_seed_fixes_the_draws():
    def drawn():
        np.random.seed(3)
        return data_of(filled(10).sample(5))

    assert drawn() == drawn()


def test_large_observations_are_shared_and_survive_deletions():
    """obs and next_obs of 2400 bytes, which the storage keeps once."""

    def steps(begin, count):
        frames = torch.arange(begin, begin + count + 1).float().unsqueeze(1).expand(-1, 600).contiguous()
        return TransitionBatch({"obs": frames[:-1], "next_obs": frames[1:], "x": torch.arange(begin, begin + count)})

    buffer = DequeBuffer(30)
    generator = np.random.default_rng(0)
    for begin in range(0, 200, 8):
        buffer.extend(steps(begin, 8))
        buffer.delete([record.index for record in buffer.sample(3)])
        if generator.random() < 0.3:
            buffer.update(buffer.sample(1)[0].index, data={"x": -1})
        records = [record.data for record in buffer if int(record.data["x"]) >= 0]
        assert len(records) >= 4
        assert all(record["obs"].eq(record["x"]).all() for record in records)
        assert all(record["next_obs"].eq(record["x"] + 1).all() for record in records)


def test_empty_indices_count_as_none():
    buffer = DequeBuffer(3)
    for number in range(3):
        buffer.push(number)
    assert len(buffer.sample(2, indices=[])) == 2


def test_the_groups_may_be_assigned():
    buffer = DequeBuffer(3)
    for number in range(3):
        buffer.push(number, {"group": number % 2, "other": number})
    buffer.sample(1, groupby="group")
    assert buffer.meta_index == {"group": [0, 1, 0]}
    buffer.meta_index = {"other": []}
    assert buffer.meta_index == {"other": [0, 1, 2]}
    buffer.meta_index = {}
    assert buffer.meta_index == {}


def test_delete_takes_its_argument_by_name():
    buffer = DequeBuffer(3)
    stored = buffer.push(1)
    buffer.delete(index=stored.index)
    assert buffer.count() == 0


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])  # noqa: S301
def test_copies_are_independent_and_keep_what_their_middleware_knows(copied):
    buffer = DequeBuffer(size=4)
    buffer.use(PriorityExperienceReplay(buffer))
    for value in range(3):
        buffer.push(value, {"priority": float(value)})
    twin = copied(buffer)
    buffer.clear()
    assert [record.data for record in twin.storage] == [0, 1, 2]
    twin.push(3, {"priority": 9.0})
    (listening,) = twin.middleware
    assert len(listening.buffer_idx) == 4
    assert {record.data for record in twin.sample(50, replace=True)} <= {1, 2, 3}
    assert buffer.count() == 0


COPIES = pytest.mark.parametrize("copied", [copy.deepcopy, lambda item: pickle.loads(pickle.dumps(item))])  # noqa: S301


@COPIES
def test_copies_of_frames_that_are_stored_once_take_more(copied):
    frames = torch.arange(7.0)[:, None].expand(7, 5000)
    buffer = DequeBuffer(size=4)
    buffer.extend(TransitionBatch({"obs": frames[:3].clone(), "next_obs": frames[1:4].clone()}))
    twin = copied(buffer)
    twin.extend(TransitionBatch({"obs": frames[4:6].clone(), "next_obs": frames[5:7].clone()}))
    for name, first in (("obs", 0), ("next_obs", 1)):
        held = [int(record.data[name].unique()) for record in twin.storage]
        assert held == [1 + first, 2 + first, 4 + first, 5 + first]
    assert buffer.count() == 3


@COPIES
def test_copies_know_which_records_lack_a_meta_and_draw_as_the_original(copied):
    buffer = DequeBuffer(size=9)
    buffer.extend(rows(1, 2))
    buffer.extend(rows(3, 4), {"env": [7, 8]})
    buffer.push(5, {"env": 9})
    buffer.meta_index = ["env"]
    buffer.sample(1)  # seeds the generator
    twin = copied(buffer)
    assert [record.meta for record in twin.storage] == [{}, {}, {"env": 7}, {"env": 8}, {"env": 9}]
    assert twin.meta_index == {"env": [None, None, 7, 8, 9]}
    indices = [[record.index for record in one.storage] for one in (buffer, twin)]
    assert indices[0] == indices[1]
    drawn = [[record.index for record in one.sample(3)] for one in (buffer, twin)]
    assert drawn[0] == drawn[1]


@COPIES
def test_a_range_is_that_of_the_copy(copied):
    buffer = DequeBuffer(size=9)
    buffer.use(sample_range_view(buffer, -2))
    for value in range(3):
        buffer.push(value)
    twin = copied(buffer)
    for value in range(3, 6):
        twin.push(value)
    assert sorted(record.data for record in twin.sample(2)) == [4, 5]


@pytest.mark.parametrize("indices", [False, [], None])
def test_a_false_second_argument_means_no_indices(indices):
    buffer = DequeBuffer(10)
    buffer.extend([1, 2, 3])
    assert len(buffer.sample(2, indices)) == 2
