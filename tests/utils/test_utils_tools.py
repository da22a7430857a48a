"""Timers, threads, ports, schedulers, segment trees, series of values, profilers."""

import os
import re
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from easydict import EasyDict
from hypothesis import given
from hypothesis import strategies as st

from ding.utils import (
    DatasetNormalizer,
    EasyTimer,
    MinSegmentTree,
    PropagatingThread,
    Scheduler,
    SegmentTree,
    SingletonMetaclass,
    SumSegmentTree,
    WatchDog,
    build_time_helper,
    convert_easy_dict_to_dict,
    find_free_port,
    fps,
    get_ip,
    get_pid,
    get_task_uid,
    get_vi_sequence,
    iter_mapping,
    render,
)
from ding.utils.autolog import LoggedModel, LoggedValue, NaturalTime, TickTime, TimeMode, TimeProxy, TimeRangedData
from ding.utils.memory_helper import SimpleMemoryProfiler
from ding.utils.profiler_helper import Profiler, write_profile


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(value=100.0)
    monkeypatch.setattr(time, "perf_counter", lambda: now.value)
    return now


def test_nested_timers_have_their_own_start(clock):
    outer, inner = EasyTimer(), EasyTimer(cuda=False)
    with outer:
        clock.value += 1
        with inner:
            clock.value += 2
        clock.value += 4
    assert (inner.value, outer.value) == (2, 7)


def test_time_wrappers(clock):
    helper = build_time_helper(wrapper_type="time")
    helper.start_time()
    clock.value += 3

    def work(x):
        clock.value += 2
        return x + 1

    assert helper.wrapper(work)(1) == (2, 2)
    assert helper.end_time() == 5
    assert build_time_helper(EasyDict(common=EasyDict(time_wrapper_type="time"))) is helper
    with pytest.raises(KeyError, match="'sun'"):
        build_time_helper(wrapper_type="sun")
    with pytest.raises(ValueError, match="cfg or wrapper_type"):
        build_time_helper()


def test_watch_dog_barks_and_gives_the_signal_back():
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TimeoutError, match=r"0\.01 s"), WatchDog(0.01):
        threading.Event().wait(10)
    assert signal.getsignal(signal.SIGALRM) is before
    with WatchDog(30):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    with pytest.raises(ValueError, match="above 0"):
        WatchDog(0)


def test_propagating_thread():
    def fail():
        raise KeyError("inside")

    thread = PropagatingThread(target=lambda a, b: a + b, args=(1,), kwargs={"b": 2}, daemon=True)
    thread.start()
    assert thread.join(10) == 3
    thread = PropagatingThread(target=fail)
    thread.start()
    with pytest.raises(KeyError, match="inside"):
        thread.join(10)


def test_ports_and_ids():
    ports = [find_free_port("127.0.0.1") for _ in range(20)]
    assert len(set(ports)) == 20
    assert re.fullmatch(r"\d+\.\d+\.\d+\.\d+", get_ip())
    assert get_pid() == os.getpid()
    uids = {get_task_uid() for _ in range(10)}
    assert len(uids) == 10
    assert all(re.fullmatch(r"[0-9a-f-]{36}_\d{6}", uid) for uid in uids)


@pytest.mark.parametrize("flag", [False, True])
def test_scheduler_steps(flag):
    scheduler = Scheduler({"schedule_flag": flag, "patience": 1, "cooldown": 2})
    assert (scheduler.in_cooldown, scheduler.last_metrics, scheduler.change_range) == (True, None, [-1, 1])
    values, param = [], 0.5
    for metric in [1.0, 2.0, 3.0, 4.0, 5.0, 0.5, 6.0, 7.0]:
        param = scheduler.step(metric, param)
        values.append(round(param, 4))
    # Two metrics of cooldown, then two in a row that are worse than the one before; the flag is the policy's affair.
    assert values == [0.5, 0.5, 0.5, 0.45, 0.45, 0.45, 0.45, 0.4]
    assert (scheduler.last_metrics, scheduler.bad_epochs_num, scheduler.cooldown_counter) == (7.0, 0, 2)


@pytest.mark.parametrize(
    ("mode", "factor", "expected"), [("reduce", 1.7, -1.0), ("add", 0.7, 1.0), ("multi", 0.5, 0.25), ("div", 2, 0.25)]
)
def test_scheduler_modes_are_clipped(mode, factor, expected):
    assert Scheduler({"schedule_mode": mode, "factor": factor}).update_param(0.5) == expected


@pytest.mark.parametrize(
    "cfg",
    [
        {"schedule_mode": "x"},
        {"optimize_mode": "x"},
        {"factor": -1},
        {"factor": 0},
        {"change_range": [1, 0]},
        {"change_range": 3},
        {"threshold": "x"},
        {"patience": -1},
        {"cooldown": 0.5},
    ],
)
def test_scheduler_refuses(cfg):
    for error in (ValueError, AssertionError):
        with pytest.raises(error, match=next(iter(cfg))):
            Scheduler(cfg)


def test_scheduler_defaults(caplog):
    assert Scheduler({"patienc": 1}).patience == 10
    assert "Did you mean 'patience'" in caplog.text
    cfg = Scheduler.default_config()
    cfg.change_range[0] = 5
    assert Scheduler.config["change_range"] == [-1, 1]
    assert Scheduler({}).step(1, 0.3) == 0.3
    with pytest.raises(AssertionError, match="metrics"):
        Scheduler({}).step(None, 0.3)


def test_singletons():
    class A(metaclass=SingletonMetaclass):
        def __init__(self):
            self.made = True

    class B(A):
        pass

    assert A() is A() is A.instance
    assert B() is not A()
    assert B.instance is B()


def test_conversions():
    plain = convert_easy_dict_to_dict(EasyDict(a={"b": [{"c": 1}], "t": ({"d": 2},)}))
    assert plain == {"a": {"b": [{"c": 1}], "t": ({"d": 2},)}}
    assert type(plain["a"]) is dict
    assert type(plain["a"]["b"][0]) is dict
    assert list(iter_mapping([1, 2], lambda x: x * 2)) == [2, 4]


def test_render_and_fps():
    inner = SimpleNamespace(
        metadata={"render_fps": 50}, render_mode="rgb_array", render=lambda: np.zeros((2, 3, 3), np.uint8)
    )
    env = SimpleNamespace(_env=inner)
    assert render(env).shape == (2, 3, 3)
    assert fps(SimpleNamespace(env_ref=env)) == 50
    assert fps(SimpleNamespace(_env_ref=SimpleNamespace(metadata={}))) == 30
    inner.render_mode = None
    with pytest.raises(ValueError, match="render_mode=None"):
        render(env)
    with pytest.raises(AttributeError, match="env_ref"):
        fps(SimpleNamespace())


# segment trees


@given(st.lists(st.tuples(st.integers(0, 7), st.floats(0, 100)), max_size=20), st.integers(0, 7), st.integers(1, 8))
def test_trees_match_a_list(writes, start, length):
    end = min(8, start + length)
    trees = SumSegmentTree(8), MinSegmentTree(8), SegmentTree(8, max, neutral_element=0.0)
    values = {"sum": [0.0] * 8, "min": [np.inf] * 8, "max": [0.0] * 8}
    for index, value in writes:
        for tree in trees:
            tree[index] = value
            values[tree.operation][index] = value
    for tree, fn in zip(trees, (sum, min, max)):
        assert tree.reduce(start, end) == pytest.approx(fn(values[tree.operation][start:end]))
        assert tree[np.arange(8)].tolist() == values[tree.operation]


@given(st.lists(st.integers(0, 5), min_size=8, max_size=8).filter(any), st.floats(0, 1))
def test_prefix_sums_find_the_first_leaf_above(weights, fraction):
    tree = SumSegmentTree(8)
    tree[np.arange(8)] = weights
    mass = fraction * sum(weights)
    cumulative = np.cumsum(weights)
    expected = int(np.argmax(cumulative > mass)) if mass < sum(weights) else int(np.flatnonzero(weights)[-1])
    assert tree.find_prefixsum_idx(mass) == expected
    assert tree.find_prefixsum_idx(np.array([mass, 0.0])).tolist() == [expected, int(np.flatnonzero(weights)[0])]


def test_the_only_leaf_is_found_at_the_total():
    tree = SumSegmentTree(4)
    tree[0] = 2.0
    assert tree.find_prefixsum_idx(2.0) == 0
    assert tree.find_prefixsum_idx(2.000001, trust_caller=False) == 0
    with pytest.raises(AssertionError, match="prefixsum"):
        tree.find_prefixsum_idx(-0.1, trust_caller=False)
    tree[0] = 0.0
    with pytest.raises(ValueError, match="every leaf"):
        tree.find_prefixsum_idx(0.0)


def test_many_leaves_at_once_equal_one_by_one():
    rng = np.random.default_rng(0)
    index, value = rng.integers(0, 64, 200), rng.random(200)
    one, many = SumSegmentTree(64), SumSegmentTree(64)
    for i, v in zip(index, value):
        one[int(i)] = v
    many[index] = value
    np.testing.assert_allclose(many.value, one.value)


def test_tree_limits():
    for capacity in (0, 3, 12):
        with pytest.raises(AssertionError, match="power of two"):
            SumSegmentTree(capacity)
    tree = MinSegmentTree(4)
    assert tree.reduce() == np.inf
    for start, end in ((2, 2), (-1, 2), (0, 5)):
        with pytest.raises(AssertionError, match="start"):
            tree.reduce(start, end)
    tree[3] = 1.0
    assert tree.reduce(0, -1) == np.inf
    with pytest.raises(IndexError):
        tree[4] = 1.0
    with pytest.raises(KeyError, match="'mul'"):
        SegmentTree(4, "mul")
    single = SumSegmentTree(1)
    single[0] = 3.0
    assert (single.reduce(), single.find_prefixsum_idx(1.0)) == (3.0, 0)


# autolog


class Monitor(LoggedModel):
    loss = LoggedValue(float)
    count = LoggedValue(int)
    note = LoggedValue(str)
    any = LoggedValue()

    def __init__(self, time_, expire):
        super().__init__(time_, expire)
        for name in self.properties:
            self.register_attribute_value("last", name, lambda name=name: self.range_values[name]()[-1][1])


def test_series_keep_a_window():
    clock = TickTime()
    monitor = Monitor(clock, expire=2)
    for value in range(5):
        monitor.loss = value
        clock.step()
    assert monitor.range_values["loss"]() == [((3, 4), 3.0), ((4, 5), 4.0)]
    monitor.loss = 7
    monitor.loss = 8
    assert [value for _, value in monitor.range_values["loss"]()] == [3.0, 4.0, 8.0]
    assert monitor.last["loss"]() == 8.0
    assert monitor.loss == 8.0
    assert monitor["loss"] == ["last"]
    assert monitor.properties == ["loss", "count", "note", "any"]


@pytest.mark.parametrize("value", [1, np.int64(1), np.float32(1), torch.tensor(1), torch.ones(1, 1), True])
def test_floats_are_coerced(value):
    monitor = Monitor(TickTime(), 1)
    monitor.loss = value
    assert monitor.loss == 1.0
    assert type(monitor.loss) is float


def test_values_that_do_not_fit():
    monitor = Monitor(TickTime(), 1)
    monitor.count = np.int32(3)
    assert type(monitor.count) is int
    for name, value in (("loss", "1"), ("loss", [1, 2]), ("loss", torch.ones(2)), ("count", 1.5), ("note", 1)):
        with pytest.raises(TypeError, match=name):
            setattr(monitor, name, value)
    with pytest.raises(ValueError, match="'note' has no value"):
        _ = monitor.note
    with pytest.raises(AttributeError, match="avg"):
        _ = monitor.avg
    with pytest.raises(KeyError, match="Did you mean 'loss'"):
        monitor.last["los"]


def test_model_time():
    clock = TickTime(5)
    monitor = Monitor(clock, 1)
    monitor.freeze()
    clock.step(3)
    assert (monitor.current_time(), monitor.fixed_time()) == (8, 5)
    monitor.unfreeze()
    assert monitor.fixed_time() == 8
    assert NaturalTime().time() <= NaturalTime().time()
    with pytest.raises(ValueError, match="delta"):
        clock.step(0)
    with pytest.raises(ValueError, match="expire"):
        Monitor(clock, 0)


def test_times_of_the_window_are_counted_from_where_one_says():
    clock = TickTime(1.5)
    monitor = Monitor(clock, expire=3)
    monitor.count = 1
    clock.step()
    monitor.count = 2
    clock.step()
    values = monitor.range_values["count"]
    assert values() == values(TimeMode.RELATIVE_LIFECYCLE) == [((0, 1), 1), ((1, 2), 2)]
    assert values(mode=TimeMode.ABSOLUTE) == [((1.5, 2.5), 1), ((2.5, 3.5), 2)]
    assert values(TimeMode.RELATIVE_CURRENT_TIME) == [((-2, -1), 1), ((-1, 0), 2)]


def test_natural_time_is_the_epoch(monkeypatch):
    clock = NaturalTime()
    for now, seen in ((1000.0, 1000.0), (900.0, 1000.0), (1001.0, 1001.0)):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        assert clock.time() == seen


def test_a_clock_that_stands_still():
    clock = TickTime()
    proxy = TimeProxy(clock)
    clock.step()
    proxy.freeze()
    clock.step()
    assert (proxy.time(), proxy.current_time(), proxy.is_frozen) == (1, 2, True)
    proxy.unfreeze()
    assert proxy.time() == 2


def test_data_of_a_range_of_time():
    # The numbers of DI-engine 0.5.3.
    clock = TickTime()
    data = TimeRangedData(clock, 2)
    assert not data
    for value in range(5):
        data.append(value)
        clock.step()
    assert data.history() == [(3, 2), (3, 3), (4, 4), (5, 4)]
    clock.step(10)
    assert data.history() == [(13, 4), (15, 4)]
    assert data.extend([7, 8]).history() == [(13, 4), (15, 7), (15, 8)]
    assert (data.current(), data.expire, bool(data)) == (8, 2, True)
    for error, expire in ((ValueError, 0), (TypeError, "a")):
        with pytest.raises(error, match="expire"):
            TimeRangedData(clock, expire)
    with pytest.raises(ValueError, match="no value"):
        TimeRangedData(clock, 2).current()


# profilers, normalisers, search


def test_profile_is_written(tmp_path):
    profiler = Profiler()
    profiler.pr.enable()
    sorted([3, 1, 2])
    write_profile(profiler.pr, str(tmp_path))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["profile.prof", "profile_cumtime.txt", "profile_tottime.txt"]
    assert "sorted" in (tmp_path / "profile_cumtime.txt").read_text()


def test_memory_profile(tmp_path):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    profiler = SimpleMemoryProfiler(model, optimizer, str(tmp_path), total_steps=1)
    model(torch.zeros(4, 3)).sum().backward()
    optimizer.step()
    totals = profiler.totals()
    assert totals == {"parameter": 32, "gradient": 32, "optimizer": 2 * 32 + 2 * 4, "activation": 32}
    profiler.step()
    profiler.step()
    assert (tmp_path / "memory.log").read_text().count("step:") == 1
    model(torch.zeros(4, 3))
    assert profiler.totals()["activation"] == 0


@pytest.mark.parametrize("name", ["GaussianNormalizer", "LimitsNormalizer", "CDFNormalizer"])
def test_normalizers_are_inverted(name):
    x = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    normalizer = DatasetNormalizer({"observations": x, "flags": np.zeros(50)}, name)
    np.testing.assert_allclose(normalizer.unnormalize(normalizer(x, "observations"), "observations"), x, atol=1e-4)
    assert normalizer.observation_dim == 3
    with pytest.raises(KeyError, match="'flags'"):
        normalizer.normalize(x, "flags")


def test_normalized_values():
    x = np.array([[0.0, 5.0], [2.0, 5.0]])
    normalizer = DatasetNormalizer({"a": x}, "LimitsNormalizer")
    assert normalizer(x, "a").tolist() == [[-1, 0], [1, 0]]
    assert DatasetNormalizer({"a": x}, "GaussianNormalizer")(x, "a").tolist() == [[-1, 0], [1, 0]]
    padded = DatasetNormalizer({"a": np.array([[[1.0], [9.0]], [[3.0], [5.0]]])}, "LimitsNormalizer", [1, 2])
    assert (padded.normalizers["a"].mins[0], padded.normalizers["a"].maxs[0]) == (1, 5)
    with pytest.raises(KeyError, match="Did you mean"):
        DatasetNormalizer({"a": x}, "Gaussian")


def test_maze_search():
    maze = [list(".x."), list("..."), list(".x.")]
    env = SimpleNamespace(
        size=3,
        n_action=4,
        target_location=(0, 0),
        nav_map=maze,
        get_maze_map=lambda: 7.0,
        process_states=lambda cell, maze_map: np.array([*cell, maze_map]),
    )
    observation = np.zeros((3, 3, 2))
    observation[0, 2, -1] = 1
    maps, path = get_vi_sequence(env, observation)
    # from (0, 2): +x to (1, 2), -y to (1, 1) and (1, 0), -x to (0, 0)
    assert [action for _, action in path] == [0, 3, 3, 2]
    assert [obs.tolist() for obs, _ in path] == [[0, 2, 7], [1, 2, 7], [1, 1, 7], [1, 0, 7]]
    assert maps.shape == (4, 3, 3)
    assert maps[0].tolist() == [[4, 4, 4], [2, 4, 4], [4, 4, 4]]
    with pytest.raises(ValueError, match="shows 0"):
        get_vi_sequence(env, np.zeros((3, 3, 2)))
