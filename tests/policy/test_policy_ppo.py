"""PPO beyond its numbers: masks, dict observations, checkpoints, segments, settings."""

from typing import Any

import numpy as np
import pytest
import torch

from ding.data import EnvBatch, TransitionBatch
from ding.policy import PolicyConfigError, PolicyUsageError, PPOPolicy
from ding.utils import deep_merge_dicts


def make(**overrides: Any) -> PPOPolicy:
    base = {"model": {"obs_shape": 4, "action_shape": 3}, "learn": {"epoch_per_collect": 1, "batch_size": 6}}
    return PPOPolicy(deep_merge_dicts(deep_merge_dicts(PPOPolicy.default_config(), base), overrides))


def observations(rows: int, masked: bool) -> Any:
    values = np.sin(np.arange(rows * 4).reshape(rows, 4)).astype(np.float32)
    if not masked:
        return values
    return {"observation": values, "action_mask": np.tile(np.array([1, 0, 1], np.float32), (rows, 1))}


def collected(policy: PPOPolicy, rows: int, masked: bool) -> TransitionBatch:
    obs = observations(rows, masked)
    output = policy.collect_mode.forward(EnvBatch(np.arange(rows), obs)).columns
    ends = np.arange(rows) % 3 == 2
    columns = {
        "obs": obs, "next_obs": obs, **{key: output[key] for key in ("action", "logit", "value")},
        "reward": torch.ones(rows, 1), "done": ends,
    }  # fmt: skip
    return policy.collect_mode.get_train_sample(TransitionBatch(columns, lengths=[3] * (rows // 3)))


def test_rows_that_forbid_all_actions_are_learned_from_as_if_they_allowed_all():
    torch.manual_seed(0)
    policy = make()
    batch = collected(policy, 12, masked=True)
    batch.columns["obs"]["action_mask"][4:8] = 0
    for numbers in policy.learn_mode.forward(batch):
        assert all(np.isfinite(value) for value in numbers.values())


@pytest.mark.parametrize("obs_shape", [4, {"observation": 4}])
def test_forbidden_actions_are_neither_drawn_nor_counted(obs_shape):
    torch.manual_seed(0)
    policy = make(model={"obs_shape": obs_shape})
    batch = collected(policy, 60, masked=True)
    assert set(batch.columns["action"].reshape(-1).tolist()) == {0, 2}
    (numbers, *_) = policy.learn_mode.forward(batch)
    # Two allowed actions: the entropy cannot be above log 2, and the ratio of the first minibatch is one.
    assert numbers["entropy_loss"] <= np.log(2) + 1e-6
    assert numbers["approx_kl"] == pytest.approx(0, abs=1e-5)
    evaluated = policy.eval_mode.forward(EnvBatch(np.arange(6), observations(6, masked=True)))
    assert 1 not in evaluated.columns["action"].reshape(-1).tolist()


def test_a_checkpoint_of_the_original_lacks_the_statistics_of_returns():
    policy, other = make(), make()
    policy.learn_mode.forward(collected(policy, 6, masked=False))
    state = policy.learn_mode.state_dict()
    other.learn_mode.load_state_dict({key: state[key] for key in ("model", "optimizer")})
    other.learn_mode.load_state_dict(state)
    assert other.learn_mode.state_dict()["value_norm"]["count"] == state["value_norm"]["count"] > 1


def test_the_deviation_of_returns_stays_bounded_where_only_time_limits_end_episodes():
    torch.manual_seed(0)
    np.random.seed(0)
    random = np.random.default_rng(0)
    policy = make(learn={"epoch_per_collect": 10, "batch_size": 64, "learning_rate": 1e-3})
    ends = np.arange(250) % 25 == 24
    for _ in range(6):
        obs, next_obs = random.standard_normal((2, 250, 4)).astype(np.float32)
        columns = {
            "obs": obs, "next_obs": next_obs, "action": random.integers(0, 3, 250), "reward": obs[:, :1] - 2,
            "logit": np.zeros((250, 3), np.float32), "value": np.zeros(250, np.float32), "done": np.zeros(250, bool),
            "adv": np.zeros(250, np.float32), "traj_flag": ends,
        }  # fmt: skip
        policy.learn_mode.forward(TransitionBatch(columns))
    # -200 is the value of rewards of -2 without an end; the deviation went beyond 1,000.
    assert policy.learn_mode.get_attribute("running_mean_std").std < 200


def test_a_segment_that_was_cut_is_bootstrapped_by_the_critic():
    policy = make(learn={"value_norm": False}, collect={"gae_lambda": 1.0, "discount_factor": 0.5})
    obs = observations(4, masked=False)
    value = policy.collect_mode.forward(EnvBatch(np.arange(4), obs)).columns["value"]
    columns = {
        "obs": obs, "next_obs": obs, "action": torch.zeros(4, 1, dtype=torch.int64), "logit": torch.zeros(4, 3),
        "value": value, "reward": torch.ones(4, 1), "done": np.array([False, True, False, False]),
    }  # fmt: skip
    samples = policy.collect_mode.get_train_sample(TransitionBatch(columns, lengths=[2, 2]))
    returns = (samples.columns["adv"] + value).reshape(-1)
    last = value[3].item()
    expected = [1.5, 1.0, 1 + 0.5 * (1 + 0.5 * last), 1 + 0.5 * last]
    np.testing.assert_allclose(returns.numpy(), expected, rtol=1e-5)
    assert samples.columns["traj_flag"].tolist() == [False, True, False, True]


def test_wrong_settings():
    with pytest.raises(PolicyConfigError, match="action_space: 'discret' is unknown"):
        make(action_space="discret")
    with pytest.raises(PolicyUsageError, match="priority"):
        make(priority=True)
    with pytest.raises(PolicyConfigError, match="lr_scheduler"):
        make(learn={"lr_scheduler": {"epochs": 3}})
