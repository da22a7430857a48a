import random
import sys
from collections import namedtuple

import numpy as np
import pytest
import torch
from easydict import EasyDict
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ding.utils import (
    LimitedSpaceContainer,
    RunningMeanStd,
    deep_merge_dicts,
    deep_update,
    default_get,
    dicts_to_lists,
    did_you_mean,
    error_wrapper,
    flatten_dict,
    get_shape0,
    import_module,
    list_split,
    lists_to_dicts,
    make_key_as_identifier,
    nearest,
    one_time_warning,
    override,
    remove_illegal_item,
    require_extra,
    set_pkg_seed,
    split_data_generator,
    squeeze,
    try_import_ceph,
    try_import_link,
    try_import_mc,
    try_import_redis,
    try_import_rediscluster,
)
from ding.utils.messages import add_note
from ding.utils.rows import split_fn


def test_merge_keeps_type_and_inputs():
    original = EasyDict(a=1, b={"c": 2, "d": [1]}, e={"f": 1})
    new = {"b": {"c": 3, "x": {"y": 1}}, "e": 5}
    merged = deep_merge_dicts(original, new)
    assert merged == {"a": 1, "b": {"c": 3, "d": [1], "x": {"y": 1}}, "e": 5}
    assert isinstance(merged, EasyDict)
    assert merged.b.x.y == 1
    merged.b.d.append(2)
    merged.b.x.y = 9
    assert original.b.d == [1]
    assert new["b"]["x"]["y"] == 1


def test_merge_takes_none_as_empty():
    assert deep_merge_dicts(None, {"a": 1}) == {"a": 1}
    assert deep_merge_dicts({"a": 1}, None) == {"a": 1}


trees = st.recursive(
    st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=8
).filter(lambda tree: isinstance(tree, dict))


@given(trees, trees)
def test_merge_laws(left, right):
    merged = deep_merge_dicts(left, right)
    assert deep_merge_dicts(merged, right) == merged  # what won stays
    assert deep_merge_dicts({}, right) == right
    for path, value in flatten_dict(right).items():
        assert flatten_dict(merged)[path] == value


def test_deep_update():
    original = {"a": {"type": "x", "p": 1}, "b": {"c": 1}}
    with pytest.raises(KeyError, match="'z'"):
        deep_update(original, {"b": {"z": 1}})
    assert deep_update({"b": {}}, {"b": {"z": 1}}, whitelist=["b"]) == {"b": {"z": 1}}
    changed = deep_update(original, {"a": {"type": "y"}}, override_all_if_type_changes=["a"])
    assert changed["a"] == {"type": "y"}


def test_lists_to_dicts_and_back():
    rows = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert lists_to_dicts(rows) == {"a": [1, 3], "b": [2, 4]}
    assert dicts_to_lists({"a": [1, 3], "b": [2, 4]}) == rows
    assert dicts_to_lists({"a": [1, 3], "b": [2]}) == [{"a": 1, "b": 2}]
    with pytest.raises(ValueError, match="at least one"):
        lists_to_dicts([])
    with pytest.raises(TypeError, match="int"):
        lists_to_dicts([1])


def test_lists_to_dicts_of_other_forms():
    pair = namedtuple("pair", "x y")
    assert lists_to_dicts([pair(1, 2), pair(3, 4)]) == pair((1, 3), (2, 4))
    rows = [{"o": {"a": 1}, "prev_state": {"h": 1}}, {"o": {"a": 2}, "prev_state": {"h": 2}}]
    assert lists_to_dicts(rows, recursive=True) == {"o": {"a": [1, 2]}, "prev_state": [{"h": 1}, {"h": 2}]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [((4,), 4), ({"a": 4}, 4), ([4], 4), ([1, 2], (1, 2)), ({"a": 1, "b": 2}, {"a": 1, "b": 2}), (7, 7)],
)
def test_squeeze(value, expected):
    assert squeeze(value) == expected


def test_list_split():
    assert list_split(list(range(5)), 2) == ([[0, 1], [2, 3]], [4])
    assert list_split(list(range(4)), 2) == ([[0, 1], [2, 3]], None)
    with pytest.raises(ValueError, match="step"):
        list_split([1], 0)


def test_small_dict_helpers():
    assert flatten_dict({"a": {"b": 1, "c": {"d": 2}}, "e": 3}) == {"a/b": 1, "a/c/d": 2, "e": 3}
    assert make_key_as_identifier({"a b": 1, "1x": 2, "ok": 3}) == {"a_b": 1, "_1x": 2, "ok": 3}
    assert remove_illegal_item({"a": "text", "b": 1}) == {"b": 1}
    assert get_shape0({"a": [torch.zeros(3, 2)]}) == 3
    with pytest.raises(TypeError, match="int"):
        get_shape0({"a": 1})


def test_default_get():
    assert default_get({"a": 1}, "a", 5) == 1
    assert default_get({}, "a", 5) == 5
    assert default_get({}, "a", default_fn=lambda: 6) == 6
    with pytest.raises(KeyError, match="'a'"):
        default_get({}, "a")
    assert default_get({"a": -1}, "a", judge_fn=lambda value: value > 0) == -1, "only a default is judged"
    with pytest.raises(ValueError, match="-1"):
        default_get({}, "a", -1, judge_fn=lambda value: value > 0)


def test_split_covers_all_rows_and_overlaps_at_the_end():
    data = {
        "x": torch.arange(10),
        "y": {"z": np.arange(10) * 2},
        "pair": [torch.arange(10), torch.zeros(10)],
        "n": None,
    }
    pieces = list(split_data_generator(data, 4, shuffle=False))
    assert [piece["x"].tolist() for piece in pieces] == [[0, 1, 2, 3], [4, 5, 6, 7], [6, 7, 8, 9]]
    for piece in pieces:
        assert piece["y"]["z"].tolist() == [2 * i for i in piece["x"].tolist()]
        assert piece["pair"][0].tolist() == piece["x"].tolist()
        assert piece["n"] is None


def test_split_keeps_rows_together_when_shuffled():
    np.random.seed(0)
    data = {"x": torch.arange(6), "prev_state": [torch.tensor([i]) for i in range(6)], "name": list("abcdef")}
    pieces = list(split_data_generator(data, 3))
    np.random.seed(0)
    order = np.random.permutation(6)
    assert torch.cat([piece["x"] for piece in pieces]).tolist() == order.tolist()
    for piece in pieces:
        assert [int(s) for s in piece["prev_state"]] == piece["x"].tolist()
        assert piece["name"] == ["abcdef"[i] for i in piece["x"]]


def test_split_of_less_than_one_piece():
    (piece,) = split_data_generator({"x": torch.arange(3)}, 16, shuffle=False)
    assert piece["x"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="has a length"):
        next(split_data_generator({"a": None}, 2))


def test_seed_reaches_all_generators():
    def draw():
        return random.random(), float(np.random.rand()), float(torch.rand(1))

    set_pkg_seed(3)
    first = draw()
    set_pkg_seed(3)
    assert draw() == first
    with pytest.raises(ValueError, match="seed"):
        set_pkg_seed(-1)


def test_names():
    assert nearest("smaple", ["sample", "episode"]) == "sample"
    assert nearest("xyz", ["sample"]) is None
    assert did_you_mean("a", []) == " No names are known."
    assert did_you_mean("xyz", ["b", "a"]) == " Known names: a, b."
    many = did_you_mean("xyz", [f"n{i:02d}" for i in range(40)])
    assert many.endswith("n29, ... (40 in all).")


def test_one_time_warning_and_error_wrapper(caplog):
    one_time_warning("test_utils: only once")
    one_time_warning("test_utils: only once")
    assert caplog.text.count("only once") == 1
    safe = error_wrapper(lambda x: 1 / x, 7, "division")
    assert safe(1) == 1
    assert safe(0) == 7
    assert "division: ZeroDivisionError" in caplog.text


def test_override():
    class Base:
        def run(self):
            pass

    def walk(self):
        pass

    with pytest.raises(NameError, match="walk"):
        override(Base)(walk)
    assert override(Base)(Base.run) is Base.run


def test_limited_space():
    space = LimitedSpaceContainer(0, 2)
    assert [space.acquire_space() for _ in range(3)] == [True, True, False]
    space.release_space()
    assert space.get_residual_space() == 1
    space.increase_space()
    assert space.acquire_space() is True
    for _ in range(5):
        space.release_space()
    assert space.cur == 0
    space.decrease_space()
    assert space.max_val == 2


@given(st.lists(arrays(np.float64, (4, 3), elements=st.floats(-100, 100)), min_size=1, max_size=5))
def test_running_mean_std_is_that_of_all_data(batches):
    running = RunningMeanStd(epsilon=1e-9, shape=(3,))
    for batch in batches:
        running.update(batch)
    everything = np.concatenate(batches)
    np.testing.assert_allclose(running.mean, everything.mean(axis=0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(running.var, everything.var(axis=0), rtol=1e-3, atol=1e-3)


def test_running_mean_std_of_scalars_and_its_state():
    running = RunningMeanStd()
    assert (running.mean, running.var) == (0.0, 1.0)
    running.update(torch.tensor([1.0, 3.0]))
    assert running.mean == pytest.approx(2.0, abs=1e-3)
    other = RunningMeanStd()
    other.load_state_dict(running.state_dict())
    assert (other.mean, other.std) == (running.mean, running.std)
    running.reset()
    assert running.mean == 0.0


def test_imports():
    import_module(["json", "colorsys"])
    with pytest.raises(TypeError, match="list of module names"):
        import_module("json")
    assert require_extra("json", "any").loads("1") == 1
    with pytest.raises(ImportError, match=r"pip install .*\[magic\]'"):
        require_extra("no_such_module_here", "magic")


@pytest.mark.parametrize(
    ("try_import", "name"),
    [
        (try_import_ceph, "ceph"), (try_import_link, "linklink"), (try_import_mc, "mc"),
        (try_import_redis, "redis"), (try_import_rediscluster, "rediscluster"),
    ],
)  # fmt: skip
def test_clients_that_may_be_missing(monkeypatch, try_import, name):
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    assert try_import() is None
    monkeypatch.setitem(sys.modules, name, random)
    assert try_import() is random


def test_notes_of_an_error():
    error = ValueError("x")
    add_note(error, "in a")
    add_note(error, "in b")
    assert error.__notes__ == ["in a", "in b"]


def test_rows_of_columns():
    columns = {"a": torch.arange(6), "b": [torch.arange(6), np.arange(6) * 2], "c": None}
    part = split_fn(columns, [5, 4, 3, 2, 1, 0], 1, 3)
    assert (part["a"].tolist(), [one.tolist() for one in part["b"]], part["c"]) == ([4, 3], [[4, 3], [8, 6]], None)


def test_shapes_of_an_env_with_running_statistics_stay():
    assert RunningMeanStd.new_shape((3,), (2,), (1,)) == ((3,), (2,), (1,))
