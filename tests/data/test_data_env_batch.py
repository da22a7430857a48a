"""``EnvBatch``, ``TimestepBatch`` and the ``batched`` mark."""

import numpy as np
import pytest
import torch

from ding.data import BaseEnvTimestep, EnvBatch, SchemaError, TimestepBatch, batched, is_batched


def test_rows_of_arrays_share_memory_and_follow_ids() -> None:
    batch = EnvBatch([4, 1], np.arange(6.0).reshape(2, 3))
    assert list(batch) == [4, 1]
    assert len(batch) == 2
    batch[1][0] = 9
    assert batch.columns[1, 0] == 9
    assert 4 in batch
    assert 0 not in batch
    with pytest.raises(KeyError):
        _ = batch[0]


def test_dict_rows_win() -> None:
    batch = EnvBatch([0, 1], {"action": torch.tensor([[1], [2]]), "logit": torch.zeros(2, 3)})
    assert batch[1]["action"].tolist() == [2]
    batch[1]["action"] = torch.tensor([7])
    assert batch.columns["action"].tolist() == [[1], [7]]


def test_from_dict_and_back() -> None:
    values = {3: {"a": np.ones(2), "b": 1.0}, 0: {"a": np.zeros(2), "b": 2.0}}
    batch = EnvBatch.from_dict(values)
    assert batch.env_ids.tolist() == [3, 0]
    assert batch.columns["a"].tolist() == [[1, 1], [0, 0]]
    assert batch.to_dict() == values
    assert EnvBatch.from_dict(batch) is batch
    with pytest.raises(SchemaError, match="without environments"):
        _ = EnvBatch.from_dict({}).columns


def test_take() -> None:
    batch = EnvBatch([5, 6, 7], {"x": np.arange(3)})
    assert batch.take(np.array([2, 0])).to_dict() == {7: {"x": 2}, 5: {"x": 0}}
    with pytest.raises(SchemaError, match="has 2 rows, expected 1"):
        EnvBatch([0], np.zeros(2))


def test_timesteps_from_the_classic_form() -> None:
    steps = {
        2: BaseEnvTimestep(np.zeros(3), np.array([1.0]), False, {}),
        0: BaseEnvTimestep(
            np.ones(3), np.array([2.0]), True, {"TimeLimit.truncated": True, "eval_episode_return": 5.0}
        ),
    }
    batch = TimestepBatch.from_dict(steps)
    assert batch.env_ids.tolist() == [2, 0]
    assert batch.reward.dtype == np.float32
    assert batch.reward.shape == (2, 1)
    assert batch.done.tolist() == [False, True]
    assert batch.truncated.tolist() == [False, True]
    assert batch.infos == {1: steps[0].info}
    assert batch[0] is steps[0]


def test_timestep_rows_are_named_tuples() -> None:
    batch = TimestepBatch(
        [0, 1],
        np.zeros((2, 4), np.float32),
        np.ones((2, 1), np.float32),
        np.array([False, True]),
        np.zeros(2, bool),
        {1: {"k": 1}},
    )
    first, second = batch[0], batch[1]
    assert first.done is False
    assert second.done is True
    assert first.info == {}
    assert second.info == {"k": 1}
    first.info["new"] = 2
    assert batch.info_at(0) == {"new": 2}
    assert second.reward.tolist() == [1.0]
    part = batch.take(np.array([1]))
    assert part.env_ids.tolist() == [1]
    assert part.infos == {0: {"k": 1}}


def test_scalar_rewards_and_ragged_observations() -> None:
    steps = {0: BaseEnvTimestep(np.zeros(3), 1, False, {}), 1: BaseEnvTimestep(np.zeros(2), 2, False, {})}
    batch = TimestepBatch.from_dict(steps)
    assert batch.reward.tolist() == [[1.0], [2.0]]
    assert isinstance(batch.obs, list)


@pytest.mark.parametrize(
    ("ints", "floats"),
    [(np.array([1]), np.array([0.5])), (1, 0.5), (np.int64(1), np.float32(0.5)), (np.array([True]), np.array([0.5]))],
)
def test_rewards_of_several_dtypes_become_float32(ints, floats) -> None:
    steps = {0: BaseEnvTimestep(np.zeros(3), ints, False, {}), 1: BaseEnvTimestep(np.zeros(3), floats, False, {})}
    reward = TimestepBatch.from_dict(steps).reward
    assert reward.dtype == np.float32
    assert reward.tolist() == [[1.0], [0.5]]


class _Policy:
    @batched
    def forward(self, data: EnvBatch, scale: float = 1.0) -> EnvBatch:
        return EnvBatch(data.env_ids, {"action": data.columns[:, :1] * scale})

    @batched
    def process_transition(self, obs, output, timestep):
        return {"obs": obs, "action": output["action"]}


class _Child(_Policy):
    def forward(self, data, scale=1.0):
        return {env_id: {"action": obs[:1]} for env_id, obs in data.items()}


def test_the_mark_belongs_to_the_function() -> None:
    assert is_batched(_Policy().forward)
    assert is_batched(_Policy().process_transition)
    assert not is_batched(_Child().forward)
    assert is_batched(_Child().process_transition)


def test_a_batched_forward_serves_the_classic_call() -> None:
    policy = _Policy()
    out = policy.forward({3: np.array([1.0, 2.0]), 1: np.array([5.0, 6.0])}, scale=2.0)
    assert type(out) is dict
    assert {k: v["action"].tolist() for k, v in out.items()} == {3: [2.0], 1: [10.0]}
    batch = policy.forward(EnvBatch([0], np.array([[4.0, 1.0]])))
    assert isinstance(batch, EnvBatch)


def test_copies_are_dicts():
    batch = EnvBatch([3, 1], {"x": np.arange(2)})
    for copied in (batch.copy(), dict(batch)):
        assert type(copied) is dict
        assert list(copied) == [3, 1]
        assert copied[3] is batch[3]
    steps = TimestepBatch([0], np.zeros((1, 2)), np.ones((1, 1), np.float32), np.array([False]), np.array([False]))
    copied = steps.copy()
    assert copied.pop(0) is steps[0]
    assert (copied, list(steps)) == ({}, [0])


def timesteps(reward=1.0, ids=(0, 1), info=None):
    infos = {0: {"seen": np.zeros(2)} if info is None else info}
    flags = np.zeros(2, np.bool_)
    return TimestepBatch(list(ids), np.zeros((2, 3)), np.full((2, 1), reward, np.float32), flags, flags, infos)


def test_batches_compare_by_their_rows():
    obs = np.arange(6.0).reshape(2, 3)
    assert EnvBatch([4, 1], obs) == EnvBatch([1, 4], obs[::-1])
    assert EnvBatch([4, 1], obs) == {4: obs[0], 1: obs[1]}
    assert {4: obs[0], 1: obs[1]} == EnvBatch([4, 1], obs)
    for other in (EnvBatch([4, 2], obs), EnvBatch([4, 1], obs + 1), EnvBatch([4, 1], obs[:, :2]), {4: obs[0]}, 3, None):
        assert EnvBatch([4, 1], obs) != other
    trees = [EnvBatch([0], {"a": torch.tensor([[1.0, 2.0]]), "b": [[1, "x"]]}) for _ in range(2)]
    assert trees[0] == trees[1]
    assert trees[0] != EnvBatch([0], {"a": np.array([[1.0, 2.0]]), "b": [[1, "x"]]})
    assert timesteps() == timesteps()
    assert timesteps() != timesteps(reward=2.0)
    assert timesteps() != timesteps(info={"seen": np.ones(2)})
    assert timesteps() != timesteps(ids=(0, 2))
