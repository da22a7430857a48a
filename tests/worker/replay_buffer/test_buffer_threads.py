"""Several threads on one buffer: no row may be torn, no count lost."""

import threading

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.worker import AdvancedReplayBuffer, NaiveReplayBuffer

WIDTH = 40


def checked(first, count):
    """Rows whose fields all follow from one number; a torn row does not add up."""
    number = torch.arange(first, first + count)
    frame = (number[:, None, None] % 251 * torch.ones(1, 2, 400, dtype=torch.int64)).to(torch.uint8)
    obs = number[:, None].double() + torch.arange(WIDTH).double()
    return TransitionBatch({
        "obs": {"image": frame, "vector": obs}, "next_obs": {"image": frame + 1, "vector": obs + 1},
        "sum": obs.sum(1, keepdim=True), "n": number.numpy(),
    })  # fmt: skip


def assert_whole(sampled):
    columns = sampled.columns
    number = torch.from_numpy(np.ascontiguousarray(columns["n"]))
    vector = number[:, None].double() + torch.arange(WIDTH).double()
    assert torch.equal(columns["obs"]["vector"], vector)
    assert torch.equal(columns["next_obs"]["vector"], vector + 1)
    assert torch.equal(columns["sum"][:, 0], vector.sum(1))
    frame = (number % 251).to(torch.uint8)[:, None, None]
    assert (columns["obs"]["image"] == frame).all()
    assert (columns["next_obs"]["image"] == frame + 1).all()


def runs_in_the_lock(buffer, owner, name, found):
    """Have ``owner.name`` note whether another thread could take the lock of the buffer meanwhile."""
    inner = getattr(owner, name)

    def try_lock():
        free = buffer.engine.lock.acquire(blocking=False)
        if free:
            buffer.engine.lock.release()
        found.append((name, not free))

    def probed(*args, **kwargs):
        thread = threading.Thread(target=try_lock)
        thread.start()
        thread.join()
        return inner(*args, **kwargs)

    setattr(owner, name, probed)


@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer])
def test_every_call_is_one_critical_section(make, cls):
    buffer = make(cls, 61, storage={"device": "cpu"})
    buffer.push(checked(0, 61), 0)
    sampled = buffer.sample(13, 0).columns
    state, found = buffer.state_dict(), []
    for name in ("write", "read"):
        runs_in_the_lock(buffer, buffer.engine.rows.storage, name, found)
    buffer.push(checked(61, 5), 0)
    buffer.sample(13, 0)
    buffer.state_dict()
    buffer.save_data("data")
    assert found == [("write", True), ("read", True), ("read", True), ("read", True)]
    found.clear()
    if cls is AdvancedReplayBuffer:
        runs_in_the_lock(buffer, buffer.table, "holds", found)
        ids = {key: sampled[key] for key in ("replay_unique_id", "replay_buffer_idx")}
        buffer.update({**ids, "priority": np.ones(13)})
        assert found == [("holds", True)]
        found.clear()
    runs_in_the_lock(buffer, buffer.engine, "load_state_dict", found)
    buffer.load_state_dict(state)
    runs_in_the_lock(buffer, buffer.engine.rows.storage, "close", found)
    buffer.clear()
    assert found == [("load_state_dict", True), ("close", True)]


def test_the_parts_of_an_elided_file_are_pushed_in_one_critical_section(make):
    buffer, other = (make(NaiveReplayBuffer, 61, storage={"elide_next_obs": True}) for _ in range(2))
    buffer.push(checked(0, 61), 0)
    buffer.save_data("data")
    found = []
    runs_in_the_lock(other, other.engine, "add", found)
    other.load_data("data")
    assert set(found) == {("add", True)}
    assert other.count() == 61


@pytest.mark.parametrize("storage", [{}, {"elide_next_obs": False}, {"frame_stack": 2}, {"device": "cpu"}])
@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer])
def test_no_row_is_torn_and_no_count_is_lost(make, cls, storage):
    buffer = make(cls, 61, storage=storage)
    buffer.push(checked(0, 61), 0)
    failures, sampled_rows = [], []
    pushes, per_push, samplers = 60, 7, 2

    def push(base):
        for i in range(pushes):
            buffer.push(checked(base + i * per_push, per_push), i)

    def sample():
        rows = 0
        for i in range(80):
            sampled = buffer.sample(13, i)
            rows += len(sampled)
            assert_whole(sampled)
            if cls is AdvancedReplayBuffer:
                columns = sampled.columns
                assert (np.asarray(columns["replay_unique_id"]) % 61 == columns["replay_buffer_idx"]).all()
                info = {key: columns[key] for key in ("replay_unique_id", "replay_buffer_idx")}
                buffer.update({**info, "priority": np.random.rand(13)})
            elif i % 20 == 0:
                buffer.state_dict()
        sampled_rows.append(rows)

    def guarded(work, *args):
        try:
            work(*args)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=guarded, args=(push, base)) for base in (1000, 50_000)]
    threads += [threading.Thread(target=guarded, args=(sample,)) for _ in range(samplers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failures
    assert buffer.push_count == 61 + 2 * pushes * per_push
    assert buffer.count() == 61
    assert buffer.counters.sampled == sum(sampled_rows) == samplers * 80 * 13
    if cls is AdvancedReplayBuffer:
        leaves = buffer.priorities.tree.leaves
        np.testing.assert_allclose(leaves, buffer.priorities.weights(buffer.priorities.values))
        assert buffer.priorities.tree.total == pytest.approx(leaves.sum())
        assert sorted(buffer.table.unique_id) == list(range(buffer.push_count - 61, buffer.push_count))
