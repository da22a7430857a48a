"""The trajectory store against one list of steps per environment."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ding.rollout.step_blocks as step_blocks
from ding.data import SchemaError
from ding.rollout import TrajectoryStore


def step(env_ids: np.ndarray, t: int) -> dict:
    ids = np.asarray(env_ids)
    return {
        "obs": {"x": torch.from_numpy(np.stack([ids * 100.0 + t, ids * 0.0], axis=1))},
        "done": ids % 2 == 0,
        "t": np.full(len(ids), t),
        "tag": [f"{i}@{t}" for i in ids],
    }


def small_step(env_ids: np.ndarray, t: int) -> dict:
    one = step(env_ids, t)
    return {"obs": one["obs"]["x"], "done": one["done"], "t": one["t"], "env": np.asarray(env_ids)}


def array_step(env_ids: np.ndarray, t: int) -> dict:
    one = step(env_ids, t)
    return {**one, "obs": {"x": one["obs"]["x"].numpy()}}


def taken(store, env_ids):
    store.finish(env_ids)
    return store.take_finished()


ACTIONS = ["all", "all", "some", "pop", "finish", "cut", "cut", "take", "clear", "forget", "save"]


@settings(max_examples=300, deadline=None)
@given(
    env_num=st.integers(1, 4),
    actions=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(1, 15)), max_size=40),
    make_step=st.sampled_from([step, small_step, array_step]),
    large_bytes=st.sampled_from([1, 2**16]),
)
def test_segments_equal_lists(env_num, actions, make_step, large_bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_blocks, "_LARGE_STEP_BYTES", large_bytes)
        check_segments(env_num, actions, make_step)


def check_segments(env_num, actions, make_step) -> None:
    store = TrajectoryStore(env_num)
    model: list[list[tuple[int, int]]] = [[] for _ in range(env_num)]
    finished: list[list[tuple[int, int]]] = []
    for t, (name, bits) in enumerate(actions):
        chosen = np.array([i for i in range(env_num) if bits >> i & 1], dtype=np.int64)
        if name == "all":
            chosen = np.arange(env_num)
        if name in ("all", "some") and len(chosen):
            store.append(chosen, make_step(chosen, t))
            for i in chosen:
                model[i].append((int(i), t))
        elif name == "save" and not store.finished_steps:
            # What was saved goes on as what is taken up from it.
            saved, finished = store.state_dict(), []
            if bits % 2:
                store = TrajectoryStore(env_num)
                store.load_state_dict(saved)
        elif name == "pop":
            finished += [model[i] for i in chosen]
            assert_segments(taken(store, chosen), finished)
            finished = []
        elif name == "finish":
            store.finish(chosen)
            finished += [model[i] for i in chosen]
        elif name == "cut":
            # The next segments begin with up to three of the steps.
            kept = np.array([min(len(model[i]), (t + i) % 4) for i in chosen], dtype=np.int64)
            store.finish(chosen, kept)
            finished += [model[i] for i in chosen]
            for i, count in zip(chosen, kept):
                model[i] = model[i][len(model[i]) - count :]
        elif name == "take":
            assert_segments(store.take_finished(), finished)
            finished = []
        elif name == "clear":
            store.clear(chosen)
        elif name == "forget":
            store.clear()
            chosen, finished = np.arange(env_num), []
        if name in ("pop", "finish", "clear", "forget"):
            for i in chosen:
                model[i] = []
        assert store.counts.tolist() == [len(items) for items in model]
        assert store.finished_steps == sum(map(len, finished))


def assert_segments(batch, segments: list[list[tuple[int, int]]]) -> None:
    expected = [item for segment in segments for item in segment]
    assert len(batch) == len(expected)
    if expected:
        columns = dict(batch.columns)
        if "env" in columns:
            columns["obs"] = {"x": columns["obs"]}
            columns["tag"] = [f"{i}@{t}" for i, t in zip(columns["env"].tolist(), columns["t"].tolist())]
        assert columns["tag"] == [f"{i}@{t}" for i, t in expected]
        assert columns["obs"]["x"][:, 0].tolist() == [i * 100.0 + t for i, t in expected]
        assert batch.columns["done"].tolist() == [i % 2 == 0 for i, _ in expected]
        assert batch.lengths.tolist() == [len(segment) for segment in segments if segment]


def test_segments_that_end_in_turn() -> None:
    store = TrajectoryStore(2)
    ids = np.arange(2)
    for t in range(100):
        store.append(ids, step(ids, t))
        # Never empty: the segments of the two environments end in turn.
        assert taken(store, np.array([t % 2])).columns["t"].tolist() == ([t - 1, t] if t else [0])


@pytest.mark.parametrize("large_bytes", [1, 2**16])
def test_what_was_taken_is_never_written_again(monkeypatch, large_bytes) -> None:
    monkeypatch.setattr(step_blocks, "_LARGE_STEP_BYTES", large_bytes)
    store = TrajectoryStore(2)
    ids = np.arange(2)
    batches = []
    for first in range(0, 50, 10):
        for t in range(first, first + 2):
            store.append(ids, array_step(ids, t))
        batches.append(taken(store, ids))
    for first, batch in zip(range(0, 50, 10), batches):
        assert batch.columns["t"].tolist() == [first, first + 1, first, first + 1]
        assert batch.columns["obs"]["x"][:, 0].tolist() == [first, first + 1, 100 + first, 101 + first]


def frame_step(value: int, num_envs: int = 2) -> dict:
    return {"obs": np.full((num_envs, 128, 128), value, np.float32), "done": np.zeros(num_envs, np.bool_)}


def frames_taken(store, values: "range | list[int]") -> np.ndarray:
    ids = np.arange(2)
    for value in values:
        store.append(ids, frame_step(value))
        store.finish(ids)
    return store.take_finished().columns["obs"]


def test_frames_are_written_to_blocks_whose_memory_is_used_again() -> None:
    store = TrajectoryStore(2, rows_as_tensors=True)
    frames_taken(store, range(3))
    places = set()
    for first in (10, 20, 30):
        frames = frames_taken(store, range(first, first + 3))
        assert frames[:, 5, 5].tolist() == [first, first, first + 1, first + 1, first + 2, first + 2]
        places.add(frames.data_ptr())
        del frames
    assert len(places) == 1
    # Whoever holds a row of them holds all of it.
    row = frames_taken(store, range(40, 43))[0]
    other = frames_taken(store, range(50, 53))
    assert {row.data_ptr()} == places
    assert other.data_ptr() not in places
    assert row.unique().tolist() == [40]


def test_more_frames_than_expected_and_frames_of_another_kind() -> None:
    store = TrajectoryStore(2)
    frames_taken(store, range(3))
    for values in (range(8), range(2), range(5)):
        frames = frames_taken(store, values)
        assert frames[:, 0, 0].tolist() == [value for value in values for _ in range(2)]
    ids = np.arange(2)
    store.append(ids, frame_step(1))
    for other in ({"obs": np.zeros((2, 64, 256), np.float32)}, {"obs": np.zeros((2, 128, 128))}):
        store.append(ids, {**frame_step(2), **other})
        with pytest.raises(SchemaError, match="'obs'"):
            taken(store, ids)
        store.append(ids, frame_step(1))
    # Frames that were dropped leave gaps in the block.
    store.clear()
    for value in range(4):
        store.append(ids, frame_step(value))
        if value == 1:
            store.clear(ids)
    assert taken(store, ids).columns["obs"][:, 0, 0].tolist() == [2, 3, 2, 3]


@pytest.mark.parametrize("rows_as_tensors", [False, True])
def test_one_step_leaves_as_it_came(rows_as_tensors) -> None:
    store = TrajectoryStore(2, rows_as_tensors=rows_as_tensors)
    ids = np.arange(2)
    came = {
        "obs": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "action": torch.tensor([[5], [6]]),
        "reward": torch.tensor([7.0, 8.0]),
        "done": np.array([False, True]),
    }
    store.append(ids, came)
    batch = taken(store, ids)
    columns = batch.columns
    assert list(columns) == list(came)
    obs = torch.float32 if rows_as_tensors else np.float64
    assert [leaf.dtype for leaf in columns.values()] == [obs, torch.int64, torch.float32, np.bool_]
    assert [leaf.tolist() for leaf in columns.values()] == [[[1, 2], [3, 4]], [[5], [6]], [7, 8], [False, True]]
    assert columns["action"] is came["action"]
    assert batch.lengths.tolist() == [1, 1]


@pytest.mark.parametrize(
    "more",
    [
        {"image": np.ones((2, 20, 20), np.float32)},
        {"nested": {"image": np.ones((2, 2), np.float32)}},
        {"note": ["a", None]},
        {"wave": np.ones((2, 2), np.complex128)},
    ],
    ids=["large", "nested", "objects", "complex"],
)
def test_other_rows_leave_as_columns(more) -> None:
    store = TrajectoryStore(2)
    ids = np.arange(2)
    store.append(ids, {"x": np.array([[1.0], [2.0]]), **more})
    batch = taken(store, ids)
    columns = batch.columns
    assert columns["x"].flags.c_contiguous
    assert columns["x"].tolist() == [[1], [2]]
    # An empty store takes rows of another kind.
    store.append(ids, {"x": np.array([[3.0], [4.0]])})
    assert list(taken(store, ids).columns) == ["x"]
    store.append(ids, {"x": np.array([[1.0], [2.0]]), **more})
    assert list(taken(store, ids).columns) == ["x", *more]


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"x": np.zeros((2, 1), dtype=np.int64)}, "'x'"),
        ({"x": np.zeros((2, 2))}, "'x'"),
        ({"x": torch.zeros(2, 1)}, "'x'"),
        ({"x": np.zeros((2, 1)), "y": np.zeros(2)}, "fields .*'y'"),
    ],
    ids=["dtype", "shape", "kind", "extra"],
)
def test_steps_of_different_schemas_are_refused_by_name(odd, message) -> None:
    store = TrajectoryStore(2)
    ids = np.arange(2)
    for one in ({"x": np.zeros((2, 1))}, odd):
        store.append(ids, one)
    with pytest.raises(SchemaError, match=message):
        taken(store, ids[:1])
    # It is empty now, and takes either.
    assert store.counts.tolist() == [0, 0]
    store.append(ids, odd)
    assert list(taken(store, ids).columns) == list(odd)


def test_doubles_and_floats_may_be_mixed_where_both_become_floats() -> None:
    steps = [{"x": np.ones((1, 2))}, {"x": np.zeros((1, 2), dtype=np.float32)}]
    for as_tensors in (True, False):
        store = TrajectoryStore(1, rows_as_tensors=as_tensors)
        for one in steps:
            store.append(np.arange(1), one)
        if as_tensors:
            assert taken(store, np.arange(1)).columns["x"].tolist() == [[1.0, 1.0], [0.0, 0.0]]
        else:
            with pytest.raises(SchemaError, match="float64"):
                taken(store, np.arange(1))


def test_loaded_steps_with_other_fields_are_dropped_with_a_warning(caplog) -> None:
    ids, store = np.arange(2), TrajectoryStore(2)
    store.append(ids, {"obs": {"x": np.zeros(2)}})
    store.append(ids[:1], {"obs": {"x": np.zeros(1)}})
    saved = store.state_dict()
    store = TrajectoryStore(2)
    store.load_state_dict(saved)
    new = {"obs": {"x": np.ones(2)}, "next_obs": {"x": np.ones(2)}}
    store.append(ids, new)
    assert "3 steps of ongoing episodes are dropped" in caplog.text
    assert "['next_obs.x']" in caplog.text
    assert store.counts.tolist() == [1, 1]
    batch = taken(store, ids)
    assert batch.lengths.tolist() == [1, 1]
    assert batch.columns["next_obs"]["x"].tolist() == [1, 1]


def test_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match="positive"):
        TrajectoryStore(0)
    assert len(taken(TrajectoryStore(3), np.arange(3))) == 0
