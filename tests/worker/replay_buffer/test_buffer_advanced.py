import logging
import math

import numpy as np
import pytest
import torch
from buffer_rows import batch, numbers, row

from ding.data import SchemaError, TransitionBatch
from ding.data.replay.errors import BufferArgumentError, BufferConfigError
from ding.worker import AdvancedReplayBuffer

ADDED = ["replay_unique_id", "replay_buffer_idx", "priority", "staleness", "use", "IS"]


def held(buffer):
    data = buffer.state_dict()["data"]
    return [] if data is None else numbers(TransitionBatch(data) if isinstance(data, dict) else data)


def update(buffer, sampled, priority, rows=False):
    if rows:
        info = {key: [one[key] for one in sampled] for key in ADDED[:2]}
    else:
        info = {key: sampled.columns[key] for key in ADDED[:2]}
    buffer.update({**info, "priority": priority})


def weight_of(buffer, number):
    """Weight of the element that was pushed as the ``number``-th."""
    tree, table = buffer.priorities.tree, buffer.table
    return tree.leaves[np.flatnonzero(table.unique_id == number)[0]]


def test_push_and_ids(make):
    buffer = make(AdvancedReplayBuffer, 64)
    for number in range(100):
        buffer.push(row(number), 0)
    assert (buffer.count(), buffer.push_count, buffer.count(), buffer.next_unique_id) == (64, 100, 64, 100)
    assert (buffer.engine.ring.head, buffer.engine.ring.tail) == (36, 36)
    buffer.push([], 0)
    assert (buffer.count(), buffer.push_count, buffer.engine.ring.tail) == (64, 100, 36)
    assert held(buffer) == list(range(36, 100))
    sampled = buffer.sample(20, 0)
    for one in sampled:
        number = int(one["reward"])
        assert one["replay_unique_id"] == f"buf0_{number}"
        assert one["replay_buffer_idx"] == number % 64
        assert list(one) == [*row(0), *ADDED]
        assert [type(one[key]) for key in ADDED] == [str, int, float, int, int, float]


def test_head_and_tail(make):
    buffer = make(AdvancedReplayBuffer, 64, max_use=1)
    for number in range(65):
        buffer.push(row(number), 0)
    assert (buffer.engine.ring.head, buffer.engine.ring.tail) == (1, 1)
    sampled = buffer.sample(1, 0, sample_range=slice(0, 1))
    assert numbers(sampled) == [1]
    assert buffer.count() == 63
    buffer.push(row(65), 0)
    assert (buffer.engine.ring.head, buffer.engine.ring.tail) == (2, 2)
    assert held(buffer) == list(range(2, 66))


def test_what_is_no_dict_is_left_out(make, caplog):
    buffer = make(AdvancedReplayBuffer, 8)
    with caplog.at_level(logging.WARNING, "ding"):
        buffer.push(5, 0)
        buffer.push([row(0), "text", row(1)], 0)
    assert caplog.text.count("no dicts") == 2
    assert held(buffer) == [0, 1]


def test_weights_are_priorities_to_the_power_of_alpha(make):
    buffer = make(AdvancedReplayBuffer, 64, alpha=0.7)
    buffer.push([{**row(n), "priority": float(n)} for n in range(1, 40)], 0)
    buffer.push(row(40), 0)
    buffer.push([{**row(41), "priority": None}, {**row(42), "priority": 3}], 0)
    columns = batch(43, 2).with_columns(priority=np.array([5.0, 6.0]))
    buffer.push(columns, 0)
    expected = [n**0.7 for n in range(1, 40)] + [1, 1, 3**0.7, 5**0.7, 6**0.7]
    assert buffer.priorities.tree.total == pytest.approx(sum(expected), rel=1e-12)
    assert "priority" not in buffer.state_dict()["data"]
    assert buffer.priorities.largest == 1.0
    assert buffer.sample(1, 0, sample_range=slice(1, 2))[0]["priority"] == 2.0


def test_priorities_on_push_are_checked(make):
    buffer = make(AdvancedReplayBuffer, 8)
    buffer.push(batch(0, 2), 0)
    for bad in (math.nan, -1.0, math.inf):
        with pytest.raises(BufferArgumentError, match=r"1 of 3 are not, by index: \{1:"):
            buffer.push(batch(2, 3).with_columns(priority=torch.tensor([1.0, bad, 1.0])), 0)
    with pytest.raises(BufferArgumentError, match="6 priorities"):
        buffer.push(batch(2, 3).with_columns(priority=torch.ones(3, 2)), 0)
    with pytest.raises(BufferArgumentError, match="numbers"):
        buffer.push({**row(3), "priority": "high"}, 0)
    assert (held(buffer), buffer.push_count, buffer.next_unique_id) == ([0, 1], 2, 2)


def test_update_only_touches_what_is_still_there(make):
    buffer = make(AdvancedReplayBuffer, 4)
    buffer.push(batch(0, 4), 0)
    old = buffer.sample(4, 0)
    buffer.push(batch(4, 2), 0)
    update(buffer, old, [10.0, 20.0, 30.0, 40.0])
    assert numbers(old) == [0, 1, 2, 3]
    assert buffer.dropped_update_count == 2
    assert [weight_of(buffer, n) for n in (2, 3, 4, 5)] == pytest.approx([(30 + 1e-5) ** 0.6, (40 + 1e-5) ** 0.6, 1, 1])
    assert buffer.priorities.largest == 40.0
    buffer.push(row(6), 0)
    assert weight_of(buffer, 6) == pytest.approx(40.0**0.6)


def test_the_largest_priority_counts_applied_updates_only(make):
    buffer = make(AdvancedReplayBuffer, 2)
    buffer.push(batch(0, 2), 0)
    old = buffer.sample(2, 0)
    buffer.push(batch(2, 1), 0)
    update(buffer, old, [99.0, 2.0])
    assert buffer.priorities.largest == 2.0


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("form", [list, np.array, torch.tensor])
def test_update_takes_ids_and_priorities_in_any_form(make, rows, form):
    buffer = make(AdvancedReplayBuffer, 4)
    buffer.push(batch(0, 4), 0)
    sampled = buffer.sample(4, 0)
    update(buffer, sampled, form([1.0, 2.0, 3.0, 4.0]), rows)
    assert [weight_of(buffer, n) for n in range(4)] == pytest.approx([(n + 1 + 1e-5) ** 0.6 for n in range(4)])


def test_ids_of_another_buffer_are_dropped_in_every_form(make):
    buffer, other = make(AdvancedReplayBuffer, 4), make(AdvancedReplayBuffer, 4)
    for one in (buffer, other):
        one.push(batch(0, 4), 0)
    sampled = other.sample(4, 0)
    update(buffer, sampled, [7.0] * 4)
    update(buffer, sampled, [7.0] * 4, rows=True)
    assert (buffer.dropped_update_count, buffer.priorities.tree.total) == (8, 4.0)


def test_a_negative_zero_counts_as_zero(make):
    buffer = make(AdvancedReplayBuffer, 4)
    buffer.push(batch(0, 2), 0)
    update(buffer, buffer.sample(2, 0), [-0.0, 5.0])
    assert buffer.priorities.largest == 5.0
    assert buffer.priorities.values[:2].tolist() == [1e-5, 5.0 + 1e-5]


def test_a_priority_of_none_is_the_largest_so_far(make):
    buffer = make(AdvancedReplayBuffer, 4)
    buffer.push(batch(0, 1), 0)
    update(buffer, buffer.sample(1, 0), [40.0])
    buffer.push([{**row(1), "priority": None}, {**row(2), "priority": 3.0}, {**row(3), "priority": None}], 0)
    assert buffer.priorities.values.tolist() == [40.0 + 1e-5, 40.0, 3.0, 40.0]


def test_update_of_foreign_and_missing_ids_is_dropped(make):
    buffer = make(AdvancedReplayBuffer, 4)
    buffer.push(batch(0, 2), 0)
    ids = ["other_0", None, "buf0_x", "buf0_1", "buf0_0", -1]
    buffer.update({"replay_unique_id": ids, "replay_buffer_idx": [0, 1, 0, 1, 9, 3], "priority": [7.0] * 6})
    assert buffer.dropped_update_count == 5
    assert [weight_of(buffer, n) for n in (0, 1)] == pytest.approx([1, (7 + 1e-5) ** 0.6])
    assert not buffer.priorities.tree.leaves[2:].any()
    buffer.update({})
    buffer.update({"replay_unique_id": ids})


def test_ids_that_no_element_ever_had_are_dropped(make):
    buffer = make(AdvancedReplayBuffer, 8)
    buffer.push(batch(0, 5), 0)
    for ids, slots in (
        ([-2, -2], [6, 7]),
        (np.array([-2, -2]), np.array([6, 7])),
        (np.array([2**64 - 2, 9], dtype=np.uint64), [6, 7]),
        (["buf0_" + 30 * "9", "buf0_" + 5000 * "9"], [0, 1]),
        ([10**30, "buf0_4"], [0, 3]),
    ):
        buffer.update({"replay_unique_id": ids, "replay_buffer_idx": slots, "priority": [7.0, 7.0]})
    assert buffer.dropped_update_count == 10
    assert buffer.priorities.tree.leaves.tolist() == [1, 1, 1, 1, 1, 0, 0, 0]
    for ids, slots, message in ((["buf0_0"], [10**30], "replay_buffer_idx"), (0, [0], "replay_unique_id")):
        with pytest.raises(BufferArgumentError, match=message):
            buffer.update({"replay_unique_id": ids, "replay_buffer_idx": slots, "priority": [7.0]})


def test_bad_updates_name_what_is_wrong_and_change_nothing(make):
    buffer = make(AdvancedReplayBuffer, 4)
    buffer.push(batch(0, 4), 0)
    sampled = buffer.sample(4, 0)
    for priority, message in (
        ([1.0, math.nan, 2.0, 3.0], r"\{1: nan\}"),
        ([1.0, 2.0, -3.0, math.inf], r"2 of 4 .*\{2: -3.0, 3: inf\}"),
        ([1.0, 2.0], "4, 4 and 2"),
        (["a", 1, 2, 3], "numbers"),
    ):
        with pytest.raises(BufferArgumentError, match=message):
            update(buffer, sampled, priority)
    with pytest.raises(BufferArgumentError, match="replay_buffer_idx"):
        buffer.update({"priority": [1.0], "replay_unique_id": ["buf0_0"]})
    assert buffer.priorities.tree.total == 4.0


@pytest.mark.parametrize("priority", [0.0, 1e-300, 5e-324, 1e300, 1e12])
def test_extreme_priorities_keep_everything_finite_and_reachable(make, priority):
    buffer = make(AdvancedReplayBuffer, 4, alpha=1.0)
    buffer.push(batch(0, 4).with_columns(priority=np.full(4, priority)), 0)
    sampled = buffer.sample(4, 0)
    assert sampled.columns["IS"].tolist() == [1.0] * 4
    assert set(numbers(sampled)) == {0, 1, 2, 3}
    update(buffer, sampled, np.full(4, priority))
    assert np.isfinite(buffer.priorities.tree.total)
    assert buffer.sample(4, 0).columns["IS"] == pytest.approx(np.ones(4))


def test_the_sum_of_many_huge_weights_is_finite(make):
    buffer = make(AdvancedReplayBuffer, 40, alpha=1.0)
    buffer.push(batch(0, 40).with_columns(priority=np.full(40, 1e307)), 0)
    update(buffer, buffer.sample(4, 0), [1e307] * 4)
    assert np.isfinite(buffer.priorities.tree.total)
    assert buffer.sample(8, 0).columns["IS"].tolist() == [1.0] * 8


def test_one_priority_of_zero_does_not_zero_all_weights(make):
    buffer = make(AdvancedReplayBuffer, 4, alpha=1.0)
    buffer.push(batch(0, 4).with_columns(priority=np.array([0.0, 1.0, 1.0, 1.0])), 0)
    sampled = buffer.sample(4, 0).columns
    assert (sampled["IS"] > 0).all()
    assert np.isfinite(sampled["IS"]).all()


def test_importance_weights_follow_the_formula(make):
    priorities = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
    buffer = make(AdvancedReplayBuffer, 8, alpha=0.5, beta=0.7, anneal_step=0)
    buffer.push(batch(0, 5).with_columns(priority=priorities), 0)
    columns = buffer.sample(50 // 10, 0).columns
    weights = priorities**0.5
    probability = weights / weights.sum()
    largest = (5 * probability.min()) ** -0.7
    expected = [(5 * probability[n]) ** -0.7 / largest for n in columns["reward"].long().reshape(-1).tolist()]
    assert columns["IS"] == pytest.approx(expected, rel=1e-12)
    assert buffer.beta == 0.7


def test_beta_is_annealed_to_one(make):
    buffer = make(AdvancedReplayBuffer, 8, beta=0.4, anneal_step=4)
    buffer.push(batch(0, 8), 0)
    found = []
    for _ in range(6):
        buffer.sample(2, 0)
        found.append(buffer.beta)
    assert found == pytest.approx([0.55, 0.7, 0.85, 1.0, 1.0, 1.0])
    assert found[-1] == 1.0
    buffer.beta = 0.5
    assert buffer.beta == 0.5


def test_frequencies_follow_the_weights(make):
    rng = np.random.default_rng(11)
    priorities = rng.random(200) * 10
    buffer = make(AdvancedReplayBuffer, 200, alpha=0.6)
    buffer.push(batch(0, 200).with_columns(priority=priorities), 0)
    counts = np.zeros(200)
    calls, size = 3000, 20
    for _ in range(calls):
        np.add.at(counts, buffer.sample(size, 0).columns["replay_buffer_idx"], 1)
    probability = priorities**0.6 / (priorities**0.6).sum()
    expected = calls * size * probability
    # Stratified draws vary less than independent ones, so the usual bound (99.9 % for 199: 267) holds.
    assert ((counts - expected) ** 2 / expected).sum() < 267
    assert abs(counts - expected).max() < 5 * np.sqrt(expected.max())


def test_draws_are_stratified(make):
    buffer = make(AdvancedReplayBuffer, 64)
    buffer.push(batch(0, 64), 0)
    for _ in range(20):
        assert (buffer.sample(16, 0).columns["replay_buffer_idx"] // 4).tolist() == list(range(16))


@pytest.mark.parametrize("pushed", [7, 10, 16])
def test_sample_range_goes_from_oldest_to_newest(make, pushed):
    buffer = make(AdvancedReplayBuffer, 10)
    for number in range(pushed):
        buffer.push(row(number), 0)
    content = list(range(pushed))[-10:]
    for part in (slice(-3, None), slice(None, 4), slice(0, 4), slice(2, -2), slice(-4, -1), slice(-1, 1, -2)):
        expected = content[part]
        assert sorted(numbers(buffer.sample(len(expected), 0, sample_range=part))) == sorted(expected)
    with pytest.raises(BufferArgumentError, match="selects nothing"):
        buffer.sample(1, 0, sample_range=slice(4, 4))


def test_max_use_removes_elements(make):
    buffer = make(AdvancedReplayBuffer, 8, max_use=2)
    buffer.push(batch(0, 8), 0)
    first = buffer.sample(8, 0)
    assert first.columns["use"].tolist() == [1] * 8
    assert buffer.count() == 8
    assert buffer.sample(4, 0, sample_range=slice(0, 4)).columns["use"].tolist() == [2] * 4
    assert buffer.count() == 4
    assert held(buffer) == [4, 5, 6, 7]
    update(buffer, first, [5.0] * 8)
    assert buffer.dropped_update_count == 4
    assert buffer.sample(5, 0) is None
    buffer.sample(4, 0)
    assert buffer.count() == 0
    assert buffer.sample(1, 0) is None
    buffer.push(batch(8, 3), 0)
    assert held(buffer) == [8, 9, 10]


def test_max_staleness_removes_elements_in_order(make):
    buffer = make(AdvancedReplayBuffer, 8, max_staleness=3)
    for number in range(8):
        buffer.push({**row(number), "collect_iter": number}, 0)
    sampled = buffer.sample(4, 6)
    assert held(buffer) == [4, 5, 6, 7]
    assert sorted(sampled.columns["staleness"].tolist()) == [-1, 0, 1, 2]
    assert buffer.engine.ring.head == 4
    assert buffer.sample(1, 100) is None
    assert buffer.count() == 0
    buffer.push({**row(9), "collect_iter": 100}, 0)
    assert held(buffer) == [9]


def test_staleness_is_looked_at_from_the_oldest_to_the_first_fresh_element(make):
    buffer = make(AdvancedReplayBuffer, 8, max_staleness=3)
    buffer.push([{**row(number), "collect_iter": at} for number, at in enumerate([2, 1, 5, 0, 6])], 0)
    buffer.sample(1, 4)
    assert held(buffer) == [0, 1, 2, 3, 4]
    buffer.sample(1, 5)
    assert held(buffer) == [2, 3, 4]


@pytest.mark.parametrize("bad", ["soon", math.nan, 10**30, torch.zeros(0)])
def test_a_collect_iter_that_is_no_number_leaves_the_buffer_as_it_was(make, bad):
    buffer = make(AdvancedReplayBuffer, 8, storage={"mixed_rows": True})
    buffer.push({**row(0), "collect_iter": 3}, 0)
    with pytest.raises(BufferArgumentError, match="collect_iter"):
        buffer.push([{**row(1), "collect_iter": 4}, {**row(2), "collect_iter": bad}], 0)
    with pytest.raises(BufferArgumentError, match="collect_iter"):
        buffer.push(batch(1, 2).with_columns(collect_iter=np.array(["4", "soon"])), 0)
    assert (held(buffer), buffer.table.unique_id[:2].tolist()) == ([0], [0, -2])


@pytest.mark.parametrize(
    ("collected", "expected"),
    [(None, -1), (3, 7), ([5, 2, 9], 8), (torch.tensor([4, 6]), 6), (np.array([1]), 9)],
)
def test_staleness(make, collected, expected):
    buffer = make(AdvancedReplayBuffer, 4)
    buffer.push(row(0) if collected is None else {**row(0), "collect_iter": collected}, 0)
    assert buffer.sample(1, 10)[0]["staleness"] == expected


@pytest.mark.parametrize(
    ("ratio", "size", "needed"), [(1, 7, 7), (1.5, 4, 6), (1.5, 3, 5), (1.1, 50, 55), (2.2, 50, 110), (3, 1, 3)]
)
def test_a_sample_needs_so_many_elements(make, ratio, size, needed):
    buffer = make(AdvancedReplayBuffer, 128, thruput_controller={"sample_min_limit_ratio": ratio})
    buffer.push(batch(0, needed - 1), 0)
    assert buffer.sample(size, 0) is None
    buffer.push(row(needed), 0)
    assert len(buffer.sample(size, 0)) == size


def test_staleness_of_a_column_of_several_iterations_is_that_of_the_smallest(make):
    buffer = make(AdvancedReplayBuffer, 4)
    buffer.push(batch(0, 2).with_columns(collect_iter=torch.tensor([[1, 2], [4, 3]])), 0)
    assert [buffer.sample(1, 10, sample_range=slice(n, n + 1))[0]["staleness"] for n in (0, 1)] == [9, 7]


def test_clear_rule(make):
    buffer = make(AdvancedReplayBuffer, 4)
    buffer.push(batch(0, 6), 0)
    update(buffer, buffer.sample(4, 0), [9.0] * 4)
    beta = buffer.beta
    buffer.clear()
    assert (buffer.count(), buffer.push_count, buffer.priorities.largest, buffer.beta) == (0, 6, 1.0, beta)
    assert (buffer.engine.ring.head, buffer.engine.ring.tail, buffer.priorities.tree.total) == (0, 0, 0.0)
    buffer.push(batch(6, 1), 0)
    assert buffer.sample(1, 0)[0]["replay_unique_id"] == "buf0_6"


def test_samples_are_copies(make):
    buffer = make(AdvancedReplayBuffer, 4)
    buffer.push(batch(0, 4), 0)
    first = buffer.sample(4, 0)
    use = first.columns["use"].copy()
    for one in first:
        one["obs"].fill_(-1)
        one["IS"] = 7
    second = buffer.sample(4, 0)
    assert (second.columns["obs"] >= 0).all()
    assert (use == 1).all()
    assert (second.columns["use"] == 2).all()


def test_sampled_rows_can_be_pushed_again(make):
    buffer, other = make(AdvancedReplayBuffer, 4), make(AdvancedReplayBuffer, 8)
    buffer.push(batch(0, 4).with_columns(priority=np.array([1.0, 2.0, 3.0, 4.0])), 0)
    sampled = buffer.sample(4, 0, sample_range=slice(1, 3))
    other.push(sampled, 0)
    other.push(sampled.rows(), 0)
    assert held(other) == numbers(sampled) * 2
    assert other.priorities.values[:8].tolist() == sampled.columns["priority"].tolist() * 2
    assert other.sample(1, 0)[0]["replay_unique_id"].startswith("buf1_")


def test_rows_that_do_not_fit_leave_the_buffer_as_it_was(make):
    buffer = make(AdvancedReplayBuffer, 4, storage={"mixed_rows": False})
    buffer.push(batch(0, 4), 0)
    with pytest.raises(SchemaError):
        buffer.push({**row(4), "more": 1}, 0)
    assert (held(buffer), buffer.engine.ring.tail, buffer.next_unique_id) == ([0, 1, 2, 3], 0, 4)
    assert buffer.table.unique_id.tolist() == [0, 1, 2, 3]


def test_object_rows_get_the_added_fields(make):
    buffer = make(AdvancedReplayBuffer, 4)
    buffer.push([{"data_id": "a", "x": [1]}, {"data_id": "b"}], 0)
    sampled = buffer.sample(2, 3)
    assert isinstance(sampled, list)
    assert [one["data_id"] for one in sampled] == ["a", "b"]
    assert set(ADDED) < set(sampled[0])
    update(buffer, sampled, [2.0, 3.0], rows=True)
    assert buffer.priorities.values[:2].tolist() == [2 + 1e-5, 3 + 1e-5]


@pytest.mark.parametrize("form", ["columns", "objects"])
def test_state_round_trip(make, form):
    from ding.utils import read_file, save_file

    def fill(buffer, first, count):
        rows = batch(first, count)
        buffer.push(
            rows
            if form == "columns"
            else [{"reward": [n], **({"x": 1} if n % 2 else {})} for n in range(first, first + count)],
            0,
        )

    config = {"max_use": 5, "anneal_step": 50}
    buffer = make(AdvancedReplayBuffer, 20, **config)
    fill(buffer, 0, 33)
    for _ in range(7):
        sampled = buffer.sample(6, 0)
        rows = list(sampled)
        update(buffer, rows, np.arange(6.0), rows=True)
    state = buffer.state_dict()
    save_file("state.pth", state)
    others = [make(AdvancedReplayBuffer, 20, **config) for _ in range(2)]
    for other in others:
        other.engine.name = buffer.engine.name
    others[0].load_state_dict(state, deepcopy=True)
    others[1].load_state_dict(read_file("state.pth"))
    for _ in range(4):
        expected = [dict(one) for one in buffer.sample(5, 1)]
        for other in others:
            found = [dict(one) for one in other.sample(5, 1)]
            assert str(found) == str(expected)
    for other in others:
        found, expected = other.state_dict(), buffer.state_dict()
        assert [found[key] for key in ("tail", "head", "max_priority")] == [
            expected[key] for key in ("tail", "head", "max_priority")
        ]
        assert (other.count(), other.push_count, other.beta) == (buffer.count(), buffer.push_count, buffer.beta)
        assert other.priorities.tree.total == buffer.priorities.tree.total


def test_state_of_another_alpha_gives_weights_of_the_present_one(make):
    buffer, other = make(AdvancedReplayBuffer, 4, alpha=0.5), make(AdvancedReplayBuffer, 4, alpha=1.0)
    buffer.push(batch(0, 3).with_columns(priority=np.array([4.0, 9.0, 16.0])), 0)
    other.load_state_dict(buffer.state_dict())
    assert other.priorities.tree.leaves.tolist() == [4, 9, 16, 0]


def test_state_of_a_buffer_without_annealing_ends_it(make):
    buffer, other = make(AdvancedReplayBuffer, 4, anneal_step=0), make(AdvancedReplayBuffer, 4)
    buffer.push(batch(0, 3), 0)
    other.load_state_dict(buffer.state_dict())
    other.sample(2, 0)
    assert other.beta == 0.4


@pytest.mark.parametrize("deepcopy", [False, True])
def test_a_loaded_state_is_deep_copied_on_request(make, deepcopy):
    buffer, other = make(AdvancedReplayBuffer, 4), make(AdvancedReplayBuffer, 4)
    buffer.push([{"a": [1]}, {"b": 2}], 0)
    state = buffer.state_dict()
    other.load_state_dict(state, deepcopy=deepcopy)
    state["data"][0]["a"].append(2)
    assert other.sample(1, 0, sample_range=slice(0, 1))[0]["a"] == ([1] if deepcopy else [1, 2])


def test_state_with_data_only_is_pushed(make):
    buffer = make(AdvancedReplayBuffer, 4)
    buffer.load_state_dict({"data": [row(0), row(1)]})
    assert held(buffer) == [0, 1]
    state = buffer.state_dict()
    del state["slots"]
    with pytest.raises(BufferArgumentError, match="slots"):
        buffer.load_state_dict(state)


def test_save_and_load(make, tmp_path):
    buffer = make(AdvancedReplayBuffer, 64)
    buffer.push(batch(0, 40), 0)
    buffer.save_data(str(tmp_path / "data"))
    other = make(AdvancedReplayBuffer, 64)
    other.load_data(str(tmp_path / "data"))
    assert (held(other), other.push_count) == (list(range(40)), 40)


def test_more_than_the_ring_holds(make):
    buffer = make(AdvancedReplayBuffer, 8)
    buffer.push(batch(0, 20).with_columns(priority=np.arange(1.0, 21.0)), 0)
    assert held(buffer) == list(range(12, 20))
    assert (buffer.engine.ring.tail, buffer.engine.ring.head, buffer.next_unique_id) == (4, 4, 20)
    assert buffer.table.unique_id.tolist() == [16, 17, 18, 19, 12, 13, 14, 15]
    assert buffer.priorities.values.tolist() == [17, 18, 19, 20, 13, 14, 15, 16]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("alpha", 1.1), ("alpha", -0.1), ("alpha", None), ("beta", 2), ("beta", "0.4"), ("max_use", 0),
        ("max_staleness", -1), ("anneal_step", -1), ("anneal_step", math.nan),
    ],
)  # fmt: skip
def test_config_values_out_of_range(key, value):
    with pytest.raises(BufferConfigError, match=key):
        AdvancedReplayBuffer({"replay_buffer_size": 4, key: value})
    with pytest.raises(AssertionError):
        AdvancedReplayBuffer({"replay_buffer_size": 4, key: value})


@pytest.mark.parametrize(("key", "value"), [("print_freq", 0), ("average_range", 2.5)])
def test_counts_of_the_monitor_must_be_positive(key, value):
    with pytest.raises(BufferConfigError, match=key):
        AdvancedReplayBuffer({"replay_buffer_size": 4, "monitor": {"sampled_data_attr": {key: value}}})


def test_learner_reads_a_sample_as_tensors(make, tmp_path, monkeypatch):
    from ding.policy.common_utils import default_preprocess_learn
    from ding.worker import BaseLearner
    from ding.worker.testing import BatchedScriptedPolicy

    buffer = make(AdvancedReplayBuffer, 16)
    buffer.push(batch(0, 16), 0)
    sampled = buffer.sample(8, 0)
    data = default_preprocess_learn(sampled, use_priority_IS_weight=True, use_priority=True)
    assert data["obs"].shape == (8, 3)
    assert data["weight"].tolist() == [1.0] * 8
    monkeypatch.chdir(tmp_path)
    policy = BatchedScriptedPolicy(learn_output={"total_loss": 1.0, "cur_lr": 0.1, "priority": [2.0] * 8})
    learner = BaseLearner(BaseLearner.default_config(), policy.learn_mode)
    learner.train(sampled)
    learner.close()
    info = learner.priority_info
    buffer.update(info)
    assert buffer.priorities.tree.total == pytest.approx(8 + 8 * (2 + 1e-5) ** 0.6)
    assert info["replay_unique_id"].tolist() == [one["replay_unique_id"] for one in sampled]
