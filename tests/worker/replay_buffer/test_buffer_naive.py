import logging
import pickle

import numpy as np
import pytest
import torch
from buffer_rows import batch, numbers, row

from ding.data import SchemaError, TransitionBatch
from ding.data.replay.errors import BufferArgumentError, BufferClosedError, BufferConfigError
from ding.data.replay.priorities import Draws
from ding.data.safe_file import SafeFileError, write_tree
from ding.data.storage import ElidedRows, is_elided
from ding.utils import BUFFER_REGISTRY, set_pkg_seed
from ding.worker import AdvancedReplayBuffer, ElasticReplayBuffer, NaiveReplayBuffer, create_buffer, get_buffer_cls
from ding.worker.collector.base_serial_collector import TrajBuffer


def held(buffer):
    """What the buffer holds, oldest first."""
    state = buffer.state_dict()
    data = state["data"]
    if is_elided(data):
        data = ElidedRows(data).expand(0, data["rows"])
    return [] if data is None else numbers(as_rows(data))


def as_rows(data):
    return TransitionBatch(data) if isinstance(data, dict) else data


def test_ring_of_single_pushes(make):
    buffer = make(NaiveReplayBuffer, 64)
    for number in range(100):
        buffer.push(row(number), number)
        assert buffer.count() == len(buffer) == min(number + 1, 64)
    assert buffer.push_count == 100
    assert buffer.replay_buffer_size == 64
    assert held(buffer) == list(range(36, 100))


@pytest.mark.parametrize("form", ["batch", "list"])
def test_ring_of_batches(make, form):
    buffer = make(NaiveReplayBuffer, 64)
    for push in range(3):
        rows = batch(38 * push, 38)
        buffer.push(rows if form == "batch" else list(rows), 0)
    assert buffer.count() == 64
    assert buffer.push_count == 114
    assert held(buffer) == list(range(50, 114))


def test_more_than_the_ring_holds(make):
    buffer = make(NaiveReplayBuffer, 8)
    buffer.push(list(range(20)), 0)
    state = buffer.state_dict()
    assert (state["tail"], state["push_count"], state["data"]) == (4, 20, list(range(12, 20)))
    columns = make(NaiveReplayBuffer, 8)
    columns.push(batch(0, 20), 0)
    assert columns.state_dict()["tail"] == 4
    assert held(columns) == list(range(12, 20))


@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer])
@pytest.mark.parametrize("before", [0, 2])
def test_a_trajectory_buffer_is_pushed_as_its_rows(make, cls, before):
    buffer = make(cls, 8)
    buffer.push(batch(0, before), 0)
    trajectory = TrajBuffer(maxlen=3)
    for number in range(before, before + 4):
        trajectory.append(row(number))
    buffer.push(trajectory, 0)
    assert held(buffer) == [*range(before), *range(before + 1, before + 4)]


def test_the_tail_of_a_ring_that_is_just_full_is_its_first_slot(make):
    buffer = make(NaiveReplayBuffer, 8)
    buffer.push(batch(0, 5), 0)
    buffer.push(batch(5, 3), 0)
    assert (buffer.state_dict()["tail"], held(buffer)) == (0, list(range(8)))


def test_sample_gives_distinct_rows_with_the_pushed_types(make):
    buffer = make(NaiveReplayBuffer, 50)
    buffer.push(batch(0, 50), 0)
    for size in (1, 5, 30, 50):
        for _ in range(5):
            sampled = buffer.sample(size, 0)
            assert isinstance(sampled, TransitionBatch)
            found = numbers(sampled)
            assert len(set(found)) == len(found) == size
            assert sampled.columns["next_obs"][:, 0].tolist() == [number + 1 for number in found]
            assert sampled.columns["done"].tolist() == [number % 10 == 9 for number in found]
    one = buffer.sample(1, 0)[0]
    assert {key: type(value) for key, value in one.items()} == {key: type(value) for key, value in row(0).items()}


def test_sample_with_replacement_may_repeat(make):
    buffer = make(NaiveReplayBuffer, 10)
    buffer.push(batch(0, 3), 0)
    assert set(numbers(buffer.sample(100, 0, replace=True))) == {0, 1, 2}


def test_shortage_is_none_and_logged(make, caplog):
    buffer = make(NaiveReplayBuffer, 10)
    with caplog.at_level(logging.INFO, "ding"):
        assert buffer.sample(1, 0) is None
        assert buffer.sample(1, 0, replace=True) is None
        buffer.push(batch(0, 3), 0)
        assert buffer.sample(4, 0) is None
        assert buffer.sample(3, 0, sample_range=slice(-2, None)) is None
    assert "it holds 3 elements" in caplog.text
    assert "selects 2 of 3" in caplog.text
    assert buffer.sample(0, 0) == []


@pytest.mark.parametrize("size", [-1, 1.5, "2", True, None])
def test_sizes_that_are_none(make, size):
    buffer = make(NaiveReplayBuffer, 10)
    buffer.push(batch(0, 3), 0)
    with pytest.raises(BufferArgumentError, match="size of a sample"):
        buffer.sample(size, 0)


@pytest.mark.parametrize("pushed", [7, 10, 13, 25])
def test_sample_range_goes_from_oldest_to_newest(make, pushed):
    buffer = make(NaiveReplayBuffer, 10)
    for number in range(pushed):
        buffer.push(row(number), 0)
    content = list(range(pushed))[-10:]
    for part in (
        slice(-3, None), slice(None, 4), slice(0, 4), slice(2, -2), slice(-4, -1), slice(None, None),
        slice(1, None, 3), slice(-1, 1, -2),
    ):  # fmt: skip
        expected = content[part]
        assert sorted(numbers(buffer.sample(len(expected), 0, sample_range=part))) == sorted(expected)
    for part in (slice(3, 3), slice(5, 2), slice(50, None), slice(0, 4, 0), slice(0.0, 4), 3, range(3)):
        with pytest.raises(BufferArgumentError, match="sample_range"):
            buffer.sample(1, 0, sample_range=part)


@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer])
def test_sizes_of_any_int_type_are_counted_without_overflow(make, cls):
    buffer = make(cls, 200)
    buffer.push(batch(0, 200), 0)
    for _ in range(3):
        assert len(buffer.sample(np.uint8(200), 0)) == 200
    assert buffer.counters.sampled == 600


def test_uniform_draws_are_uniform():
    for replace in (False, True):
        draw = Draws().uniform
        counts = np.zeros(50)
        calls = 20_000
        for _ in range(calls):
            drawn = draw(50, 6, replace)
            assert replace or len(set(drawn.tolist())) == 6
            np.add.at(counts, drawn, 1)
        expected = calls * 6 / 50
        # 49 degrees of freedom: 99.9 % of the time below 85.4
        assert ((counts - expected) ** 2 / expected).sum() < 85.4


def test_pairs_of_a_draw_without_replacement_are_uniform():
    draw = Draws().uniform
    counts = np.zeros((12, 12))
    for _ in range(20_000):
        a, b, c = sorted(draw(12, 3, False).tolist())
        for pair in ((a, b), (a, c), (b, c)):
            counts[pair] += 1
    found = counts[np.triu_indices(12, 1)]
    expected = 20_000 * 3 / 66
    # 65 degrees of freedom: 99.9 % of the time below 106
    assert ((found - expected) ** 2 / expected).sum() < 106


def test_large_draws_without_replacement_are_uniform_in_values_pairs_and_order():
    # So large that most of them would hold repeats.
    draw, calls = Draws().uniform, 20_000
    pairs, first = np.zeros((40, 40)), np.zeros(40)
    for _ in range(calls):
        drawn = draw(40, 10, False)
        assert len(set(drawn.tolist())) == 10
        assert 0 <= drawn.min() <= drawn.max() < 40
        pairs[np.ix_(drawn, drawn)] += 1
        first[drawn[0]] += 1
    expected = calls * 45 / 780
    # 779 degrees of freedom: 99.9 % of the time below 907; 39 below 72.1
    assert ((pairs[np.triu_indices(40, 1)] - expected) ** 2 / expected).sum() < 907
    assert ((first - calls / 40) ** 2 / (calls / 40)).sum() < 72.1


@pytest.mark.parametrize(("count", "size"), [(3000, 750), (100_000, 1024)])
def test_large_draws_hold_nothing_twice(count, size):
    draw = Draws().uniform
    for _ in range(200):
        assert len(np.unique(draw(count, size, False))) == size


def test_samples_are_copies(make):
    buffer = make(NaiveReplayBuffer, 4)
    buffer.push(batch(0, 4), 0)
    for one in buffer.sample(4, 0):
        one["obs"].fill_(-1)
        one["new"] = 1
    assert (buffer.sample(4, 0).columns["obs"] >= 0).all()
    objects = make(NaiveReplayBuffer, 4)
    objects.push([{"a": 1}, {"b": [2]}], 0)
    for one in objects.sample(2, 0):
        one["new"] = 1
    assert sorted(map(str, objects.sample(2, 0))) == ["{'a': 1}", "{'b': [2]}"]


def test_deepcopy_reaches_into_objects(make):
    source = {"a": [1]}
    buffer = make(NaiveReplayBuffer, 4, deepcopy=True)
    buffer.push([source, 5], 0)
    source["a"].append(2)
    for one in buffer.sample(2, 0):
        if one != 5:
            one["a"].append(3)
    assert {"a": [1]} in buffer.sample(2, 0)


def test_any_object_is_taken(make):
    buffer = make(NaiveReplayBuffer, 3)
    for one in ("text", 3, None, [1, [2]]):
        buffer.push([one] if isinstance(one, list) else one, 0)
    assert buffer.count() == 3
    assert len(buffer.sample(3, 0)) == 3


@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer])
@pytest.mark.parametrize(
    ("bad", "field"),
    [({**row(5), "extra": 1}, "extra"), ({**row(5), "reward": None}, "reward"), ({"obs": 1}, "reward")],
)
def test_rows_of_other_fields_are_taken_as_objects_with_one_warning(make, caplog, cls, bad, field):
    buffer = make(cls, 8)
    buffer.push(batch(0, 2), 0)
    with caplog.at_level(logging.WARNING, "ding"):
        buffer.push(bad, 0)
        buffer.push([bad, row(6)], 0)
    assert caplog.text.count("rows of another form were pushed") == 1
    assert repr(field) in caplog.text
    assert "storage.mixed_rows=False" in caplog.text
    rows = buffer.sample(5, 0)
    assert sorted(len(set(bad) - set(one)) for one in rows) == ([0] * 5 if field != "extra" else [0, 0, 1, 1, 1])


def test_bad_rows_leave_the_buffer_as_it_was(make):
    buffer = make(NaiveReplayBuffer, 8, storage={"mixed_rows": False})
    buffer.push(batch(0, 5), 0)
    before = held(buffer)
    for bad in (
        {**row(5), "extra": 1}, {"obs": torch.zeros(3)}, {**row(5), "obs": torch.zeros(4)}, 7, [row(5), 7],
        {**row(5), "reward": None}, [row(5), {**row(6), "action": torch.zeros(1)}],
    ):  # fmt: skip
        with pytest.raises(SchemaError):
            buffer.push(bad, 0)
        assert (held(buffer), buffer.count(), buffer.push_count) == (before, 5, 5)
    buffer.push(row(5), 0)
    assert held(buffer) == [0, 1, 2, 3, 4, 5]


def test_mixed_rows_turn_the_storage_into_objects_without_loss(make, caplog):
    buffer = make(NaiveReplayBuffer, 4, storage={"mixed_rows": True})
    buffer.push(batch(0, 6), 0)
    with caplog.at_level(logging.INFO, "ding"):
        buffer.push([{"reward": torch.ones(1) * 6, "other": "x"}], 0)
    assert "another form" in caplog.text
    buffer.push(batch(7, 1), 0)
    assert held(buffer) == [4, 5, 6, 7]
    oldest = buffer.sample(1, 0, sample_range=slice(0, 1))[0]
    assert torch.equal(oldest["obs"], torch.full((3,), 4.0))


def test_schema_is_chosen_anew_after_clear(make):
    buffer = make(NaiveReplayBuffer, 4)
    buffer.push(batch(0, 3), 0)
    buffer.clear()
    assert (buffer.count(), buffer.push_count) == (0, 3)
    buffer.push({"x": 1}, 0)
    assert buffer.sample(1, 0)[0] == {"x": 1}
    buffer.clear()
    buffer.push("text", 0)
    assert buffer.sample(1, 0) == ["text"]


def test_update_is_tolerated(make, caplog):
    buffer = make(NaiveReplayBuffer, 4)
    with caplog.at_level(logging.WARNING, "ding"):
        buffer.update({"priority": [1]})
        buffer.update({})
    assert caplog.text.count("nothing to update") == 1


@pytest.mark.parametrize("kind", ["columns", "objects"])
def test_save_and_load(make, kind, tmp_path):
    buffer = make(NaiveReplayBuffer, 64, storage={"mixed_rows": kind == "objects"})
    for number in range(100):
        buffer.push(row(number) if kind == "columns" else {"reward": [number], "n" * (number % 2 + 1): "text"}, 0)
    buffer.save_data(str(tmp_path / "new" / "folder" / "data.rb"))
    other = make(NaiveReplayBuffer, 64)
    other.load_data(str(tmp_path / "new" / "folder" / "data.rb"))
    assert (other.count(), other.push_count) == (64, 64)
    assert held(other) == list(range(36, 100))


def test_save_of_a_part_filled_ring_holds_no_empty_slots(make, tmp_path):
    buffer = make(NaiveReplayBuffer, 64)
    buffer.push(batch(0, 3), 0)
    buffer.save_data(str(tmp_path / "data"))
    other = make(NaiveReplayBuffer, 64)
    other.load_data(str(tmp_path / "data"))
    assert held(other) == [0, 1, 2]
    make(NaiveReplayBuffer, 4).save_data(str(tmp_path / "empty"))
    other.load_data(str(tmp_path / "empty"))
    assert other.count() == 3


def test_load_of_bad_files_changes_nothing(make, tmp_path):
    buffer = make(NaiveReplayBuffer, 8, storage={"mixed_rows": False})
    buffer.push(batch(0, 3), 0)
    buffer.save_data(str(tmp_path / "good"))
    raw = (tmp_path / "good").read_bytes()
    (tmp_path / "cut").write_bytes(raw[:-5])
    (tmp_path / "changed").write_bytes(raw[:-5] + b"xxxxx")
    (tmp_path / "pickle").write_bytes(pickle.dumps([1, 2]))
    for name in ("cut", "changed", "pickle"):
        with pytest.raises(SafeFileError, match=name):
            buffer.load_data(str(tmp_path / name))
    make_other = make(NaiveReplayBuffer, 8)
    make_other.push({"x": 1}, 0)
    make_other.save_data(str(tmp_path / "other"))
    with pytest.raises(SchemaError, match="missing fields"):
        buffer.load_data(str(tmp_path / "other"))
    assert held(buffer) == [0, 1, 2]


@pytest.mark.parametrize("storage", [{}, {"elide_next_obs": True}])
def test_state_goes_on_with_the_same_draws(make, storage):
    from ding.utils import read_file, save_file

    buffer = make(NaiveReplayBuffer, 20, storage=storage)
    buffer.push(batch(0, 33), 0)
    for _ in range(3):
        buffer.sample(6, 0)
    state = buffer.state_dict()
    save_file("state.pth", state)
    others = [make(NaiveReplayBuffer, 20, storage=storage) for _ in range(2)]
    others[0].load_state_dict(state)
    others[1].load_state_dict(read_file("state.pth"))
    buffer.push(batch(33, 1), 0)
    expected = [numbers(buffer.sample(6, 0)) for _ in range(5)]
    for other in others:
        other.push(batch(33, 1), 0)
        assert [numbers(other.sample(6, 0)) for _ in range(5)] == expected
        assert (other.push_count, held(other)) == (34, held(buffer))


@pytest.mark.parametrize("size", [3, 9, 60])
def test_state_of_draws_goes_on_with_the_same_draws(size):
    draws, other = Draws(), Draws()
    other.uniform(300, size)
    draws.uniform(300, size)
    other.load_state_dict(draws.state_dict())
    for count in (300, 300, 301):
        np.testing.assert_array_equal(other.uniform(count, size), draws.uniform(count, size))
        np.testing.assert_array_equal(other.stratified(size), draws.stratified(size))
    with pytest.raises(ValueError, match="PCG64"):
        other.load_state_dict({"bit_generator": "MT19937"})


@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer])
def test_loaded_objects_are_not_those_of_the_state(make, cls):
    buffer, other = make(cls, 4), make(cls, 4)
    buffer.push([{"a": [1]}, {"b": [2]}], 0)
    state = buffer.state_dict()
    other.load_state_dict(state)
    state["data"][0]["a"] = 5
    assert other.sample(1, 0, sample_range=slice(0, 1))[0]["a"] == [1]
    assert (other.count(), other.counters.have) == (2, 2)


def test_state_is_a_copy(make):
    buffer = make(NaiveReplayBuffer, 4)
    buffer.push(batch(0, 4), 0)
    state = buffer.state_dict()
    buffer.push(batch(4, 4), 0)
    assert numbers(as_rows(state["data"])) == [0, 1, 2, 3]
    state["data"]["reward"][:] = 50
    assert held(buffer) == [4, 5, 6, 7]


def test_states_that_do_not_fit(make):
    buffer = make(NaiveReplayBuffer, 4)
    buffer.push(batch(0, 2), 0)
    state = buffer.state_dict()
    with pytest.raises(BufferArgumentError, match="a buffer of 4 elements"):
        make(NaiveReplayBuffer, 5).load_state_dict(state)
    del state["tail"]
    with pytest.raises(BufferArgumentError, match="lacks"):
        buffer.load_state_dict(state)
    buffer.load_state_dict({"data": [row(2)]})
    assert held(buffer) == [0, 1, 2]


def test_seeds_make_draws_repeatable(make):
    def draws():
        set_pkg_seed(5)
        buffer = make(NaiveReplayBuffer, 100)
        buffer.push(batch(0, 100), 0)
        return [numbers(buffer.sample(8, 0)) for _ in range(4)]

    assert draws() == draws()


def test_close_is_final_and_may_be_repeated(make):
    import threading

    before = threading.active_count()
    buffer = make(NaiveReplayBuffer, 4)
    buffer.start()
    buffer.push(batch(0, 2), 0)
    assert threading.active_count() == before + 1
    buffer.close()
    buffer.close()
    assert threading.active_count() == before
    assert buffer.count() == 0
    with pytest.raises(BufferClosedError, match="closed"):
        buffer.push(batch(0, 2), 0)


def test_a_buffer_that_nobody_closes_takes_its_thread_along():
    import gc
    import threading

    before = set(threading.enumerate())
    buffer = NaiveReplayBuffer({"replay_buffer_size": 4}, instance_name="forgotten")
    (thread,) = set(threading.enumerate()) - before
    del buffer
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"replay_buffer_size": 0}, "replay_buffer_size"),
        ({"replay_buffer_size": 2.5}, "replay_buffer_size"),
        ({"replay_buffer_size": True}, "replay_buffer_size must be a positive int, got True"),
        ({"replay_buffer_size": None}, "replay_buffer_size must be a positive int, got None"),
        ({"replay_buffer_size": "100"}, "replay_buffer_size must be a positive int, got '100'"),
        ({"replay_buffer_size": float("inf")}, "replay_buffer_size must be a positive int, got inf"),
        ({"storage": {"elide_nextobs": True}}, "Did you mean 'elide_next_obs'"),
        ({"storage": {"frame_stack": -2}}, "frame_stack"),
        ({"rate_limit": {"sample_per_insert": 1}}, "Did you mean 'samples_per_insert'"),
    ],
)
def test_bad_configs_are_named(config, message):
    with pytest.raises(BufferConfigError, match=message):
        NaiveReplayBuffer(config)


def test_factories():
    for name in ("naive", "elastic", "sequence", "episode", "advanced"):
        cls = get_buffer_cls({"type": name})
        assert BUFFER_REGISTRY.get(name) is cls
        assert cls.default_config().type == name
        assert cls.default_config().cfg_type == cls.__name__ + "Dict"
    buffer = create_buffer(NaiveReplayBuffer.default_config(), None, "exp", "mine")
    assert isinstance(buffer, NaiveReplayBuffer)
    buffer.close()
    with pytest.raises(KeyError, match="naive"):
        create_buffer({"type": "naiv"})
    with pytest.raises(KeyError, match="type"):
        create_buffer({})


@pytest.mark.parametrize("short", [{"storage_path": "maps"}, {"storage": {"path": "maps"}}])
def test_mapped_storage(make, short, tmp_path):
    buffer = make(NaiveReplayBuffer, 10, **short)
    buffer.push(batch(0, 13), 0)
    assert any((tmp_path / "maps").iterdir())
    assert held(buffer) == list(range(3, 13))
    buffer.close()
    assert not any((tmp_path / "maps").iterdir())


def test_elastic_buffer_draws_among_the_newest(make):
    buffer = make(ElasticReplayBuffer, 20, set_buffer_size=lambda envstep: 5 if envstep < 10 else 12)
    buffer.push(batch(0, 30), 0)
    assert sorted(numbers(buffer.sample(5, 0))) == [25, 26, 27, 28, 29]
    assert set(numbers(buffer.sample(99, 0, replace=True))) == {25, 26, 27, 28, 29}
    assert buffer.sample(6, 0) is None
    buffer.update(10)
    assert sorted(numbers(buffer.sample(12, 0))) == list(range(18, 30))
    with pytest.raises(AssertionError, match="sample_range"):
        buffer.sample(1, 0, sample_range=slice(0, 1))


def test_elastic_buffer_needs_its_function():
    with pytest.raises(BufferConfigError, match="set_buffer_size"):
        ElasticReplayBuffer({"replay_buffer_size": 5})
    for wrong in (0, None, 2.5):
        with pytest.raises(BufferConfigError, match=r"set_buffer_size\(0\)"):
            ElasticReplayBuffer({"replay_buffer_size": 5, "set_buffer_size": lambda envstep, size=wrong: size})


def test_rows_changed_by_hand_turn_the_storage_into_objects(make):
    buffer = make(NaiveReplayBuffer, 8, storage={"mixed_rows": True})
    buffer.push(batch(0, 3), 0)
    changed = batch(3, 2)
    changed[0]["obs"] = torch.ones(7)
    buffer.push(changed, 0)
    assert held(buffer) == [0, 1, 2, 3, 4]


def test_deepcopy_reaches_into_the_objects_of_columns(make):
    for cls in (NaiveReplayBuffer, AdvancedReplayBuffer):
        buffer = make(cls, 4, deepcopy=True)
        buffer.push({"reward": torch.ones(1), "info": {"list": [1]}}, 0)
        for _ in range(2):
            sampled = buffer.sample(1, 0)
            assert isinstance(sampled, TransitionBatch)
            assert sampled[0]["info"]["list"] == [1]
            sampled[0]["info"]["list"].append(2)


@pytest.mark.parametrize("tree", [5, {"obs": 1}, (1, 2), None])
def test_a_file_of_something_else_than_rows_is_refused(make, tree):
    write_tree("other", tree, "replay buffer")
    buffer = make(NaiveReplayBuffer, 4)
    with pytest.raises(SafeFileError, match="holds no rows"):
        buffer.load_data("other")
    assert buffer.count() == 0


@pytest.mark.parametrize(
    "storage", [{"mixed_rows": True}, {"mixed_rows": True, "device": "cpu"}, {"mixed_rows": True, "frame_stack": 4}]
)
def test_rows_kept_as_objects_are_objects_in_a_state(make, storage):
    buffer = make(NaiveReplayBuffer, 2, storage=storage)
    buffer.push([{"n": 1}, {"other": 2}], 0)
    buffer.push([{"n": 3, "text": "x"}, {"n": 4, "text": "y"}], 0)
    other = make(NaiveReplayBuffer, 2, storage=storage)
    other.load_state_dict(buffer.state_dict())
    assert other.sample(2, 0) == buffer.sample(2, 0)
    other.push({"something": "else"}, 0)


def test_a_ring_that_is_just_full_begins_anew(make):
    buffer, other = make(NaiveReplayBuffer, 8), make(NaiveReplayBuffer, 8)
    for first in (0, 4, 8, 12):
        buffer.push(batch(first, 4), 0)
    state = buffer.state_dict()
    assert state["tail"] == 0
    other.load_state_dict(state)
    assert held(other) == list(range(8, 16))


@pytest.mark.parametrize("name", ["_state_dict", "state_dict"])
def test_a_state_is_loaded_by_either_name(make, name):
    buffer, other = make(NaiveReplayBuffer, 4), make(NaiveReplayBuffer, 4)
    buffer.push(batch(0, 3), 0)
    other.load_state_dict(**{name: buffer.state_dict()})
    assert held(other) == [0, 1, 2]


def test_objects_of_a_state_are_not_shared_with_the_buffer(make):
    buffer = make(NaiveReplayBuffer, 2)
    buffer.push([{"n": 1}, {"other": 2}], 0)
    state = buffer.state_dict()
    other = make(NaiveReplayBuffer, 2)
    other.load_state_dict(state)
    state["data"][0]["n"] = 99
    assert {"n": 1} in other.sample(2, 0)
