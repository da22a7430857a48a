"""Saved buffers keep each frame once."""

import json
import os

import numpy as np
import pytest
import torch

from ding.data import SchemaError, TransitionBatch
from ding.data.safe_file import read_tree, write_tree
from ding.worker import AdvancedReplayBuffer, NaiveReplayBuffer, SequenceReplayBuffer

SIZE = 60
LAYOUTS = [{"frame_stack": 4}, {"elide_next_obs": True}, {"elide_next_obs": False}]


def episode(seed, begin, count):
    """Steps of a whole episode of stacked frames; ``begin`` 12 to 15 is its end."""
    frames = torch.from_numpy(np.random.default_rng(seed).integers(0, 255, (20, 24, 24), dtype=np.uint8))
    steps = range(begin, begin + count)
    return TransitionBatch(
        {
            "obs": torch.stack([frames[i : i + 4] for i in steps]),
            "action": torch.tensor(list(steps)),
            "next_obs": torch.stack([frames[i + 1 : i + 5] for i in steps]),
            "done": np.array([i == 15 for i in steps]),
        }
    )


def fill(buffer):
    """Three environments in turn, three episodes each: the ring of 60 wraps twice."""
    for number in range(3):
        for begin in range(0, 16, 4):
            for env in range(3):
                buffer.push(episode(10 * number + env, begin, 4), 0)
    return buffer


def contents(buffer):
    return buffer.engine.rows.read(buffer.engine.ring.held()).columns


def check_same(left, right):
    assert list(left) == list(right)
    for key in left:
        assert np.asarray(left[key]).dtype == np.asarray(right[key]).dtype
        assert np.array_equal(np.asarray(left[key]), np.asarray(right[key])), key


@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer])
@pytest.mark.parametrize("saved", LAYOUTS)
@pytest.mark.parametrize("loaded", [*LAYOUTS, {"device": "cpu"}])
def test_files_and_states_load_in_every_layout(make, cls, saved, loaded):
    buffer = fill(make(cls, SIZE, storage=saved))
    buffer.save_data("data")
    by_file, by_state = (make(cls, SIZE, storage=loaded) for _ in range(2))
    by_file.load_data("data")
    state = buffer.state_dict()
    by_state.load_state_dict(state)
    for other in (by_file, by_state):
        check_same(contents(other), contents(buffer))
    check_same(by_state.sample(8, 0).columns, buffer.sample(8, 0).columns)
    if saved == loaded and saved != LAYOUTS[2]:
        by_state = make(cls, SIZE, storage=loaded)
        by_state.load_state_dict(state)
        for old, new in zip(state["data"]["pairs"], by_state.state_dict()["data"]["pairs"]):
            assert np.array_equal(old["slots"], new["slots"])
            assert np.array_equal(old["frames"], new["frames"])


def test_the_file_is_small_and_names_its_layout(make):
    fill(make(NaiveReplayBuffer, SIZE, storage={"frame_stack": 4})).save_data("data")
    fill(make(NaiveReplayBuffer, SIZE, storage={"elide_next_obs": False})).save_data("full")
    assert os.path.getsize("data") < 0.25 * os.path.getsize("full")
    for name, layout in (("data", "elided"), ("full", None)):
        with open(name, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        assert header["__metadata__"].get("layout") == layout


def test_parts_are_expanded_one_after_the_other(make, monkeypatch):
    monkeypatch.setattr("ding.data.storage._saved_rows.CHUNK_BYTES", 30_000)
    buffer = fill(make(NaiveReplayBuffer, SIZE, storage={"frame_stack": 4}))
    buffer.save_data("data")
    by_file, by_state = (make(NaiveReplayBuffer, SIZE, storage={"frame_stack": 4}) for _ in range(2))
    by_file.load_data("data")
    by_state.load_state_dict(buffer.state_dict())
    for other in (by_file, by_state):
        check_same(contents(other), contents(buffer))


def test_a_file_that_the_throughput_controller_refuses_is_not_loaded_in_part(make, monkeypatch):
    monkeypatch.setattr("ding.data.storage._saved_rows.CHUNK_BYTES", 30_000)
    fill(make(NaiveReplayBuffer, SIZE, storage={"frame_stack": 4})).save_data("data")
    limit = {"push_sample_rate_limit": {"max": 3, "min": 0}}
    buffer = make(AdvancedReplayBuffer, SIZE, storage={"frame_stack": 4}, thruput_controller=limit)
    buffer.push(episode(1, 0, 8), 0)
    assert len(buffer.sample(8, 0)) == 8
    buffer.load_data("data")
    assert buffer.count() == 8


@pytest.mark.parametrize("index", [-1, "one too many", 10_000])
def test_an_index_out_of_range_is_named_and_changes_nothing(make, index):
    buffer = fill(make(NaiveReplayBuffer, SIZE, storage={"frame_stack": 4}))
    before = contents(buffer)
    buffer.save_data("data")
    tree, state = read_tree("data", "replay buffer"), buffer.state_dict()
    index = len(tree["pairs"][0]["frames"]) if isinstance(index, str) else index
    tree["pairs"][0]["slots"][3, 5] = state["data"]["pairs"][0]["slots"][3, 5] = index
    write_tree("bad", tree, "replay buffer")
    with pytest.raises(SchemaError, match=f"index of 'obs' .*{index}"):
        buffer.load_data("bad")
    with pytest.raises(SchemaError, match=f"index of 'obs' .*{index}"):
        buffer.load_state_dict(state)
    assert buffer.push_count == 144
    check_same(contents(buffer), before)


@pytest.mark.parametrize(
    "damage",
    [
        lambda tree: tree.update(rows=10**12, pairs=[], order=[], columns={}),
        lambda tree: tree.update(rows=float("inf")),
        lambda tree: tree.update(rows="x"),
        lambda tree: tree.update(order=5),
        lambda tree: tree.update(order=[*tree["order"], ["obs", "more"]]),
        lambda tree: tree["order"].pop(),
        lambda tree: [tree["columns"].update(obs={"x": np.arange(SIZE)}), tree["order"].append(["obs", "x"])],
        lambda tree: tree.update(columns={"action": np.arange(3), "done": np.arange(3)}),
        lambda tree: tree.update(columns=None),
        lambda tree: tree["pairs"][0].update(slots=np.zeros(60, np.int32)),
        lambda tree: tree["pairs"][0].update(slots=None),
        lambda tree: tree["pairs"][0].update(frames=np.zeros((2, 3), np.uint8)),
        lambda tree: tree["pairs"][0]["obs"].update(path=[]),
        lambda tree: tree["pairs"][0]["obs"].update(path=[["obs"]]),
        lambda tree: tree["pairs"][0]["obs"].update(path=["obs", "more"]),
        lambda tree: tree["pairs"][0]["obs"].update(recast="bfloat16"),
        lambda tree: tree["pairs"][0]["obs"].update(recast="float8"),
        lambda tree: tree["pairs"][0]["obs"].update(dtype="O"),
        lambda tree: tree["pairs"][0]["obs"].update(shape=[float("inf")]),
        lambda tree: tree["pairs"][0].pop("next_obs"),
        lambda tree: tree.update(layout="other"),
    ],
)
def test_damaged_descriptions_are_refused_and_change_nothing(make, damage):
    buffer = fill(make(NaiveReplayBuffer, SIZE, storage={"frame_stack": 4}))
    before = contents(buffer)
    tree = buffer.state_dict()["data"]
    damage(tree)
    write_tree("bad", tree, "replay buffer")
    with pytest.raises(SchemaError, match=r"saved rows|description of a field|column"):
        buffer.load_data("bad")
    assert buffer.push_count == 144
    check_same(contents(buffer), before)


@pytest.mark.parametrize(
    ("cls", "column"),
    [
        (AdvancedReplayBuffer, {"priority": np.where(np.arange(SIZE) == 50, np.nan, 1.0)}),
        (AdvancedReplayBuffer, {"collect_iter": [0] * 50 + ["x"] * 10}),
        (SequenceReplayBuffer, {"done": [None] * 50 + [torch.ones(2)] * 10}),
    ],
)
def test_a_value_that_is_refused_far_into_the_file_keeps_all_of_it_out(make, cls, column, monkeypatch):
    source = make(NaiveReplayBuffer, SIZE, storage={"frame_stack": 4})
    rows = TransitionBatch.concat([episode(seed, 0, 10) for seed in range(6)])
    source.push(rows.with_columns(**column), 0)
    source.save_data("data")
    monkeypatch.setattr("ding.data.storage._saved_rows.CHUNK_BYTES", 100_000)
    buffer = make(cls, SIZE, storage={"frame_stack": 4})
    with pytest.raises(ValueError):
        buffer.load_data("data")
    assert (buffer.count(), buffer.push_count) == (0, 0)
