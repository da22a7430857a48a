"""TRPO: its step on a problem that numpy solves exactly."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ding.policy import PolicyConfigError, TRPOPolicy
from ding.utils import deep_merge_dicts, set_pkg_seed

_START = np.array([0.3, -0.2, 0.1])
_ACTIONS = np.array([0, 1, 2, 0, 1, 1])
_ADVANTAGES = np.array([1.0, -0.5, 0.2, 0.7, -1.0, 0.3])


class Logits(nn.Module):
    """A policy of one state: three logits."""

    def __init__(self, start: np.ndarray) -> None:
        super().__init__()
        self.actor, self.critic = nn.Linear(1, 3, bias=False), nn.Linear(1, 1)
        with torch.no_grad():
            self.actor.weight.copy_(torch.tensor(start).unsqueeze(1))

    def forward(self, obs: torch.Tensor, mode: str) -> dict[str, torch.Tensor]:
        output = {"compute_actor": {"logit": self.actor(obs)}, "compute_critic": {"value": self.critic(obs).squeeze(1)}}
        return output.get(mode) or {**output["compute_actor"], **output["compute_critic"]}


def _learned(advantages: np.ndarray, start: np.ndarray = _START, **learn: Any) -> tuple[np.ndarray, dict[str, float]]:
    """The logits after a step, and what was logged."""
    set_pkg_seed(0, use_cuda=False)
    defaults = {"adv_norm": False, "value_norm": False, "ppo_param_init": False, "epoch_per_collect": 1}
    cfg = deep_merge_dicts(TRPOPolicy.default_config(), {"learn": {**defaults, **learn}})
    model = Logits(start)
    policy = TRPOPolicy(cfg, model=model, enable_field=["learn"])
    rows = [
        {
            "obs": torch.ones(1),
            "action": torch.tensor([action]),
            "value": torch.zeros(1),
            "adv": torch.tensor([adv], dtype=torch.float32),
            "reward": torch.zeros(1),
            "done": False,
        }
        for action, adv in zip(_ACTIONS, advantages)
    ]
    numbers = policy.learn_mode.forward(rows)
    return model.actor.weight.detach().numpy()[:, 0], numbers


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max())
    output: np.ndarray = powers / powers.sum()
    return output


def _exact(max_kl: float, damping: float, start: np.ndarray, advantages: np.ndarray) -> tuple[np.ndarray, float]:
    """The natural gradient, and the size of the step at which the quadratic model of the divergence is ``max_kl``."""
    p = _softmax(start)
    gradient = (advantages[:, None] * (np.eye(3)[_ACTIONS] - p)).mean(0)
    fisher = np.diag(p) - np.outer(p, p) + damping * np.eye(3)
    direction = np.linalg.solve(fisher, gradient)
    return direction, float(np.sqrt(2 * max_kl / (direction @ fisher @ direction)))


def _kl(start: np.ndarray, after: np.ndarray) -> float:
    p, q = _softmax(start), _softmax(after)
    return float((p * np.log(p / q)).sum())


def _surrogate(start: np.ndarray, after: np.ndarray, advantages: np.ndarray) -> float:
    return float((_softmax(after)[_ACTIONS] / _softmax(start)[_ACTIONS] * advantages).mean())


def test_a_step_is_the_exact_natural_gradient_step() -> None:
    direction, size = _exact(0.01, 0.1, _START, _ADVANTAGES)
    after, numbers = _learned(_ADVANTAGES, max_kl=0.01)
    np.testing.assert_allclose(after, _START + size * direction, rtol=1e-4)
    assert numbers["accepted"] == 1
    assert numbers["step_size"] == pytest.approx(size, rel=1e-4)
    assert numbers["kl"] == pytest.approx(_kl(_START, after), rel=1e-3)
    assert _kl(_START, after) <= 0.01
    assert -numbers["policy_loss"] == pytest.approx(_surrogate(_START, after, _ADVANTAGES), rel=1e-4)
    assert _surrogate(_START, after, _ADVANTAGES) > _surrogate(_START, _START, _ADVANTAGES)


def test_a_step_is_shortened_until_the_divergence_is_within_its_bound() -> None:
    start, advantages = np.array([2.0, 0.0, 0.0]), -_ADVANTAGES
    direction, size = _exact(0.5, 1e-3, start, advantages)
    shorter = [size * 0.8**power for power in range(11)]
    divergences = [_kl(start, start + one * direction) for one in shorter]
    allowed = next(one for one, divergence in zip(shorter, divergences) if divergence <= 0.5)
    assert allowed < size
    after, numbers = _learned(advantages, start, max_kl=0.5, cg_damping=1e-3)
    assert numbers["step_size"] == pytest.approx(allowed, rel=1e-3)
    np.testing.assert_allclose(after, start + allowed * direction, rtol=1e-3, atol=1e-3)
    assert _surrogate(start, after, advantages) > _surrogate(start, start, advantages)


def test_without_a_better_policy_the_old_one_stays() -> None:
    after, numbers = _learned(np.zeros(6))
    np.testing.assert_array_equal(after, _START.astype(np.float32))
    assert numbers["accepted"] == numbers["kl"] == numbers["step_size"] == 0


def test_settings_without_a_meaning_are_errors() -> None:
    for changes in ({"model": {"share_encoder": True}}, {"learn": {"max_kl": 0}}):
        shapes = {"model": {"obs_shape": 3, "action_shape": 2}}
        cfg = deep_merge_dicts(deep_merge_dicts(TRPOPolicy.default_config(), shapes), changes)
        with pytest.raises(PolicyConfigError, match=next(iter(next(iter(changes.values()))))):
            TRPOPolicy(cfg, enable_field=["learn"])
