"""Rows that come packed: what is written of them, and how batches of them behave."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ding.data import TransitionBatch
from ding.data.storage import PackedRows, StorageOptions, make_storage, record_layout_of

CAPACITY = 50


def columns(count, first=0):
    number = torch.arange(first, first + count)
    return {
        "obs": number[:, None] * torch.ones(4),
        "action": number[:, None],
        "half": number[:, None].to(torch.float16),
        "pixels": number.numpy()[:, None, None].astype(np.uint8) * np.ones((1, 3, 3), np.uint8),
        "next_obs": -number[:, None] * torch.ones(4),
        "done": number.numpy() % 3 == 0,
        "level": number.numpy() / 2,
    }


def packed(plain):
    """The same rows as records."""
    layout = record_layout_of(plain)
    rows = PackedRows(layout, np.empty(len(plain["done"]), layout.item))
    for key, leaf in plain.items():
        rows.get(key)[...] = np.asarray(leaf)
    return rows


def assert_same(found, expected):
    assert list(found) == list(expected)
    for key, leaf in expected.items():
        assert type(found[key]) is type(leaf)
        assert found[key].dtype == leaf.dtype
        assert found[key].shape == leaf.shape
        assert found[key].tolist() == leaf.tolist()


def held(storage, count=CAPACITY):
    return storage.read(np.arange(count)).columns


def test_equal_fields_have_one_layout():
    layout = record_layout_of(columns(2))
    assert record_layout_of(columns(7)) is layout
    assert record_layout_of(dict(reversed(columns(2).items()))) is not layout
    assert record_layout_of({**columns(2), "done": torch.zeros(2, dtype=torch.bool)}) is not layout


@pytest.mark.parametrize(
    "leaf",
    [
        {"inner": torch.zeros(2, 3)},
        [None, 1],
        torch.zeros(2, 129),
        torch.zeros(2, 3, dtype=torch.bfloat16),
        np.zeros((2, 3), np.complex128),
        torch.zeros(2, 0),
        np.array(["a", "bc"]),
    ],
    ids=["nested", "objects", "large", "bfloat16", "complex", "empty", "text"],
)
def test_rows_that_are_no_records(leaf):
    assert record_layout_of({"done": np.zeros(2, bool)}) is not None
    assert record_layout_of({"done": np.zeros(2, bool), "x": leaf}) is None


def test_parts_of_packed_rows():
    rows = packed(columns(5))
    assert len(rows) == 5
    assert_same(rows.columns(), columns(5))
    assert_same(rows[1:4].columns(), columns(3, 1))
    assert rows[::2].get("action")[:, 0].tolist() == [0, 2, 4]
    assert rows.get("more") is None
    rows.columns()["obs"][3] = 8
    assert rows.get("obs")[:, 0].tolist() == [0, 1, 2, 8, 4]


def test_only_rows_of_one_layout_are_joined():
    rows = packed(columns(2))
    assert_same(rows.joined([packed(columns(3, 2)), packed(columns(1, 5))]).columns(), columns(6))
    assert rows.joined([packed(columns(3, 2)), None]) is None
    assert rows.joined([packed(dict(reversed(columns(2).items())))]) is None


# ---------------------------------------------------------------------- storages


@pytest.fixture(params=["memory", "file"])
def options(request, tmp_path):
    return StorageOptions(path=str(tmp_path) if request.param == "file" else None)


def test_packed_rows_are_written_as_they_are(options):
    storage = make_storage(columns(1), CAPACITY, options)
    storage.write(0, packed(columns(CAPACITY)), CAPACITY)
    storage.write(10, packed(columns(7, 30)), 7)
    expected = [*range(10), *range(30, 37), *range(17, CAPACITY)]
    assert_same(held(storage), {key: leaf[expected] for key, leaf in columns(CAPACITY).items()})
    storage.close()


def test_packed_rows_past_the_end_go_on_at_the_begin(options):
    storage = make_storage(columns(1), CAPACITY, options)
    storage.write(0, packed(columns(CAPACITY)), CAPACITY)
    storage.write(48, packed(columns(5, 60)), 5)
    assert held(storage)["action"][:, 0].tolist() == [62, 63, 64, *range(3, 48), 60, 61]
    storage.close()


def test_many_rows_take_the_quick_way_only_when_they_are_packed():
    storage = make_storage(columns(1), 4000, StorageOptions())
    rows = columns(2000)
    assert not storage.quick_writer.write(0, rows, 2000)
    assert storage.quick_writer.write(1000, packed(rows), 2000)
    assert held(storage, 3000)["action"][:, 0].tolist() == [0] * 1000 + list(range(2000))


def test_only_rows_that_fit_stay_packed():
    def stay_packed(storage, plain):
        batch = TransitionBatch.of_packed(packed(plain))
        found = storage.storable(batch)
        assert found is batch.packed or (batch.packed is None and found is batch.columns)
        return isinstance(found, PackedRows)

    storage = make_storage(columns(1), CAPACITY, StorageOptions())
    assert stay_packed(storage, columns(3))
    other = dict(reversed(columns(3).items()))
    assert not stay_packed(storage, other)
    assert not storage.quick_writer.write(0, packed(other), 3)
    assert not stay_packed(make_storage(columns(1), CAPACITY, StorageOptions(elide_next_obs=True)), columns(3))
    assert not stay_packed(make_storage({**columns(1), "info": [{}]}, CAPACITY, StorageOptions()), columns(3))
    plain = TransitionBatch(columns(3))
    assert storage.storable(plain) is plain.columns


@given(st.lists(st.tuples(st.integers(0, 49), st.integers(1, 50), st.booleans()), max_size=12))
def test_packed_rows_and_columns_leave_the_same(writes):
    storage, other = (make_storage(columns(1), CAPACITY, StorageOptions()) for _ in range(2))
    for number, (start, count, as_they_are) in enumerate(writes):
        rows = columns(count, number * 3)
        storage.write(start, packed(rows) if as_they_are else rows, count)
        other.write(start, rows, count)
    assert_same(held(storage), held(other))


# ---------------------------------------------------------------------- batches


def test_a_batch_is_packed_until_somebody_asks_for_its_columns():
    batch = TransitionBatch.of_packed(packed(columns(6)), np.array([2, 4]))
    view = batch[1:5:2]
    assert repr(batch) == f"TransitionBatch(6 rows, fields {list(columns(1))})"
    assert len(batch) == 6
    assert batch.lengths.tolist() == [2, 4]
    assert view.packed.get("action")[:, 0].tolist() == [1, 3]
    assert batch[[4, 2]].packed is None
    assert batch[::-1].packed is None
    assert batch.packed is not None
    found = batch.columns
    assert_same(found, columns(6))
    assert batch.packed is None
    assert view.packed is None
    # What is done to the columns is done to the batch.
    found["obs"] = found["obs"] + 100
    found["action"][1] = -5
    assert batch.columns["obs"][:, 0].tolist() == [100, 101, 102, 103, 104, 105]
    assert view.columns["action"][:, 0].tolist() == [-5, 3]


@pytest.mark.parametrize(
    "look",
    [
        lambda batch: batch.rows(),
        lambda batch: batch[2],
        list,
        lambda batch: batch.with_columns(more=np.zeros(6)),
        lambda batch: batch.without_columns("obs"),
        lambda batch: batch[1:2].columns,
        lambda batch: batch[[1, 0]].columns,
        copy.deepcopy,
        pickle.dumps,
    ],
    ids=["rows", "row", "list", "with", "without", "slice", "positions", "deepcopy", "pickle"],
)
def test_who_looks_ends_the_packed_form(look):
    batch = TransitionBatch.of_packed(packed(columns(6)))
    look(batch)
    assert batch.packed is None
    assert_same(batch.columns, columns(6))


def test_changed_rows_win():
    batch = TransitionBatch.of_packed(packed(columns(6)))
    batch[5]["level"] = 9.0
    assert batch.packed is None
    assert batch.columns["level"].tolist() == [0, 0.5, 1, 1.5, 2, 9]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))])  # noqa: S301
def test_copies_share_nothing(copied):
    batch = TransitionBatch.of_packed(packed(columns(6)), np.array([2, 4]))
    other = copied(batch)
    batch.columns["obs"][:] = 0
    assert_same(other.columns, columns(6))
    assert other.lengths.tolist() == [2, 4]


def test_batches_that_are_joined():
    first, second = (TransitionBatch.of_packed(packed(columns(2, begin))) for begin in (0, 2))
    joined = TransitionBatch.concat([first, second, first[1:]])
    assert joined.packed is not None
    assert joined.lengths is None
    assert first.packed is not None
    assert_same(joined.columns, {key: leaf[[0, 1, 2, 3, 1]] for key, leaf in columns(4).items()})
    with_lengths = TransitionBatch.concat([first, TransitionBatch.of_packed(packed(columns(2)), np.array([1, 1]))])
    assert with_lengths.lengths.tolist() == [2, 1, 1]
    mixed = TransitionBatch.concat([second, TransitionBatch(columns(2))])
    assert mixed.packed is None
    assert_same(mixed.columns, {key: leaf[[2, 3, 0, 1]] for key, leaf in columns(4).items()})
