"""DequeBufferWrapper as the workers use it."""

import numpy as np
import pytest
import torch

from ding.data import DequeBufferWrapper, TransitionBatch
from ding.data.buffer import SampleError
from ding.policy.common_utils import default_preprocess_learn
from ding.utils import BUFFER_REGISTRY


class Writer:
    def __init__(self):
        self.scalars = []
        self.closed = 0

    def add_scalar(self, name, value, step):
        self.scalars.append((name, value, step))

    def flush(self):
        pass

    def close(self):
        self.closed += 1


def batch(count, begin=0):
    x = torch.arange(begin, begin + count)
    return TransitionBatch(
        {
            "obs": x.float().unsqueeze(1).expand(-1, 2).contiguous(),
            "next_obs": x.float().unsqueeze(1).expand(-1, 2) + 1,
            "action": x.unsqueeze(1) % 2,
            "reward": torch.ones(count, 1),
            "done": np.zeros(count, dtype=np.bool_),
        }
    )


def wrapper(size=20, writer=None, **cfg):
    return DequeBufferWrapper({"replay_buffer_size": size, **cfg}, tb_logger=writer or Writer())


def xs(samples):
    return [int(sample["obs"][0]) for sample in samples]


def test_default_config_is_a_fresh_copy():
    cfg = DequeBufferWrapper.default_config()
    assert cfg.cfg_type == "DequeBufferWrapperDict"
    assert (cfg.type, cfg.replay_buffer_size, cfg.priority, cfg.priority_max_limit) == ("deque", 10000, False, 1000)
    cfg.replay_buffer_size = 1
    assert DequeBufferWrapper.default_config().replay_buffer_size == 10000


def test_registered_by_its_type():
    import ding.data.buffer.deque_buffer_wrapper as module

    assert BUFFER_REGISTRY.get("deque") is DequeBufferWrapper is module.DequeBufferWrapper


def test_columns_stay_columns():
    buffer = wrapper()
    buffer.push(batch(15), cur_collector_envstep=15)
    buffer.push(batch(15, 15), cur_collector_envstep=30)
    assert (buffer.count(), buffer.push_count, buffer.replay_buffer_size) == (20, 30, 20)
    sampled = buffer.sample(20, 0)
    assert isinstance(sampled, TransitionBatch)
    assert list(sampled.columns) == ["obs", "next_obs", "action", "reward", "done"]
    assert sorted(xs(sampled)) == list(range(10, 30))
    learn = default_preprocess_learn(buffer.sample(4, 1))
    assert learn["obs"].shape == (4, 2)
    assert learn["reward"].shape == (4,)


def test_a_list_of_dicts_and_a_single_dict():
    buffer = wrapper()
    buffer.push(batch(3).rows())
    buffer.push(batch(1, 3).rows()[0])
    assert isinstance(buffer.sample(4), TransitionBatch)
    assert sorted(xs(buffer.sample(4))) == [0, 1, 2, 3]


def test_priorities_in_pushed_dicts_are_those_of_the_transitions():
    buffer = wrapper(priority=True)
    pushed = [{**row, "priority": float(number)} for number, row in enumerate(batch(3).rows(), 2)]
    buffer.push(pushed)
    np.testing.assert_allclose(buffer.priority.sum_tree.leaves[:3], np.array([2.0, 3.0, 4.0]) ** 0.6)
    assert "priority" not in buffer.sample(3).columns
    assert pushed[0]["priority"] == 2.0
    plain = wrapper()
    plain.push(pushed)
    assert "priority" in plain.sample(3).columns


def test_rows_of_other_forms_come_as_copies_of_dicts():
    buffer = wrapper(priority=True, priority_IS_weight=True)
    buffer.push(batch(2))
    odd = {"obs": torch.full((2,), 2.0), "note": "odd"}
    buffer.push([odd])
    for _ in range(20):
        sampled = buffer.sample(3)
        if 2 in xs(sampled):
            break
    row = next(sample for sample in sampled if sample["obs"][0] == 2)
    assert row is not odd
    assert {"note", "replay_unique_id", "replay_buffer_idx", "IS"} <= set(row)
    assert set(odd) == {"obs", "note"}
    ids = [sample["replay_unique_id"] for sample in sampled]
    buffer.update({"priority": [5.0] * 3, "replay_unique_id": ids})
    leaves = buffer.priority.sum_tree.leaves
    assert np.count_nonzero(np.isclose(leaves, 5.00001**0.6)) == len({str(one) for one in ids})


def test_none_when_short():
    buffer = wrapper()
    assert buffer.sample(1) is None
    buffer.push(batch(3))
    assert buffer.sample(4, 0) is None
    assert len(buffer.sample(3, 0)) == 3


def test_max_use():
    buffer = wrapper(max_use=2)
    buffer.push(batch(4))
    for _ in range(2):
        assert len(buffer.sample(4)) == 4
    assert buffer.count() == 0


def test_a_loop_of_push_sample_update_finds_the_best():
    buffer = wrapper(size=64, priority=True, priority_IS_weight=True, priority_power_factor=1.0)
    for step in range(80):
        if step < 40:
            buffer.push(batch(8, 8 * step))
        sampled = buffer.sample(16, step)
        if sampled is None:
            continue
        columns = sampled.columns
        assert columns["IS"].shape == columns["replay_unique_id"].shape == (16,)
        assert 0 < columns["IS"].min() <= columns["IS"].max() <= 1
        priority = (columns["obs"][:, 0] % 8 == 3).double() * 50
        ids = {key: columns[key] for key in ("replay_unique_id", "replay_buffer_idx")}
        buffer.update({"priority": priority.tolist(), **ids})
    drawn = np.array(xs(buffer.sample(64)))
    assert drawn.min() >= 8 * 32
    assert np.mean(drawn % 8 == 3) > 0.9


def test_updates_belong_to_their_sample_whatever_was_sampled_since():
    buffer = wrapper(priority=True, train_iter_per_log=1000)
    buffer.push(batch(10))
    first = buffer.sample(4, 1)
    buffer.sample(4, 2)
    buffer.update({"priority": np.full(4, 7.0), "replay_unique_id": first.columns["replay_unique_id"].tolist()})
    leaves = buffer.priority.sum_tree.leaves
    assert set(np.flatnonzero(np.isclose(leaves, 7.00001**0.6))) == set(xs(first))


def test_without_ids_the_last_sample_is_meant():
    buffer = wrapper(priority=True)
    buffer.push(batch(10))
    sampled = buffer.sample(4, 1)
    buffer.update({"priority": [7.0] * 4, "replay_unique_id": [None] * 4, "replay_buffer_idx": [None] * 4})
    leaves = buffer.priority.sum_tree.leaves
    assert set(np.flatnonzero(np.isclose(leaves, 7.00001**0.6))) == set(xs(sampled))
    with pytest.raises(SampleError, match="3 priorities for 4 sampled transitions"):
        buffer.update({"priority": [1.0] * 3})


def test_priorities_are_cut_off_and_late_updates_dropped():
    buffer = wrapper(size=10, priority=True, priority_max_limit=2.0)
    buffer.push(batch(10))
    sampled = buffer.sample(5)
    info = {"priority": [1e6] * 5, "replay_unique_id": sampled.columns["replay_unique_id"]}
    buffer.update(info)
    assert buffer.priority.sum_tree.leaves.max() == pytest.approx(2.00001**0.6)
    buffer.push(batch(10, 10))
    before = buffer.priority.sum_tree.leaves.copy()
    buffer.update({**info, "priority": [0.1] * 5})
    np.testing.assert_array_equal(buffer.priority.sum_tree.leaves, before)


def test_update_without_priority_has_no_effect():
    buffer = wrapper()
    buffer.push(batch(3))
    buffer.update({"priority": [1.0]})
    buffer.update({})
    assert "replay_unique_id" not in buffer.sample(2).columns


def test_log_values():
    writer = Writer()
    buffer = wrapper(writer=writer, priority=True, train_iter_per_log=10)
    buffer.push(batch(4))
    for train_iter in range(21):
        buffer.sample(4, train_iter)
    scalars = writer.scalars
    assert [step for _, _, step in scalars] == [0] * 4 + [10] * 4 + [20] * 4
    assert [name for name, _, _ in scalars[:4]] == [
        "buffer_iter/buffer_data_count", "buffer_iter/use_count_avg", "buffer_iter/priority_avg",
        "buffer_iter/priority_max",
    ]  # fmt: skip
    assert scalars[0][1] == 4.0
    assert scalars[2][1] == 1.0


@pytest.mark.parametrize("priority", [False, True])
@pytest.mark.parametrize("by_file", [False, True])
def test_a_restored_buffer_goes_on_the_same(tmp_path, priority, by_file):
    cfg = dict(size=16, priority=priority, priority_IS_weight=priority, max_use=5)

    def step(buffer, number):
        buffer.push(batch(4, 4 * number))
        sampled = buffer.sample(4, number)
        if priority:
            ids = sampled.columns["replay_unique_id"]
            buffer.update({"priority": sampled.columns["obs"][:, 0], "replay_unique_id": ids})
        return {key: np.asarray(value).tolist() for key, value in sampled.columns.items()}

    one, two = wrapper(**cfg), wrapper(**cfg)
    for number in range(6):
        step(one, number)
    if by_file:
        one.save_data(str(tmp_path / "run" / "buffer"))
        two.load_data(str(tmp_path / "run" / "buffer"))
    else:
        state = one.state_dict()
        two.load_state_dict(state)
    keep = ["obs", "IS"] if priority else ["obs"]
    for number in range(6, 16):
        first, second = step(one, number), step(two, number)
        assert [first[key] for key in keep] == [second[key] for key in keep]
    assert one.count() == two.count()


def test_uses_go_on_after_a_restart():
    one, two = wrapper(size=8, max_use=2), wrapper(size=8, max_use=2)
    one.push(batch(8))
    one.sample(8)
    two.push(batch(5))
    two.sample(5)
    two.load_state_dict(one.state_dict())
    assert len(two.sample(8)) == 8
    assert two.count() == 0


def test_the_last_sample_ends_with_its_buffer(tmp_path):
    buffer = wrapper(priority=True)
    buffer.push(batch(4))
    buffer.save_data(str(tmp_path / "data"))
    buffer.sample(4)
    buffer.load_data(str(tmp_path / "data"))
    with pytest.raises(SampleError, match="4 priorities for 0 sampled transitions"):
        buffer.update({"priority": [2.0] * 4})


def test_the_state_of_large_observations_holds_each_once():
    frames = torch.from_numpy(np.random.default_rng(0).integers(0, 255, (41, 32, 32), dtype=np.uint8))
    one, two = (wrapper(size=16, priority=True) for _ in range(2))
    for begin in range(0, 40, 4):
        one.push(TransitionBatch({"obs": frames[begin : begin + 4], "next_obs": frames[begin + 1 : begin + 5]}))
    one.sample(8)
    state = one.state_dict()
    assert len(state["columns"]["pairs"][0]["frames"]) == 17
    two.load_state_dict(state)
    for first, second in zip(*(buffer.sample(8).columns.values() for buffer in (one, two))):
        assert np.array_equal(np.asarray(first), np.asarray(second))


def test_state_dict_is_a_copy():
    buffer = wrapper()
    buffer.push(batch(4))
    state = buffer.state_dict()
    buffer.clear()
    buffer.load_state_dict(state)
    assert sorted(xs(buffer.sample(4))) == [0, 1, 2, 3]


def test_close_twice_leaves_a_given_writer_open():
    writer = Writer()
    buffer = wrapper(writer=writer)
    buffer.push(batch(2))
    buffer.start()
    buffer.close()
    buffer.close()
    assert buffer.count() == 0
    assert writer.closed == 0


def test_its_own_writer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    buffer = DequeBufferWrapper({}, exp_name="exp", instance_name="mine")
    buffer.push(batch(2))
    buffer.sample(2)
    buffer.close()
    assert list((tmp_path / "exp" / "log" / "mine" / "mine_tb_logger").iterdir())
