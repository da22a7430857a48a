"""The trajectory store against one list of steps per environment."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ding.data import SchemaError, TrajectoryStore


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


ACTIONS = ["all", "all", "some", "pop", "finish", "take", "clear", "forget"]


@settings(max_examples=300, deadline=None)
@given(
    env_num=st.integers(1, 4),
    capacity=st.integers(1, 3),
    actions=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(1, 15)), max_size=40),
    make_step=st.sampled_from([step, small_step]),
)
def test_pieces_equal_lists(env_num, capacity, actions, make_step) -> None:
    store = TrajectoryStore(env_num, capacity)
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
        elif name == "pop":
            assert_pieces(store.pop(chosen), [model[i] for i in chosen])
        elif name == "finish":
            store.finish(chosen)
            finished += [model[i] for i in chosen]
        elif name == "take":
            assert_pieces(store.take_finished(), finished)
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


def assert_pieces(batch, pieces: list[list[tuple[int, int]]]) -> None:
    expected = [item for piece in pieces for item in piece]
    assert len(batch) == len(expected)
    if expected:
        columns = dict(batch.columns)
        if "env" in columns:
            columns["obs"] = {"x": columns["obs"]}
            columns["tag"] = [f"{i}@{t}" for i, t in zip(columns["env"].tolist(), columns["t"].tolist())]
        assert columns["tag"] == [f"{i}@{t}" for i, t in expected]
        assert columns["obs"]["x"][:, 0].tolist() == [i * 100.0 + t for i, t in expected]
        assert batch.columns["done"].tolist() == [i % 2 == 0 for i, _ in expected]
        assert batch.lengths.tolist() == [len(piece) for piece in pieces if piece]


def test_a_long_run_of_short_pieces_needs_little_room() -> None:
    store = TrajectoryStore(2, 4)
    ids = np.arange(2)
    for t in range(100):
        store.append(ids, step(ids, t))
        # Never empty: the pieces of the two environments end in turn.
        assert store.pop(np.array([t % 2])).columns["t"].tolist() == ([t - 1, t] if t else [0])
    assert store._capacity == 8


def test_pieces_that_wait_keep_their_schema() -> None:
    store = TrajectoryStore(1)
    store.append(np.arange(1), {"x": np.zeros(1)})
    store.finish(np.arange(1))
    with pytest.raises(SchemaError, match="'x' of a step is array int64"):
        store.append(np.arange(1), {"x": np.zeros(1, dtype=np.int64)})
    assert store.take_finished().columns["x"].tolist() == [0.0]
    store.append(np.arange(1), {"x": np.ones(1, dtype=np.int64)})
    assert store.pop(np.arange(1)).columns["x"].tolist() == [1]


def test_what_was_popped_is_never_written_again() -> None:
    store = TrajectoryStore(2, 2)
    ids = np.arange(2)
    for t in range(2):
        store.append(ids, step(ids, t))
    first = store.pop(ids)
    for t in range(10, 12):
        store.append(ids, step(ids, t))
    assert first.columns["t"].tolist() == [0, 1, 0, 1]
    assert store.pop(ids).columns["t"].tolist() == [10, 11, 10, 11]


@pytest.mark.parametrize("rows_as_tensors", [False, True])
def test_segments_are_copies_of_the_steps(rows_as_tensors) -> None:
    store = TrajectoryStore(2, rows_as_tensors=rows_as_tensors)
    ids = np.arange(2)
    came = {
        "obs": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "action": torch.tensor([[5], [6]]),
        "reward": torch.tensor([7.0, 8.0]),
        "done": np.array([False, True]),
    }
    store.append(ids, came)
    for leaf in came.values():
        leaf[:] = 0
    batch = store.pop(ids)
    columns = batch.columns
    assert list(columns) == list(came)
    obs = torch.float32 if rows_as_tensors else np.float64
    assert [leaf.dtype for leaf in columns.values()] == [obs, torch.int64, torch.float32, np.bool_]
    assert [leaf.tolist() for leaf in columns.values()] == [[[1, 2], [3, 4]], [[5], [6]], [7, 8], [False, True]]


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
    batch = store.pop(ids)
    columns = batch.columns
    assert columns["x"].flags.c_contiguous
    assert columns["x"].tolist() == [[1], [2]]
    # An empty store takes rows of another kind.
    store.append(ids, {"x": np.array([[3.0], [4.0]])})
    assert list(store.pop(ids).columns) == ["x"]
    store.append(ids, {"x": np.array([[1.0], [2.0]]), **more})
    assert list(store.pop(ids).columns) == ["x", *more]


def test_a_step_of_another_schema_is_refused_by_name() -> None:
    store = TrajectoryStore(2)
    ids = np.arange(2)
    store.append(ids, step(ids, 0))
    wrong = step(ids, 1)
    wrong["obs"]["x"] = wrong["obs"]["x"].float()
    with pytest.raises(SchemaError, match=r"'obs\.x' of a step is tensor float32\[2\].*float64\[2\]"):
        store.append(ids, wrong)
    missing = step(ids, 1)
    del missing["done"]
    with pytest.raises(SchemaError, match="fields"):
        store.append(ids, missing)
    store.clear()
    store.append(ids, wrong)
    assert store.counts.tolist() == [1, 1]


def test_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match="positive"):
        TrajectoryStore(0)
    assert len(TrajectoryStore(3).pop(np.arange(3))) == 0


def test_an_environment_that_begins_after_the_log_was_moved_keeps_its_steps() -> None:
    store = TrajectoryStore(3, capacity=2)

    def step(env_id, value):
        store.append(np.array([env_id]), {"x": np.array([value])})

    step(1, 0)
    store.clear(np.array([1, 2]))
    for value, env_id in enumerate([1, 2, 1, 2, 1], start=1):
        step(env_id, value)
    # The log is full: the first row goes, the others move up, and there is more room.
    step(0, 6)
    step(0, 7)
    assert [store.pop(np.array([env_id])).columns["x"].tolist() for env_id in range(3)] == [[6, 7], [1, 3, 5], [2, 4]]
