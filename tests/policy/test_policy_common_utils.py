"""Samples to tensors, and the wrappers for one environment."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ding.data import BaseEnvTimestep, TimestepBatch, TransitionBatch
from ding.policy import (
    PolicyDataError,
    PPOPolicy,
    default_preprocess_learn,
    set_noise_mode,
    single_env_forward_wrapper,
    single_env_forward_wrapper_ttorch,
)
from ding.policy.common_utils import network_columns, transition_done
from ding.utils import deep_merge_dicts


def _samples(size: int, n: int = 1, **extra) -> list[dict]:
    return [
        {
            "obs": torch.full((4,), float(i)),
            "next_obs": torch.full((4,), float(i) + 1),
            "action": torch.tensor([i % 2]),
            "reward": torch.arange(n, dtype=torch.float32) + i,
            "done": i == size - 1,
            "collect_iter": 7,
            **{key: value(i) for key, value in extra.items()},
        }
        for i in range(size)
    ]


def _columns(size: int, n: int = 1) -> TransitionBatch:
    return TransitionBatch(
        {
            "obs": torch.arange(size).float()[:, None].expand(size, 4),
            "next_obs": torch.arange(size).float()[:, None].expand(size, 4) + 1,
            "action": torch.arange(size)[:, None] % 2,
            "reward": torch.arange(size)[:, None] + torch.arange(n).float(),
            "done": np.arange(size) == size - 1,
            "collect_iter": np.full(size, 7),
        }
    )


def _assert_same(left: dict, right: dict) -> None:
    assert left.keys() == right.keys()
    for key, value in left.items():
        if isinstance(value, torch.Tensor):
            assert value.dtype == right[key].dtype, key
            assert torch.equal(value, right[key]), key
            assert value.is_contiguous(), key
        else:
            assert value == right[key], key


@given(size=st.integers(1, 5), n=st.integers(1, 3), use_nstep=st.booleans(), ignore_done=st.booleans())
def test_rows_and_columns_give_the_same_batch(size, n, use_nstep, ignore_done):
    rows = default_preprocess_learn(_samples(size, n), use_nstep=use_nstep, ignore_done=ignore_done)
    columns = default_preprocess_learn(_columns(size, n), use_nstep=use_nstep, ignore_done=ignore_done)
    _assert_same(rows, columns)
    assert rows["action"].shape == (size,)
    assert rows["done"].tolist() == [0.0 if ignore_done else float(i == size - 1) for i in range(size)]


@pytest.mark.parametrize(("n", "use_nstep", "shape"), [(1, False, (3,)), (1, True, (1, 3)), (4, True, (4, 3))])
def test_reward_shapes(n, use_nstep, shape):
    assert default_preprocess_learn(_samples(3, n), use_nstep=use_nstep)["reward"].shape == shape


def test_nstep_reward_values_are_time_first():
    reward = default_preprocess_learn(_samples(2, 3), use_nstep=True)["reward"]
    assert reward.tolist() == [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]


def test_multi_agent_nstep_reward():
    samples = _samples(2, reward=lambda i: torch.arange(6.0).reshape(2, 3) + i)
    reward = default_preprocess_learn(samples, use_nstep=True)["reward"]
    assert reward.shape == (3, 2, 2)
    assert reward[:, 1, 0].tolist() == [1.0, 2.0, 3.0]


def test_reward_of_a_wrong_rank():
    with pytest.raises(PolicyDataError, match=r"found shape \(2, 1, 1, 1\)"):
        default_preprocess_learn(_samples(2, reward=lambda i: torch.zeros(1, 1, 1)), use_nstep=True)


def test_an_observation_of_one_feature_keeps_its_axis():
    batch = default_preprocess_learn(_samples(3, obs=lambda i: torch.tensor([float(i)])))
    assert batch["obs"].shape == (3, 1)


def test_a_continuous_action_keeps_its_axis():
    samples = _samples(3, action=lambda i: torch.tensor([0.5]), value=lambda i: torch.tensor([1.0]))
    batch = default_preprocess_learn(samples)
    assert batch["action"].shape == (3, 1)
    assert batch["value"].shape == (3,)


def test_values_and_advantages_are_flat_beside_a_continuous_action():
    sample = {"obs": torch.zeros(2), "action": torch.zeros(2), "reward": torch.ones(1), "done": False}
    sample |= {"value": torch.tensor([2.0]), "adv": torch.tensor([3.0]), "logit": torch.tensor([4.0])}
    batch = default_preprocess_learn([sample] * 3)
    assert {key: tuple(batch[key].shape) for key in ("value", "adv", "logit")} == {
        "value": (3,),
        "adv": (3,),
        "logit": (3, 1),
    }


def test_weights():
    samples = _samples(2, IS=lambda i: 1.0 / (1 + i))
    assert default_preprocess_learn(samples)["weight"] is None
    batch = default_preprocess_learn(samples, use_priority=True, use_priority_IS_weight=True)
    assert batch["weight"].dtype == torch.float32
    assert batch["weight"].tolist() == [1.0, 0.5]
    samples = _samples(2, IS=lambda i: 1.0, priority_IS=lambda i: 3.0)
    batch = default_preprocess_learn(samples, use_priority=True, use_priority_IS_weight=True)
    assert batch["weight"].tolist() == [3.0, 3.0]
    assert default_preprocess_learn(_samples(2, weight=lambda i: 0.5))["weight"].tolist() == [0.5, 0.5]


def test_weights_without_priorities():
    with pytest.raises(AssertionError, match="priority_IS_weight=True needs priority=True"):
        default_preprocess_learn(_samples(2), use_priority_IS_weight=True)
    with pytest.raises(PolicyDataError, match="needs the field 'IS'"):
        default_preprocess_learn(_samples(2), use_priority=True, use_priority_IS_weight=True)


def test_zero_samples():
    with pytest.raises(PolicyDataError, match="zero samples"):
        default_preprocess_learn([])


def test_whole_episodes_are_no_transitions():
    with pytest.raises(PolicyDataError, match="whole episodes"):
        default_preprocess_learn([_samples(2), _samples(3)])


def test_nested_observations_texts_and_read_only_arrays():
    array = np.arange(6, dtype=np.float64).reshape(2, 3)
    array.flags.writeable = False
    batch = TransitionBatch(
        {
            "obs": {"agent": array, "mask": np.ones((2, 2), dtype=np.uint8)},
            "action": torch.zeros(2, 1, dtype=torch.int64),
            "replay_unique_id": ["a", "b"],
        }
    )
    got = default_preprocess_learn(batch)
    assert got["obs"]["agent"].dtype == torch.float32
    assert got["obs"]["mask"].dtype == torch.float32
    assert got["replay_unique_id"] == ["a", "b"]
    assert got["action"].shape == (2,)


def test_time_limits_are_not_terminal_unless_asked_for():
    plain = BaseEnvTimestep(None, 0.0, True, {"TimeLimit.truncated": True})
    assert transition_done(plain) is False
    assert transition_done(plain, reference_numerics=True) is True
    assert transition_done(BaseEnvTimestep(None, 0.0, True, {})) is True
    steps = TimestepBatch(
        np.arange(3),
        np.zeros((3, 1)),
        np.zeros((3, 1), np.float32),
        np.array([True, True, False]),
        np.array([True, False, False]),
        {},
    )
    assert transition_done(steps).tolist() == [False, True, False]
    assert transition_done(steps, reference_numerics=True).tolist() == [True, True, False]


def test_set_noise_mode():
    from ding.torch_utils.network import NoiseLinearLayer

    module = torch.nn.Sequential(NoiseLinearLayer(2, 2), torch.nn.Linear(2, 2), NoiseLinearLayer(2, 2))
    set_noise_mode(module, True)
    assert [module[0].enable_noise, module[2].enable_noise] == [True, True]
    assert not hasattr(module[1], "enable_noise")
    set_noise_mode(module, False)
    assert [module[0].enable_noise, module[2].enable_noise] == [False, False]


def test_single_env_forward_wrapper():
    forward = single_env_forward_wrapper(lambda data: {0: {"action": data[0].argmax().reshape(1)}})
    action = forward(np.array([0.0, 3.0, 1.0]))
    assert (action.shape, int(action)) == ((), 1)
    forward = single_env_forward_wrapper(lambda data: {0: {"action": data[0]["x"] * 2}})
    assert forward({"x": np.array([0.5], dtype=np.float64)}).tolist() == [1.0]


def test_single_env_forward_wrapper_ttorch():
    class Output:
        def __init__(self, action: torch.Tensor) -> None:
            self.action = action

    forward = single_env_forward_wrapper_ttorch(lambda obs: Output(obs["x"].argmax(-1)), cuda=False)
    assert forward({"x": np.array([0.0, 3.0])}).tolist() == 1


def test_network_columns_of_lists_texts_and_keys_that_are_not_collated():
    got = network_columns([[1, 2], [3, 4]], "cpu")
    assert got.dtype == torch.int64
    assert got.tolist() == [[1, 2], [3, 4]]
    assert network_columns([[0.5, 1], [2, 3]], "cpu").dtype == torch.float32
    assert network_columns(["left", "right"], "cpu") == ["left", "right"]
    assert network_columns([(1, 0.5), (2, 1.5)], "cpu")[0].tolist() == [1, 2]
    parts = network_columns([[np.zeros(2), {"x": np.zeros(3, np.uint8)}]] * 4, "cpu")
    assert [parts[0].shape, parts[1]["x"].shape] == [(4, 2), (4, 3)]
    assert parts[0].dtype == parts[1]["x"].dtype == torch.float32
    given = {"x": np.zeros((2, 3)), "collate_ignore_graph": [np.zeros(1, np.uint8), np.zeros(2, np.uint8)]}
    assert [row.dtype for row in network_columns(given, "cpu")["collate_ignore_graph"]] == [np.uint8] * 2
    shared = network_columns({"collate_ignore_a": np.zeros((2, 3)), "collate_ignore_n": {"k": np.arange(2)}}, "cpu")
    assert [row.shape for row in shared["collate_ignore_a"]] == [(3,), (3,)]
    assert shared["collate_ignore_n"] == [{"k": 0}, {"k": 1}]


def test_an_axis_of_the_only_action_stays():
    columns = TransitionBatch(
        {
            "obs": torch.zeros(3, 2),
            "action": torch.zeros(3, 1, dtype=torch.int64),
            "logit": torch.zeros(3, 1),
            "reward": torch.zeros(3, 1),
        }
    )
    batch = default_preprocess_learn(columns)
    assert {key: tuple(batch[key].shape) for key in ("action", "logit", "reward")} == {
        "action": (3,),
        "logit": (3, 1),
        "reward": (3,),
    }


def test_ppo_learns_where_there_is_one_action():
    model = {"obs_shape": 2, "action_shape": 1, "action_space": "discrete"}
    user = {"action_space": "discrete", "model": model, "learn": {"epoch_per_collect": 1, "batch_size": 4}}
    policy = PPOPolicy(deep_merge_dicts(PPOPolicy.default_config(), user))
    rows = {env: torch.randn(2) for env in range(4)}
    outputs = policy.collect_mode.forward(rows)
    samples = [
        {
            "obs": rows[env],
            "next_obs": rows[env],
            **output,
            "reward": torch.ones(1),
            "done": False,
            "traj_flag": True,
            "adv": torch.ones(()),
        }
        for env, output in outputs.items()
    ]
    assert np.isfinite(policy.learn_mode.forward(samples)[0]["total_loss"])
