"""``TransitionBatch`` against a plain list of dicts."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ding.data import SchemaError, TransitionBatch


def make_rows(count: int, offset: int = 0) -> list[dict]:
    return [
        {
            "obs": {"pos": torch.tensor([float(i), 0.5]), "image": torch.full((1, 2), i % 256, dtype=torch.uint8)},
            "action": torch.tensor([i % 3]),
            "reward": np.array([i / 2], dtype=np.float32),
            "done": i % 4 == 3,
            "collect_iter": i,
            "weight": i / 4,
            "tag": f"t{i}",
            "state": None if i % 2 else [i],
        }
        for i in range(offset, offset + count)
    ]


def make_batch(count: int, offset: int = 0) -> TransitionBatch:
    """The same transitions, held as columns only."""
    if not count:
        return TransitionBatch.from_rows([])
    return TransitionBatch(TransitionBatch.from_rows(make_rows(count, offset)).columns)


def assert_same(value, expected) -> None:
    # A row is a dict with attributes.
    assert isinstance(value, type(expected))
    if isinstance(expected, dict):
        assert list(value) == list(expected)
        for key in expected:
            assert_same(value[key], expected[key])
    elif isinstance(expected, torch.Tensor):
        assert value.dtype == expected.dtype
        assert torch.equal(value, expected)
    elif isinstance(expected, np.ndarray):
        assert value.dtype == expected.dtype
        np.testing.assert_array_equal(value, expected)
    else:
        assert value == expected


def assert_rows(batch, expected: list[dict]) -> None:
    assert len(batch) == len(expected)
    for row, wanted in zip(batch, expected):
        assert_same(row, wanted)


def slices(length: int):
    bound = st.none() | st.integers(-length - 2, length + 2)
    return st.builds(slice, bound, bound, st.none() | st.integers(1, 3) | st.integers(-3, -1))


@st.composite
def programs(draw):
    count = draw(st.integers(0, 9))
    steps = draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("slice"), slices(count)),
                st.tuples(st.just("take"), st.lists(st.integers(-1, 1), max_size=5)),
                st.tuples(st.just("mask"), st.integers(1, 3)),
                st.tuples(st.just("write"), st.integers(0, 8)),
                st.tuples(st.just("add"), st.integers(0, 3)),
                st.tuples(st.just("append"), st.just(None)),
                st.tuples(st.just("delete"), st.integers(0, 8)),
                st.tuples(st.just("touch_columns"), st.just(None)),
            ),
            max_size=7,
        )
    )
    return count, steps


@settings(max_examples=300, deadline=None)
@given(programs())
def test_any_sequence_of_operations_equals_the_same_on_a_list(program) -> None:
    count, steps = program
    batch, model = make_batch(count), make_rows(count)
    for name, value in steps:
        if name == "slice":
            batch, model = batch[value], model[value]
        elif name == "take":
            # Each row once: a concatenation copies columns, so that a row taken twice becomes two rows.
            picks = list(dict.fromkeys(p % len(model) for p in value)) if model else []
            batch, model = batch[np.array(picks, dtype=np.int64)], [model[p] for p in picks]
        elif name == "mask":
            mask = np.arange(len(model)) % value == 0
            batch, model = batch[mask], [row for row, keep in zip(model, mask) if keep]
        elif name == "write" and model:
            batch[value % len(model)]["collect_iter"] = 1000 + value
            model[value % len(model)]["collect_iter"] = 1000 + value
        elif name == "add":
            # In a list a row that was taken twice stays one dict; a concatenation of columns has rows of its own.
            aliased = value and model and len({id(row) for row in model}) < len(model)
            if not aliased:
                batch, model = batch + make_batch(value, 50), model + make_rows(value, 50)
        elif name == "append":
            batch.append(make_rows(1, 90)[0])
            model = [*model, make_rows(1, 90)[0]]
        elif name == "delete" and model:
            del batch[value % len(model)]
            model = [row for i, row in enumerate(model) if i != value % len(model)]
        elif name == "touch_columns" and model:
            assert len(batch.columns["done"]) == len(model)
        assert len(batch) == len(model)
    if model:
        rebuilt = TransitionBatch(batch.columns)
        assert_rows(rebuilt, TransitionBatch.from_rows(model).rows())
    assert_rows(batch, model)


def test_columns_of_rows_keep_leaf_types() -> None:
    columns = make_batch(3).columns
    assert columns["obs"]["pos"].shape == (3, 2)
    assert columns["obs"]["image"].dtype == torch.uint8
    assert columns["action"].dtype == torch.int64
    assert columns["reward"].dtype == np.float32
    assert columns["done"].dtype == np.bool_
    assert columns["collect_iter"].dtype == np.int64
    assert columns["weight"].dtype == np.float64
    assert columns["tag"] == ["t0", "t1", "t2"]
    assert columns["state"] == [[0], None, [2]]


def test_slices_share_memory_and_index_arrays_copy() -> None:
    batch = make_batch(6)
    part = batch[2:5]
    part.columns["reward"][0] = 99
    assert batch.columns["reward"][2] == 99
    picked = batch[[2, 3]]
    picked.columns["reward"][1] = -1
    assert batch.columns["reward"][3] == 1.5


def test_rows_win_over_columns_in_every_view() -> None:
    batch = make_batch(4)
    view, backwards = batch[1:3], batch[::-1]
    view[0]["reward"] = np.array([7.0], dtype=np.float32)
    assert batch.columns["reward"].ravel().tolist() == [0.0, 7.0, 1.0, 1.5]
    assert backwards.columns["reward"].ravel().tolist() == [1.5, 1.0, 7.0, 0.0]
    assert batch[1] is view[0] is backwards[2]


def test_rows_are_materialised_once() -> None:
    batch = make_batch(3)
    assert batch[0] is batch[0]
    assert next(iter(batch)) is batch[0]
    assert batch.rows() is not batch.rows()


def test_lengths_of_rows_are_checked() -> None:
    assert TransitionBatch.from_rows([{"x": 1}] * 3, [1, 2]).lengths.tolist() == [1, 2]
    with pytest.raises(SchemaError, match="add up to 3"):
        TransitionBatch.from_rows([{"x": 1}] * 3, [1, 1])


def test_from_rows_keeps_the_very_dicts() -> None:
    rows = make_rows(3)
    batch = TransitionBatch.from_rows(rows)
    assert batch[1] is rows[1]
    rows[1]["collect_iter"] = 55
    assert batch.columns["collect_iter"].tolist() == [0, 55, 2]


def test_concatenation_keeps_pieces() -> None:
    a = TransitionBatch({"x": np.arange(3)}, lengths=[1, 2])
    b = TransitionBatch({"x": np.arange(2)})
    both = a + b
    assert both.columns["x"].tolist() == [0, 1, 2, 0, 1]
    assert both.lengths.tolist() == [1, 2, 2]
    assert (b + b).lengths is None
    assert both[1:].lengths is None
    assert a.segment_lengths().tolist() == [1, 2]
    assert b.segment_lengths().tolist() == [2]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"x": np.zeros((2, 2)), "y": np.zeros(2)}, r"fields \['x'\] and \['x', 'y'\]"),
        ({"x": np.zeros((2, 3))}, r"'x': array float64\[2\] and array float64\[3\]"),
        ({"x": np.zeros((2, 2), dtype=np.float32)}, r"array float64\[2\] and array float32\[2\]"),
        ({"x": torch.zeros(2, 2)}, r"array float64\[2\] and tensor float32\[2\]"),
        ({"x": [1, 2]}, r"array float64\[2\] and list of objects"),
        ({"x": {"deep": np.zeros(2)}}, r"array float64\[2\] and dict"),
    ],
)
def test_concatenation_of_different_schemas_names_the_field(other, message) -> None:
    with pytest.raises(SchemaError, match=message):
        TransitionBatch({"x": np.zeros((2, 2))}) + TransitionBatch(other)


def test_nested_field_is_named_by_its_path() -> None:
    with pytest.raises(SchemaError, match=r"'obs\.pos'"):
        TransitionBatch({"obs": {"pos": np.zeros((1, 2))}}) + TransitionBatch({"obs": {"pos": np.zeros((1, 3))}})


def test_rows_that_do_not_fit_name_field_and_row() -> None:
    rows = make_rows(3)
    rows[2]["obs"]["pos"] = torch.zeros(5)
    with pytest.raises(SchemaError, match=r"field 'obs\.pos' of row 2 has shape \(5,\)"):
        _ = TransitionBatch.from_rows(rows).columns
    rows = make_rows(3)
    del rows[1]["done"]
    with pytest.raises(SchemaError, match=r"row 1 differs from row 0: missing fields \['done'\]"):
        _ = TransitionBatch.from_rows(rows).columns


@pytest.mark.parametrize(
    ("columns", "lengths", "message"),
    [
        ({}, None, "at least one column"),
        ({"x": np.zeros(3), "y": np.zeros(2)}, None, "'y' has 2 rows, expected 3"),
        ({"x": np.float64(1.0)}, None, "row axis"),
        ({"x": np.zeros(3), "y": "abc"}, None, "found str"),
        ({"x": np.zeros(3)}, [1, 1], "add up to 3"),
        ({"x": np.zeros(3)}, [3, 0], "positive"),
        ([1, 2], None, "dict of fields"),
    ],
)
def test_wrong_columns_are_refused(columns, lengths, message) -> None:
    with pytest.raises(SchemaError, match=message):
        TransitionBatch(columns, lengths)


def test_zero_length() -> None:
    empty = TransitionBatch.from_rows([])
    assert len(empty) == 0
    assert list(empty) == []
    assert empty.columns == {}
    assert not empty
    typed = TransitionBatch({"x": np.zeros((0, 2)), "t": torch.zeros(0, 3)})
    assert typed.rows() == []
    assert typed[:0].columns == {} or typed[:0].columns["x"].shape == (0, 2)
    assert len(empty + make_batch(2)) == 2
    assert len(make_batch(2) + []) == 2
    with pytest.raises(IndexError):
        _ = empty[0]


def test_with_and_without_columns() -> None:
    batch = TransitionBatch({"x": np.arange(3)}, lengths=[2, 1])
    more = batch.with_columns(y=torch.ones(3, 1))
    assert list(more.columns) == ["x", "y"]
    assert more.lengths.tolist() == [2, 1]
    assert list(batch.columns) == ["x"]
    assert list(more.without_columns("x", "nope").columns) == ["y"]
    with pytest.raises(SchemaError, match="'y' has 2 rows"):
        batch.with_columns(y=np.zeros(2))


def test_a_row_taken_twice_is_one_row_and_a_concatenation_copies() -> None:
    twice = make_batch(2)[[0, 0]]
    twice[0]["collect_iter"] = 9
    assert twice[1] is twice[0]
    batch = make_batch(2)
    both = batch + make_batch(1, 5)
    both[0]["collect_iter"] = 9
    assert batch[0]["collect_iter"] == 0


def test_list_plus_batch_is_a_list() -> None:
    batch = make_batch(2)
    joined = [{"a": 1}] + batch
    assert type(joined) is list
    assert joined[1] is batch[0]
    items: list = []
    items.extend(batch)
    assert items[1] is batch[1]


def test_bad_indices() -> None:
    batch = make_batch(3)
    with pytest.raises(IndexError, match="row 3 of a batch of 3"):
        _ = batch[3]
    with pytest.raises(IndexError, match="out of range"):
        _ = batch[[0, 5]]
    with pytest.raises(IndexError, match=r"shape \(3,\)"):
        _ = batch[np.array([True])]
    with pytest.raises(TypeError, match="chosen by"):
        _ = batch[1.5]
    with pytest.raises(KeyError, match="nothing"):
        _ = batch["nothing"]
    assert batch[-1]["collect_iter"] == 2


def test_copies_and_pickles_are_independent() -> None:
    batch = make_batch(2)
    for other in (copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):  # noqa: S301
        other[0]["done"] = True
        assert batch[0]["done"] is False
        assert_same(other[1], batch[1])


def test_identity_not_equality() -> None:
    batch = make_batch(2)
    assert batch == batch
    assert batch != make_batch(2)
    assert hash(batch) == hash(batch)


def test_scripts_take_it_for_a_list() -> None:
    """As a buffer of DI-engine asks whether it gets many transitions or one, and as torch and Python read a list."""
    batch = make_batch(3)
    assert isinstance(batch, list)
    assert isinstance(batch[1:], list)
    assert type(batch) is TransitionBatch
    filled: list[dict] = []
    filled.extend(batch)
    assert len(filled) == len([*batch]) == len(np.array(batch)) == 3
    twin, view = pickle.loads(pickle.dumps((batch, batch[1:])))  # noqa: S301 - its own
    view[0]["reward"] = 7.0
    assert twin[1]["reward"] == 7.0


def test_rows_with_empty_dicts_keep_them():
    rows = [{"info": {}, "obs": torch.ones(2)} for _ in range(2)]
    batch = TransitionBatch(TransitionBatch.from_rows(rows).columns)
    assert [row["info"] for row in batch] == [{}, {}]
    assert list(batch[0]) == ["info", "obs"]
    assert batch[0]["info"] is not rows[0]["info"]


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_masked_arrays_and_matrices_stay_what_they_are():
    masked, matrix = np.ma.masked_array([1.0, 2.0], [True, False]), np.matrix([[1.0, 2.0]])
    columns = TransitionBatch.from_rows([{"masked": masked, "matrix": matrix}] * 2).columns
    assert [row.mask.tolist() for row in columns["masked"]] == [[True, False]] * 2
    assert [row.shape for row in columns["matrix"]] == [(1, 2)] * 2


def test_an_array_of_one_number_among_other_rows_is_that_number():
    number = np.array(1 + 2j)
    columns = TransitionBatch.from_rows([{"x": number}, {"x": None}]).columns
    number[()] = 0
    assert columns["x"] == [1 + 2j, None]


def test_rows_counted_from_the_end_are_found_by_tensors_too():
    batch = TransitionBatch({"x": torch.arange(4), "n": np.arange(4)})
    assert batch[np.array([-1, 0, -3])].columns["x"].tolist() == [3, 0, 1]
    assert batch[1:][[-1]].columns["n"].tolist() == [3]


def test_rows_and_columns_are_read_like_a_tree() -> None:
    batch = make_batch(3)
    assert torch.equal(batch.action, batch["action"])
    assert torch.equal(batch.obs.pos, batch.columns["obs"]["pos"])
    batch["adv"] = torch.arange(3.0)
    assert torch.equal(batch.adv, torch.arange(3.0))
    row = batch[1]
    row.obs.pos = torch.full((2,), 7.0)
    row.reward = np.zeros(1, dtype=np.float32)
    assert torch.equal(batch.obs.pos[1], torch.full((2,), 7.0))
    assert batch["reward"][1] == 0
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = batch.nothing
    with pytest.raises(AttributeError, match="no field 'nothing'"):
        _ = row.nothing
    assert not hasattr(batch, "keys")


def test_a_view_with_a_new_column_leaves_its_table() -> None:
    batch = make_batch(4)
    view = batch[1:3]
    view["adv"] = torch.zeros(2)
    assert "adv" not in batch.columns
    assert len(view[0:1].columns["adv"]) == 1


def test_a_copy_and_sorting_are_those_of_a_list() -> None:
    batch = TransitionBatch({"reward": np.array([2.0, 0.0, 1.0])})
    copied = batch.copy()
    batch.sort(key=lambda row: row["reward"])
    assert [row["reward"] for row in batch] == [0.0, 1.0, 2.0]
    assert [row["reward"] for row in copied] == [2.0, 0.0, 1.0]
