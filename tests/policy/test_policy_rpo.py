"""RPO: the means of continuous actions move by uniform noise, and only in an update."""

from typing import Any

import numpy as np
import pytest
import torch

from ding.data import EnvBatch
from ding.policy import PolicyConfigError, PPOPolicy
from ding.policy.ppo import PPOSettings, ppo_loss
from ding.utils import deep_merge_dicts, set_pkg_seed


def _batch() -> dict[str, torch.Tensor | dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    numbers = {key: torch.randn(6) for key in ("value", "adv", "return")}
    return {"obs": torch.randn(6, 3), "action": torch.randn(6, 2), "logit": _logit(torch.zeros(6, 2)), **numbers}


def _logit(mu: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"mu": mu, "sigma": torch.full_like(mu, 0.7)}


def test_the_loss_is_that_of_moved_means(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = torch.rand(6, 2)
    monkeypatch.setattr(torch, "rand_like", lambda like: draws)
    mu, value, batch = torch.randn(6, 2), torch.randn(6), _batch()
    found = ppo_loss(lambda obs: {"logit": _logit(mu), "value": value}, batch, PPOSettings(rpo_alpha=0.5))
    moved = _logit(mu + draws - 0.5)
    expected = ppo_loss(lambda obs: {"logit": moved, "value": value}, batch, PPOSettings())
    torch.testing.assert_close(found.total_loss, expected.total_loss)
    # What is logged of the policy is the policy itself.
    torch.testing.assert_close(found.mu_mean, mu.mean())


def _policy(alpha: float, space: str = "continuous") -> Any:
    set_pkg_seed(0, use_cuda=False)
    cfg = {
        "action_space": space,
        "model": {"obs_shape": 3, "action_shape": 2, "action_space": space},
        "learn": {"rpo_alpha": alpha},
    }
    return PPOPolicy(deep_merge_dicts(PPOPolicy.default_config(), cfg))


def test_actions_do_not_depend_on_it() -> None:
    obs = EnvBatch(np.arange(4), torch.randn(4, 3))
    acted = []
    for alpha in (0.0, 0.5):
        policy = _policy(alpha)
        collected = policy.collect_mode.forward(obs)
        acted.append([collected[0]["action"], collected[0]["logit"]["mu"], policy.eval_mode.forward(obs)[0]["action"]])
    torch.testing.assert_close(*acted, rtol=0, atol=0)


def test_discrete_actions_have_no_means() -> None:
    with pytest.raises(PolicyConfigError, match="rpo_alpha"):
        _policy(0.5, "discrete")
