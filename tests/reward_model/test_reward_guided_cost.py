"""Guided cost learning: the loss, costs as rewards."""

import math
from typing import Any

import pytest
import torch

from ding.data import TransitionBatch
from ding.reward_model import GuidedCostRewardModel
from ding.utils import deep_merge_dicts


def make(**overrides: Any) -> GuidedCostRewardModel:
    torch.manual_seed(0)
    cfg = deep_merge_dicts(GuidedCostRewardModel.default_config(), {"input_size": 3, "hidden_size": 8})
    return GuidedCostRewardModel(deep_merge_dicts(cfg, overrides))


def batch(rows: int, continuous: bool, phase: float = 0.0) -> TransitionBatch:
    action = torch.arange(rows).reshape(rows, 1) % 2
    mu, sigma = torch.zeros(rows, 1), torch.full((rows, 1), 2.0)
    logit = {"mu": mu, "sigma": sigma} if continuous else torch.tensor([[0.0, math.log(3.0)]]).repeat(rows, 1)
    return TransitionBatch(
        {
            "obs": torch.sin(torch.arange(rows * 2).reshape(rows, 2) + phase), "action": action,
            "reward": torch.ones(rows, 2), "logit": logit,
        }
    )  # fmt: skip


def costs(model: GuidedCostRewardModel, data: TransitionBatch) -> torch.Tensor:
    with torch.no_grad():
        return model.reward_model(torch.cat([data.columns["obs"], data.columns["action"].float()], dim=1))


@pytest.mark.parametrize("as_rows", [False, True])
@pytest.mark.parametrize("continuous", [False, True])
def test_the_loss_weighs_samples_by_their_likelihood(continuous, as_rows):
    model, expert, own = make(continuous=continuous), batch(3, continuous, 1.0), batch(4, continuous)
    if continuous:
        chances = [math.exp(-((i % 2) ** 2) / 8) / (2 * math.sqrt(2 * math.pi)) for i in range(4)]
    else:
        chances = [0.25 if i % 2 == 0 else 0.75 for i in range(4)]
    chances = torch.tensor([*chances, 1.0, 1.0, 1.0]).unsqueeze(1)
    every = torch.cat([costs(model, own), costs(model, expert)])
    expected = costs(model, expert).mean() + (torch.exp(-every) / (chances + 1e-7)).mean().log()
    loss = model.train(list(expert), list(own)) if as_rows else model.train(expert, own)
    assert loss == pytest.approx(float(expected), rel=1e-5)
    assert set(own[0]) == {"obs", "action", "reward", "logit"}


def test_the_expert_gets_lower_costs_and_they_are_rewards():
    model, expert, own = make(continuous=False, learning_rate=0.01), batch(6, False, 2.0), batch(6, False)
    for _ in range(60):
        model.train(expert, own)
    assert costs(model, expert).mean() < costs(model, own).mean()
    estimated = model.estimate(own)
    assert torch.allclose(estimated.columns["reward"], -costs(model, own).expand(6, 2))
    assert torch.equal(own.columns["reward"], torch.ones(6, 2))
    rows = list(own)
    assert model.estimate(rows) is rows
    assert torch.allclose(rows[2]["reward"], -costs(model, own)[2])
    other = make()
    other.load_state_dict_reward_model(model.state_dict_reward_model())
    assert torch.equal(costs(other, own), costs(model, own))
    assert set(model.state_dict()["model"]) == {f"net.{k}.{kind}" for k in (0, 2, 4) for kind in ("weight", "bias")}
