"""The middleware of buffers, on object records and on rows of columns."""

from collections import Counter

import numpy as np
import pytest
import torch

from ding.data import BufferedData, DequeBuffer, TransitionBatch
from ding.data.buffer import NotEnoughDataError, RecordBatch, SampleArgumentError
from ding.data.buffer.middleware import (
    PriorityExperienceReplay,
    clone_object,
    group_sample,
    padding,
    sample_range_view,
    staleness_check,
    use_time_check,
)


def rows(*values, **columns):
    return TransitionBatch({"x": torch.tensor(values, dtype=torch.int64), **columns})


def x_of(records):
    return [int(record.data["x"]) for record in records]


def fill(buffer, count, columns, meta=None):
    """Rows 0, 1, ...; ``meta`` is a dict of lists."""
    meta = meta or {}
    if columns:
        return list(buffer.extend(rows(*range(count)), meta=meta))
    return [
        buffer.push({"x": x}, meta={key: values[x] for key, values in meta.items()} or None).index
        for x in range(count)
    ]  # fmt: skip


both = pytest.mark.parametrize("columns", [True, False])


# ---------------------------------------------------------------------- clone_object


def test_clones_keep_the_buffer_apart_from_its_user():
    buffer = DequeBuffer(3).use(clone_object())
    data, meta = {"x": torch.zeros(2), "list": [1]}, {"m": [1]}
    buffer.push(data, meta=meta)
    data["list"].append(2)
    meta["m"].append(2)
    sampled = buffer.sample(1)[0]
    assert sampled.data["list"] == [1]
    assert sampled.meta == {"m": [1]}
    sampled.data["x"].fill_(3)
    sampled.data["list"].append(3)
    assert buffer.get(0).data["list"] == [1]
    assert buffer.get(0).data["x"].tolist() == [0, 0]
    assert buffer.get(0).index == sampled.index


def test_clones_of_arrays_and_batches():
    buffer = DequeBuffer(3).use(clone_object())
    buffer.push([np.zeros(2), rows(1, 2)])
    array, batch = buffer.sample(1)[0].data
    array[0] = 5
    batch.columns["x"][0] = 5
    array, batch = buffer.get(0).data
    assert (array.tolist(), batch.columns["x"].tolist()) == ([0, 0], [1, 2])


def test_clones_of_groups():
    buffer = DequeBuffer(3).use(clone_object())
    buffer.push([1], {"g": 1})
    buffer.sample(1, groupby="g")[0][0].data.append(2)
    assert buffer.get(0).data == [1]


def test_clones_of_columns_stay_columns():
    buffer = DequeBuffer(3).use(clone_object())
    fill(buffer, 3, True)
    assert isinstance(buffer.sample(3), RecordBatch)


# ---------------------------------------------------------------------- use_time_check


@both
def test_no_record_is_used_more_often_than_allowed(columns):
    buffer = DequeBuffer(10)
    buffer.use(use_time_check(buffer, max_use=2))
    fill(buffer, 10, columns)
    used = Counter()
    while buffer.count() >= 3:
        sampled = buffer.sample(3)
        for record in sampled:
            used[record.index] += 1
            assert record.meta["use_count"] == used[record.index]
    assert max(used.values()) == 2
    assert sum(used.values()) >= 2 * 8
    assert buffer.count() == sum(1 for index in used if used[index] < 2) + 10 - len(used)


@both
def test_use_counts_end_with_their_record(columns):
    buffer = DequeBuffer(2)
    buffer.use(use_time_check(buffer, max_use=3))
    fill(buffer, 2, columns)
    buffer.sample(2)
    fill(buffer, 1, columns)
    assert sorted(record.meta["use_count"] for record in buffer.sample(2)) == [1, 2]


@both
def test_groups_are_used_up_as_well(columns):
    buffer = DequeBuffer(10)
    buffer.use(use_time_check(buffer, max_use=1))
    fill(buffer, 4, columns, {"g": [0, 1, 0, 1]})
    (group,) = buffer.sample(1, groupby="g")
    assert [record.meta["use_count"] for record in group] == [1, 1]
    assert sorted(x_of(buffer) + x_of(group)) == [0, 1, 2, 3]


def test_deletes_through_the_given_view():
    buffer = DequeBuffer(4)
    view = buffer.view()
    view.use(use_time_check(buffer, max_use=1))
    fill(buffer, 4, False)
    view.sample(3)
    assert view.count() == buffer.count() == 1


# ---------------------------------------------------------------------- staleness_check


@both
def test_stale_records_go(columns):
    buffer = DequeBuffer(10)
    buffer.use(staleness_check(buffer, max_staleness=4))
    fill(buffer, 10, columns, {"train_iter_data_collected": list(range(10))})
    sampled = buffer.sample(6, train_iter_sample_data=8)
    assert sorted(x_of(sampled)) == [4, 5, 6, 7, 8, 9]
    assert {int(record.data["x"]): record.meta["staleness"] for record in sampled} == {
        4: 4, 5: 3, 6: 2, 7: 1, 8: 0, 9: -1,
    }  # fmt: skip
    with pytest.raises(NotEnoughDataError):
        buffer.sample(size=5, train_iter_sample_data=10)
    assert x_of(buffer) == [6, 7, 8, 9]


@both
def test_staleness_follows_updates(columns):
    buffer = DequeBuffer(3)
    buffer.use(staleness_check(buffer, max_staleness=1))
    indices = fill(buffer, 2, columns, {"train_iter_data_collected": [0, 0]})
    buffer.sample(1, train_iter_sample_data=0)
    buffer.update(indices[0], meta={"train_iter_data_collected": 5})
    buffer.sample(1, train_iter_sample_data=5)
    assert x_of(buffer) == [0]


def test_staleness_needs_its_words():
    buffer = DequeBuffer(3)
    buffer.use(staleness_check(buffer, max_staleness=1))
    for bad in (lambda: buffer.push(1), lambda: buffer.push(1, meta={"a": 1}), lambda: buffer.extend(rows(1))):
        with pytest.raises(AssertionError, match="train_iter_data_collected"):
            bad()
    buffer.push(1, {"train_iter_data_collected": 0})
    with pytest.raises(AssertionError, match="train_iter_sample_data"):
        buffer.sample(1)
    assert buffer.count() == 1


# ---------------------------------------------------------------------- padding, group_sample, sample_range_view


@both
def test_padding_with_members(columns):
    buffer = DequeBuffer(10).use(padding())
    fill(buffer, 6, columns, {"g": list("abbacb")})
    groups = sorted((x_of(group) for group in buffer.sample(3, groupby="g")), key=lambda xs: xs[0])
    assert [xs[: len(set(xs))] for xs in groups] == [[0, 3], [1, 2, 5], [4]]
    assert [len(xs) for xs in groups] == [3, 3, 3]


def test_padding_appends_copies():
    buffer = DequeBuffer(10).use(padding())
    fill(buffer, 3, False, {"g": list("aab")})
    first, filling = next(group for group in buffer.sample(2, groupby="g") if group[0].meta["g"] == "b")
    assert first is buffer.get(2)
    filling.data["x"] = filling.meta["g"] = 9
    assert (first.data, first.meta) == ({"x": 2}, {"g": "b"})


def test_padding_with_nothing():
    buffer = DequeBuffer(10).use(padding(policy="none"))
    fill(buffer, 3, False, {"g": list("aab")})
    short = next(group for group in buffer.sample(2, groupby="g") if group[0].meta["g"] == "b")
    assert short[1:] == [BufferedData(None, None, None)]
    assert len(buffer.sample(2)) == 2


def test_padding_policy():
    with pytest.raises(SampleArgumentError, match=r"'none'.*got 'nome'.*none"):
        padding("nome")


@both
def test_group_sample_in_order(columns):
    buffer = DequeBuffer(20).use(group_sample(3))
    fill(buffer, 10, columns, {"g": list("aaaaabbbbb")})
    starts = set()
    for _ in range(60):
        for xs in map(x_of, buffer.sample(2, groupby="g")):
            assert xs == list(range(xs[0], xs[0] + 3))
            starts.add(xs[0])
    assert starts == {0, 1, 2, 5, 6, 7}


@both
def test_group_sample_may_run_out_of_the_group(columns):
    buffer = DequeBuffer(20).use(group_sample(3, max_use_in_group=False))
    fill(buffer, 4, columns, {"g": list("aaaa")})
    lengths = Counter(len(buffer.sample(1, groupby="g")[0]) for _ in range(100))
    assert set(lengths) == {1, 2, 3}


@both
def test_group_sample_out_of_order(columns):
    buffer = DequeBuffer(20).use(group_sample(3, ordered_in_group=False))
    fill(buffer, 5, columns, {"g": list("aaaaa")})
    orders = {tuple(x_of(buffer.sample(1, groupby="g")[0])) for _ in range(100)}
    assert all(len(set(xs)) == 3 for xs in orders)
    assert any(list(xs) != sorted(xs) for xs in orders)
    buffer.clear()
    fill(buffer, 2, columns, {"g": list("aa")})
    with pytest.raises(NotEnoughDataError, match="asked for 3 records of a group, it has 2"):
        buffer.sample(1, groupby="g")
    with pytest.raises(SampleArgumentError, match="groupby"):
        buffer.sample(1)


@both
def test_sample_range_view(columns):
    buffer = DequeBuffer(10)
    fill(buffer, 10, columns)
    middle, end = buffer.view(), buffer.view()
    middle.use(sample_range_view(middle, start=-5, end=-2))
    end.use(sample_range_view(end, start=-2))
    assert sorted(x_of(middle.sample(3))) == [5, 6, 7]
    assert sorted(x_of(end.sample(size=2))) == [8, 9]
    assert len(middle.sample(5, replace=True)) == 5
    assert x_of(middle.sample(1, sample_range=slice(2, None))) == [7]
    with pytest.raises(NotEnoughDataError):
        end.sample(3)


@both
def test_a_range_that_runs_backwards_within_a_view(columns):
    buffer = DequeBuffer(10)
    fill(buffer, 6, columns)
    buffer.use(sample_range_view(buffer, end=4))
    assert sorted(x_of(buffer.sample(4, sample_range=slice(None, None, -1)))) == [0, 1, 2, 3]
    assert sorted(x_of(buffer.sample(2, sample_range=slice(None, 1, -1)))) == [2, 3]
    assert x_of(buffer.sample(1, sample_range=slice(0, None, -1))) == [0]


def test_sample_range_view_of_a_partly_filled_buffer():
    buffer = DequeBuffer(100)
    fill(buffer, 4, False)
    buffer.use(sample_range_view(buffer, start=-2))
    assert sorted(x_of(buffer.sample(2))) == [2, 3]


def test_sample_range_view_needs_a_bound():
    with pytest.raises(AssertionError, match="start or end"):
        sample_range_view(DequeBuffer(3))


# ---------------------------------------------------------------------- PriorityExperienceReplay


def prioritised(size=6, **kwargs):
    buffer = DequeBuffer(size)
    per = PriorityExperienceReplay(buffer, **kwargs)
    return buffer.use(per), per


@both
def test_golden_values(columns):
    buffer, per = prioritised()
    indices = fill(buffer, 3, columns, {"priority": [1.0, 2.0, 4.0]})
    tree = per.sum_tree
    np.testing.assert_allclose(tree.leaves[:3], [1, 1.51572, 2.2974], rtol=1e-5)
    assert tree.total == pytest.approx(4.813113, abs=1e-6)
    assert tree.smallest() == 1
    assert tree.draw(np.array([0, 0.99, 1.0, 2.5, 2.52, 4.8]), None)[0].tolist() == [0, 0, 1, 1, 2, 2]
    sampled = buffer.sample(60)
    weights = {int(record.data["x"]): record.meta["priority_IS"] for record in sampled}
    assert weights[0] == pytest.approx(1.0)
    assert weights[2] == pytest.approx(0.716978, abs=1e-6)
    assert per.IS_weight_power_factor == pytest.approx(0.400006)
    for record in sampled:
        assert record.data["priority_IS"].shape == (1,)
        assert record.data["priority_IS"].dtype == torch.float32
        assert float(record.data["priority_IS"]) == pytest.approx(record.meta["priority_IS"])
        assert record.meta["priority"] == [1, 2, 4][int(record.data["x"])]
        assert record.meta["priority_idx"] == int(record.data["x"])
    assert "priority_IS" not in buffer.get(0).data
    assert buffer.update(indices[1], meta={"priority": 5.0}) is True
    assert per.max_priority == pytest.approx(5.00001)
    assert tree.leaves[1] == pytest.approx(5.00001**0.6)


def test_frequencies_follow_priorities():
    buffer, _ = prioritised(priority_power_factor=1.0)
    fill(buffer, 4, True, {"priority": [1.0, 2.0, 3.0, 4.0]})
    counts = Counter(x for _ in range(200) for x in x_of(buffer.sample(50)))
    for x in range(4):
        assert counts[x] == pytest.approx(10000 * (x + 1) / 10, rel=0.08)


@both
def test_priority_in_the_data_is_taken_out(columns):
    buffer, per = prioritised()
    if columns:
        buffer.extend(rows(0, 1, priority=np.array([2.0, 3.0])))
    else:
        buffer.push({"x": 0, "priority": 2.0})
        buffer.push({"x": 1, "priority": 3.0})
    np.testing.assert_allclose(per.sum_tree.leaves[:2], [2**0.6, 3**0.6])
    assert set(buffer.get(0).data) == {"x"}


@both
def test_a_meta_without_priority_means_the_highest_one(columns):
    buffer, per = prioritised()
    indices = fill(buffer, 1, columns)
    buffer.update(indices[0], meta={"priority": 9.0})
    fill(buffer, 1, columns, {"other": [1]})
    assert per.sum_tree.leaves[1] == pytest.approx(9.00001**0.6)


@both
def test_overwritten_and_deleted_records_are_never_drawn(columns):
    buffer, per = prioritised(size=4)
    indices = fill(buffer, 4, columns, {"priority": [50.0, 1.0, 1.0, 50.0]})
    buffer.delete([indices[3]])
    buffer.delete(indices[2])
    fill(buffer, 3, columns, {"priority": [1.0, 1.0, 1.0]})
    assert sorted(set(x_of(buffer.sample(400)))) == [0, 1, 2]
    assert per.sum_tree.total == pytest.approx(4.0)
    assert not buffer.update(indices[0], meta={"priority": 100.0})
    assert per.sum_tree.total == pytest.approx(4.0)


@both
def test_changes_through_another_view_are_noticed(columns):
    buffer, per = prioritised(size=4)
    fill(buffer, 2, columns, {"priority": [4.0, 4.0]})
    other = buffer.view()
    other.delete(other.get(0).index)
    fill(other, 1, columns)
    buffer.sample(1)
    assert sorted(per.sum_tree.leaves[per.sum_tree.leaves > 0]) == pytest.approx([1.0, 4**0.6])
    other.clear()
    with pytest.raises(AssertionError, match="empty"):
        buffer.sample(1)
    assert buffer.sample(1, ignore_insufficient=True) == []


def test_together_with_use_time_check():
    buffer = DequeBuffer(10)
    buffer.use(use_time_check(buffer, max_use=1)).use(PriorityExperienceReplay(buffer, IS_weight=False))
    fill(buffer, 10, True)
    seen = []
    while buffer.count():
        sampled = buffer.sample(2)
        assert not set(x_of(sampled)) & set(seen)
        assert "priority_IS" not in sampled[0].data
        seen += set(x_of(sampled))
    assert sorted(seen) == list(range(10))


def test_within_a_range():
    buffer, _ = prioritised(size=10)
    fill(buffer, 10, True, {"priority": [float(x) for x in range(10)]})
    assert set(x_of(buffer.sample(200, sample_range=slice(3, 6)))) == {3, 4, 5}


@both
def test_a_record_tells_its_priority_as_it_was_given(columns):
    buffer, per = prioritised()
    indices = fill(buffer, 3, columns, {"priority": [0.0, 2.0, 4.0]})
    told = {int(record.data["x"]): record.meta["priority"] for record in buffer.sample(indices=indices)}
    assert told == {0: 0.0, 1: 2.0, 2: 4.0}
    buffer.update(indices[1], meta={"priority": 3.0})
    buffer.batch_update([indices[2], indices[0]], metas={"priority": [5.0, 0.0]})
    told = {int(record.data["x"]): record.meta["priority"] for record in buffer.sample(indices=indices)}
    assert told == {0: 0.0, 1: 3.0, 2: 5.0}
    np.testing.assert_allclose(per.sum_tree.leaves[:3], np.array([1e-5, 3.00001, 5.00001]) ** 0.6)
    per.load_state_dict(per.state_dict())
    np.testing.assert_allclose(per.sum_tree.leaves[:3], np.array([1e-5, 3.00001, 5.00001]) ** 0.6)
    assert per.max_priority == pytest.approx(5.00001, abs=1e-9)


def test_a_pushed_object_shows_its_priority_in_its_meta():
    buffer, _ = prioritised()
    first = buffer.push({"x": 0})
    assert first.meta == {"priority": 1.0, "priority_idx": 0}
    assert buffer.push({"x": 1, "priority": 4.0}).meta == {"priority": 4.0, "priority_idx": 1}
    assert buffer.push({"x": 2, "priority": 4.0}, {"k": 1}).meta == {"k": 1, "priority": 1.0, "priority_idx": 2}
    assert buffer.get(2).data == {"x": 2, "priority": 4.0}
    buffer.update(first.index, meta={"priority": 9.0})
    assert buffer.push({"x": 3}).meta["priority"] == 9.00001


@pytest.mark.parametrize("form", ["columns", "dicts", "changed by hand"])
def test_priorities_in_rows_of_a_batch_are_taken_out(form):
    buffer, per = prioritised()
    data = rows(0, 1, priority=np.array([2.0, 3.0]))
    if form == "dicts":
        data = [{"x": torch.tensor(0), "priority": 2.0}, {"x": torch.tensor(1), "priority": torch.tensor([3.0])}]
    elif form == "changed by hand":
        data[1]["other"] = 1
    buffer.extend(data)
    np.testing.assert_allclose(per.sum_tree.leaves[:2], [2**0.6, 3**0.6])
    assert ["priority" in record.data for record in buffer] == [False, False]
    assert "priority" in data[0]


def test_rows_without_a_priority_among_others_get_the_highest_one():
    buffer, per = prioritised(size=3)
    buffer.extend([{"x": 9, "priority": 7.0}, {"x": 0, "priority": 2.0}, {"x": 1}, {"x": 2, "priority": 0.5}])
    np.testing.assert_allclose(per.sum_tree.leaves[:3], [2**0.6, 1.0, 0.5**0.6])
    assert x_of(buffer) == [0, 1, 2]
    with pytest.raises(SampleArgumentError, match=r"by index: \{1: nan\}"):
        buffer.extend([{"x": 0}, {"x": 1, "priority": float("nan")}])


@both
def test_weights_of_records_that_a_middleware_within_deletes(columns):
    buffer, _ = prioritised()
    buffer.use(use_time_check(buffer, max_use=1))
    fill(buffer, 3, columns, {"priority": [1.0, 2.0, 4.0]})
    sampled = buffer.sample(30)
    for record in sampled:
        x = int(record.data["x"])
        assert (record.meta["priority"], record.meta["priority_idx"]) == ([1.0, 2.0, 4.0][x], x)
        assert record.meta["priority_IS"] == pytest.approx([1.0, 0.8467453, 0.7169776][x])
    assert buffer.count() == 0
    with pytest.raises(NotEnoughDataError):
        buffer.sample(1)


def test_a_push_that_a_middleware_within_refuses():
    buffer, per = prioritised()
    buffer.use(lambda action, chain, *args, **kwargs: None if action == "push" else chain(*args, **kwargs))
    assert buffer.push({"x": 1}) is None
    assert (buffer.count(), per.sum_tree.total) == (0, 0.0)


@both
def test_a_batch_update_skips_what_is_gone_and_its_priority(columns):
    buffer, per = prioritised()
    indices = fill(buffer, 2, columns)
    known = buffer.batch_update(["gone", indices[1]], metas={"priority": [99.0, 2.0]})
    assert known.tolist() == [False, True]
    np.testing.assert_allclose(per.sum_tree.leaves[:2], [1.0, 2.00001**0.6])
    assert per.max_priority == pytest.approx(2.00001)


def test_beta_ends_at_one():
    buffer, per = prioritised(IS_weight_anneal_train_iter=2)
    fill(buffer, 3, True)
    betas = [per.IS_weight_power_factor] + [buffer.sample(2) and per.IS_weight_power_factor for _ in range(4)]
    assert betas == pytest.approx([0.4, 0.7, 1.0, 1.0, 1.0])
    assert max(betas) == 1.0


def test_stale_records_go_before_a_draw_by_priority():
    buffer = DequeBuffer(8)
    buffer.use(staleness_check(buffer, max_staleness=1)).use(PriorityExperienceReplay(buffer))
    fill(buffer, 4, True, {"train_iter_data_collected": [0, 1, 2, 3]})
    assert set(x_of(buffer.sample(40, train_iter_sample_data=3))) == {2, 3}


def test_priority_zero_can_be_pushed():
    buffer, per = prioritised()
    fill(buffer, 2, True, {"priority": [0.0, 1.0]})
    weights = buffer.sample(20).meta_array("priority_IS")
    assert np.isfinite(weights).all()
    assert (weights > 0).all()
    assert per.sum_tree.leaves[0] == pytest.approx(1e-5**0.6)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_bad_priorities_change_nothing(bad):
    buffer, per = prioritised()
    index = fill(buffer, 1, False)[0]
    for attempt in (
        lambda: buffer.push({"x": 1}, meta={"priority": bad}),
        lambda: buffer.extend(rows(1, 2), meta={"priority": [1.0, bad]}),
        lambda: buffer.update(index, meta={"priority": bad}),
        lambda: buffer.batch_update([index], metas={"priority": [bad]}),
        lambda: buffer.update(index, data=5),
        lambda: buffer.update(index, meta={"a": 1}),
        lambda: buffer.sample(1, groupby="g"),
    ):
        with pytest.raises(AssertionError):
            attempt()
    assert buffer.count() == 1
    assert buffer.get(0).data == {"x": 0}
    assert per.sum_tree.total == 1.0


@both
def test_batch_update_is_update_for_many(columns):
    one, per_one = prioritised()
    many, per_many = prioritised()
    for buffer in (one, many):
        fill(buffer, 4, columns)
    priorities = [0.5, 3.0, 7.0, 0.0]
    for record, priority in zip(list(one), priorities):
        one.update(record.index, meta={"priority": priority})
    known = many.batch_update([record.index for record in many] + ["gone"], metas={"priority": priorities + [99.0]})
    assert known.tolist() == [True] * 4 + [False]
    np.testing.assert_array_equal(per_one.sum_tree.leaves, per_many.sum_tree.leaves)
    assert per_one.max_priority == per_many.max_priority == 7.00001


@both
def test_state_dict(columns):
    buffer, per = prioritised()
    indices = fill(buffer, 6, columns)
    buffer.batch_update(indices, metas={"priority": np.arange(6.0)})
    buffer.delete(indices[2])
    buffer.sample(3)
    state = per.state_dict()
    twin = PriorityExperienceReplay(buffer)
    twin.load_state_dict(state)
    np.testing.assert_array_equal(twin.sum_tree.leaves, per.sum_tree.leaves)
    assert twin.max_priority == per.max_priority
    assert twin.IS_weight_power_factor == per.IS_weight_power_factor
    assert set(per.buffer_idx.values()) == set(indices) - {indices[2]}


def test_clear_resets_priorities_but_not_beta():
    buffer, per = prioritised()
    indices = fill(buffer, 2, True)
    buffer.update(indices[0], meta={"priority": 9.0})
    buffer.sample(2)
    buffer.clear()
    assert (per.max_priority, per.sum_tree.total, buffer.count()) == (1.0, 0.0, 0)
    assert per.IS_weight_power_factor > 0.4


def test_arguments_are_checked():
    with pytest.raises(SampleArgumentError, match="priority_power_factor must be in"):
        PriorityExperienceReplay(DequeBuffer(3), priority_power_factor=2)
    with pytest.raises(TypeError, match="DequeBuffer"):
        PriorityExperienceReplay(type("Other", (), {"size": 3})())
