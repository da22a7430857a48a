"""PQN: returns by a plain loop, and the loss of a step."""

import copy

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.policy import PolicyConfigError, PQNPolicy
from ding.policy.pqn import q_lambda_returns
from ding.utils import deep_merge_dicts, set_pkg_seed

_GAMMA, _LAMBDA = 0.9, 0.65


def _loop(next_value: np.ndarray, reward: np.ndarray, done: np.ndarray, ends: np.ndarray) -> list[float]:
    returns: list[float] = []
    following = 0.0
    for value, r, is_done, is_end in zip(next_value[::-1], reward[::-1], done[::-1], ends[::-1]):
        if is_done:
            following = r
        elif is_end:
            following = r + _GAMMA * value
        else:
            following = r + _GAMMA * (_LAMBDA * following + (1 - _LAMBDA) * value)
        returns.insert(0, following)
    return returns


@pytest.mark.parametrize("heads", [0, 2])
def test_returns_are_those_of_a_plain_loop(heads: int) -> None:
    random = np.random.default_rng(0)
    next_value = random.normal(size=(12, heads) if heads else 12).astype(np.float32)
    reward = random.normal(size=12).astype(np.float32)
    done = np.isin(np.arange(12), [3, 9])
    # A segment ends at a time limit, too, and with the collection.
    ends = done | np.isin(np.arange(12), [6, 11])
    columns = (torch.from_numpy(column.astype(np.float32)) for column in (next_value, reward, done, ends))
    found = q_lambda_returns(*columns, _GAMMA, _LAMBDA)
    for head in range(max(1, heads)):
        values = next_value[:, head] if heads else next_value
        expected = _loop(values, reward, done, ends)
        np.testing.assert_allclose(found[:, head] if heads else found, expected, rtol=1e-5, atol=1e-6)


def _policy(**changes: object) -> PQNPolicy:
    set_pkg_seed(0, use_cuda=False)
    cfg = {
        "discount_factor": _GAMMA,
        "model": {"obs_shape": 3, "action_shape": 2, "encoder_hidden_size_list": [16, 16]},
        "learn": {"epoch_per_collect": 2, "batch_size": 10},
    }
    return PQNPolicy(deep_merge_dicts(PQNPolicy.default_config(), deep_merge_dicts(cfg, changes)))


def test_the_loss_is_that_of_returns_by_the_network_before_the_updates() -> None:
    policy = _policy()
    random = np.random.default_rng(1)
    obs, next_obs = (torch.from_numpy(random.normal(size=(10, 3)).astype(np.float32)) for _ in range(2))
    action, reward = torch.arange(10) % 2, torch.from_numpy(random.normal(size=10).astype(np.float32))
    done = np.arange(10) == 4
    columns = {"obs": obs, "next_obs": next_obs, "action": action.unsqueeze(1), "reward": reward.unsqueeze(1)}
    segments = TransitionBatch({**columns, "done": done}, lengths=np.array([5, 5]))
    samples = policy.collect_mode.get_train_sample(segments)
    assert np.flatnonzero(samples.columns["traj_flag"]).tolist() == [4, 9]
    network = copy.deepcopy(policy.learn_mode.get_attribute("model"))
    with torch.no_grad():
        q, next_q = network(obs)["logit"], network(next_obs)["logit"]
    ends = np.isin(np.arange(10), [4, 9])
    returns = torch.tensor(_loop(next_q.amax(1).numpy(), reward.numpy(), done, ends))
    first, second = policy.learn_mode.forward(samples)
    expected = (q.gather(1, action.unsqueeze(1)).squeeze(1) - returns).square().mean()
    assert first["total_loss"] == pytest.approx(expected.item(), rel=1e-5)
    assert first["return_mean"] == pytest.approx(returns.mean().item(), rel=1e-5)
    # The returns of the second epoch are the same.
    assert second["return_mean"] == pytest.approx(first["return_mean"], rel=1e-6)
    assert second["total_loss"] < first["total_loss"]


def test_settings_without_a_meaning_are_errors() -> None:
    with pytest.raises(PolicyConfigError, match="q_lambda"):
        _policy(q_lambda=1.5)
    with pytest.raises(PolicyConfigError, match="priority"):
        _policy(priority=True)
