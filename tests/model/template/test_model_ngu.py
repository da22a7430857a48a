"""The network of NGU: parameters, numbers of DI-engine, what a step reads of the one before."""

import math
from typing import Any

import pytest
import torch

from ding.model import NGU


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


@pytest.fixture(params=[2, [2]])
def model(request) -> NGU:
    made = NGU(4, request.param, [16, 8], collector_env_num=2)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))
    return made.eval()


def first(values: torch.Tensor, count: int = 4) -> list[float]:
    return values.flatten()[:count].tolist()


def test_parameters(model):
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    assert (len(shapes), sum(map(math.prod, shapes.values()))) == (19, 1219)
    assert shapes["rnn.wx.0"] == (13, 32)
    assert shapes["head.V.1.0.weight"] == (1, 8)


def test_one_step(model):
    inputs: dict[str, Any] = {"obs": wave((2, 4), 0.1), "prev_state": [None, None], "beta": torch.tensor([0, 1])}
    inputs |= {"prev_action": torch.tensor([-1, 1]), "prev_reward_extrinsic": torch.tensor([0, 0.5])}
    with torch.no_grad():
        out = model(inputs, inference=True)
    assert first(out["logit"]) == pytest.approx([-0.192337, 0.0457834, -0.192284, 0.0461057], rel=1e-5)
    assert first(out["next_state"][0]["h"]) == pytest.approx([0.0481693, 0.0554913, 0.0631929, 0.0712781], rel=1e-5)
    assert first(out["next_state"][1]["c"]) == pytest.approx([0.0979207, 0.111807, 0.126145, 0.140912], rel=1e-5)


def test_a_sequence_whose_steps_before_are_those_of_the_sample_beside(model):
    """As DI-engine has it."""
    inputs: dict[str, Any] = {
        "obs": wave((3, 2, 4), 0.1),
        "prev_state": [None, None],
        "beta": torch.tensor([[0, 1]] * 3),
    }
    inputs["prev_action"] = torch.tensor([[-1, 0], [-1, 1], [-1, 0]])
    reward = wave((3, 2, 1), 0.2)
    inputs["prev_reward_extrinsic"] = torch.cat([torch.zeros(3, 1, 1), reward[:, :1]], 1)
    with torch.no_grad():
        out = model(inputs, saved_state_timesteps=[2])
    assert first(out["logit"]) == pytest.approx([-0.192337, 0.0457834, -0.192291, 0.0460629], rel=1e-5)
    assert first(out["hidden_state"]) == pytest.approx([0.0481693, 0.0554913, 0.0631929, 0.0712781], rel=1e-5)
    assert first(out["next_state"][1]["h"]) == pytest.approx([0.104613, 0.120562, 0.137281, 0.154753], rel=1e-5)
    assert first(out["saved_state"][0][1]["c"]) == pytest.approx([0.172003, 0.19686, 0.22252, 0.248914], rel=1e-5)


def test_a_sequence_is_its_steps_one_by_one(model):
    obs, action, reward = wave((3, 2, 4), 0.1), torch.tensor([[0, 1], [1, 0], [0, 1]]), wave((3, 2, 1), 0.2)
    beta, state = torch.tensor([[1], [0]]), [None, None]
    with torch.no_grad():
        whole = model(
            {"obs": obs, "action": action, "reward": reward, "beta": beta.expand(3, 2, 1), "prev_state": [None, None]}
        )["logit"]
        for t in range(3):
            before = {
                "prev_action": action[t - 1] if t else torch.tensor([-1, -1]),
                "prev_reward_extrinsic": reward[t - 1] if t else torch.zeros(2, 1),
            }
            out = model({"obs": obs[t], "prev_state": state, "beta": beta, **before}, inference=True)
            state = out["next_state"]
            torch.testing.assert_close(out["logit"], whole[t])
