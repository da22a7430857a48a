"""The store of pieces of one step: what leaves it, and in which form."""

import numpy as np
import pytest
import torch

from ding.data import SchemaError
from ding.worker.collector._step_store import StepStore

ENVS = 4
ALL = np.arange(ENVS)


def step(number, ids=ALL, **more):
    """Row ``i`` of step ``n`` holds ``10 n + i`` throughout."""
    value = 10 * number + ids
    return {
        "obs": value[:, None] * np.ones(3),
        "action": torch.from_numpy(value)[:, None],
        "reward": torch.from_numpy(value).float(),
        "done": value % 3 == 0,
        "collect_iter": value,
        **more,
    }


def filled(*columns):
    store = StepStore(ENVS)
    for one in columns:
        store.append(ALL, one)
        store.finish(ALL)
    return store


def check(columns, values):
    assert columns["obs"].dtype == torch.float32
    assert columns["obs"].tolist() == [[value] * 3 for value in values]
    assert columns["action"].dtype == torch.int64
    assert columns["action"].tolist() == [[value] for value in values]
    assert columns["reward"].dtype == torch.float32
    assert columns["reward"].tolist() == values
    assert columns["done"].dtype == np.bool_
    assert columns["done"].tolist() == [value % 3 == 0 for value in values]
    assert columns["collect_iter"].dtype == np.int64
    assert columns["collect_iter"].tolist() == values


@pytest.mark.parametrize("count", [1, 3])
def test_rows_of_finished_steps_leave_in_order(count):
    came = [step(number) for number in range(count)]
    store = filled(*came)
    assert store.finished_steps == 4 * count
    batch = store.take_finished()
    check(batch.columns, [10 * number + i for number in range(count) for i in range(ENVS)])
    assert batch.lengths.tolist() == [1] * (4 * count)
    assert store.finished_steps == 0
    assert len(store.take_finished()) == 0


def test_one_step_of_large_rows_leaves_as_it_came():
    came = step(1, image=np.ones((ENVS, 20, 20), np.float32))
    batch = filled(came).take_finished()
    columns = batch.columns
    check(columns, [10, 11, 12, 13])
    assert columns["action"] is came["action"]
    assert columns["done"] is came["done"]
    assert columns["image"].data_ptr() == came["image"].ctypes.data


def test_only_finished_environments_count():
    store = StepStore(ENVS)
    store.append(ALL, step(0))
    assert store.counts.tolist() == [1, 1, 1, 1]
    store.finish(np.array([1, 3]))
    assert store.counts.tolist() == [0, 0, 0, 0]
    store.append(np.array([0, 2]), step(1, np.array([0, 2])))
    assert store.counts.tolist() == [1, 0, 1, 0]
    assert store.finished_steps == 2
    assert store.pop(np.array([2])).columns["collect_iter"].tolist() == [12]
    assert len(store.pop(ALL)) == 0
    store.append(ALL, step(2))
    store.clear()
    assert store.finished_steps == 0
    store.append(ALL, step(3))
    store.finish(np.array([], dtype=np.int64))
    store.append(ALL, step(4))
    store.finish(np.array([0]))
    store.append(ALL, step(5))
    store.clear(np.array([0]))
    store.finish(ALL)
    store.append(ALL, step(6))
    store.finish(ALL)
    check(store.take_finished().columns, [40, 60, 61, 62, 63])


@pytest.mark.parametrize(
    "more",
    [
        {"image": np.ones((ENVS, 20, 20), np.float32)},
        {"nested": {"image": np.ones((ENVS, 2), np.float32)}},
        {"note": ["a", None, 3, {}]},
        {"state": torch.ones(ENVS, 2, dtype=torch.bfloat16)},
        {"state": torch.ones(ENVS, 2, requires_grad=True)},
    ],
    ids=["large", "nested", "objects", "bfloat16", "gradient"],
)
def test_other_rows_leave_as_columns(more):
    store = filled(step(0, **more), step(1, **more))
    for values in ([0, 1, 2, 3, 10, 11, 12, 13], [20, 21, 22, 23]):
        batch = store.take_finished()
        columns = batch.columns
        check(columns, values)
        (key, leaf), found, times = *more.items(), columns[next(iter(more))], len(values) // ENVS
        if key == "note":
            assert found == leaf * times
        elif key == "nested":
            assert found["image"].tolist() == leaf["image"].tolist() * times
        else:
            assert str(found.dtype).removeprefix("torch.") == str(leaf.dtype).removeprefix("torch.")
            assert found.tolist() == leaf.tolist() * times
        store.append(ALL, step(2, **more))
        store.finish(ALL)


def test_the_form_of_the_steps_may_change_between_takes():
    store = filled(step(0), step(1))
    check(store.take_finished().columns, [0, 1, 2, 3, 10, 11, 12, 13])
    for number in (2, 3):
        store.append(ALL, step(number, more=np.ones(ENVS, np.float32)))
        store.finish(ALL)
    batch = store.take_finished()
    assert batch.columns["more"].dtype == np.float32
    check(batch.columns, [20, 21, 22, 23, 30, 31, 32, 33])


def test_doubles_and_floats_may_be_mixed():
    columns = filled(step(0), step(1, obs=(10 + ALL)[:, None] * np.ones(3, np.float32))).take_finished().columns
    check(columns, [0, 1, 2, 3, 10, 11, 12, 13])


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (step(1, more=np.ones(ENVS)), "fields .*more"),
        (step(1, action=torch.ones(ENVS, 1)), "'action'"),
        (step(1, obs=np.ones((ENVS, 2))), "'obs'"),
        (step(1, done=torch.ones(ENVS)), "'done'"),
    ],
    ids=["extra", "dtype", "shape", "kind"],
)
def test_steps_of_different_form_are_refused(odd, message):
    with pytest.raises(SchemaError, match=message):
        filled(step(0), odd, step(2)).take_finished()
    with pytest.raises(SchemaError, match=message):
        filled(step(0), step(2), odd).take_finished()
