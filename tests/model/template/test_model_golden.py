"""Numbers of DI-engine: parameters filled by a rule, outputs and losses of the first learn step."""

import math

import pytest
import torch

from ding.model import C51DQN, DQN, DRQN, IQN, QRDQN, VAC, RainbowDQN
from ding.rl_utils.td import (
    dist_nstep_td_data,
    dist_nstep_td_error,
    iqn_nstep_td_data,
    iqn_nstep_td_error,
    qrdqn_nstep_td_data,
    qrdqn_nstep_td_error,
)
from ding.torch_utils import NoiseLinearLayer

ACTION = torch.tensor([0, 1, 0, 1])
DONE = torch.tensor([0.0, 0.0, 0.0, 1.0])


def golden(model, scale=0.1):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(-scale, scale, parameter.numel()).reshape(parameter.shape))
    return model


def wave(shape, phase):
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


OBS = torch.stack([wave((4,), 0.3 * i) for i in range(4)])
NEXT_OBS = torch.stack([wave((4,), 0.3 * i + 0.2) for i in range(4)])


def rewards(nstep):
    return torch.stack([wave((nstep,), 0.5 + i) for i in range(4)], dim=1)


def close(values):
    return pytest.approx(values, rel=1e-4)


@pytest.mark.parametrize(("cls", "q_value", "target_q_value"), [(DQN, 7.69252, 7.65497), (C51DQN, 8.44249, 8.43276)])
def test_values(cls, q_value, target_q_value):
    model = golden(cls(4, 2))
    with torch.no_grad():
        assert model(OBS)["logit"].mean().item() == close(q_value)
        assert model(NEXT_OBS)["logit"].mean().item() == close(target_q_value)


def test_c51():
    model = golden(C51DQN(4, 2))
    with torch.no_grad():
        after = model(NEXT_OBS)
        now = model(OBS)["distribution"]
    data = dist_nstep_td_data(now, after["distribution"], ACTION, after["logit"].argmax(-1), rewards(1), DONE, None)
    loss, priority = dist_nstep_td_error(data, 0.97, -10, 10, 51, 1)
    assert loss.item() == close(3.55989)
    assert priority.tolist() == close([2.37005, 2.12137, 2.29882, 7.44932])


def test_qrdqn():
    model = golden(QRDQN(4, 2))
    with torch.no_grad():
        now, after = model(OBS), model(NEXT_OBS)
    best = after["logit"].argmax(-1)
    data = qrdqn_nstep_td_data(now["q"], after["q"], ACTION, best, rewards(1), DONE, now["tau"], None)
    loss, priority = qrdqn_nstep_td_error(data, 0.97, 1)
    assert loss.item() == close(99.0753)
    assert priority.tolist() == close([150.074, 27.5048, 157.588, 61.1342])


def test_iqn_draws_in_the_same_order():
    model = golden(IQN(4, 2))
    torch.manual_seed(0)
    with torch.no_grad():
        now, target, after = model(OBS), model(NEXT_OBS), model(NEXT_OBS)
    best = after["logit"].argmax(-1)
    data = iqn_nstep_td_data(now["q"], target["q"], ACTION, best, rewards(1), DONE, now["quantiles"], None)
    loss, priority = iqn_nstep_td_error(data, 0.97, 1, kappa=1.0)
    assert loss.item() == close(42.8486)
    assert priority.tolist() == close([33.0461, 20.806, 17.4172, 100.125])


def reset_noise(model):
    for layer in model.modules():
        if isinstance(layer, NoiseLinearLayer):
            layer.enable_noise = True
            layer.reset_noise()


def test_rainbow_draws_in_the_same_order():
    model, target = golden(RainbowDQN(4, 2)), golden(RainbowDQN(4, 2))
    torch.manual_seed(0)
    reset_noise(model)
    reset_noise(target)
    with torch.no_grad():
        now, after = model(OBS)["distribution"], target(NEXT_OBS)["distribution"]
        reset_noise(model)
        best = model(NEXT_OBS)["logit"].argmax(-1)
    data = dist_nstep_td_data(now, after, ACTION, best, rewards(3), DONE, torch.ones(4))
    loss, priority = dist_nstep_td_error(data, 0.99, -10, 10, 51, 3, 0.99**3)
    assert loss.item() == close(5.98121)
    assert priority.tolist() == close([2.90212, 4.32002, 2.9122, 13.7905])


def test_drqn_through_burn_in():
    model = golden(DRQN(4, 2))
    obs = torch.stack([torch.stack([wave((4,), 0.3 * t + b) for b in range(2)]) for t in range(8)])
    state = [{"h": 0.1 * wave((1, 1, 64), 0.0), "c": 0.1 * wave((1, 1, 64), 0.0)} for _ in range(2)]
    with torch.no_grad():
        saved = model({"obs": obs[:4], "prev_state": state}, saved_state_timesteps=[2, 4])["saved_state"]
        q = model({"obs": obs[2:6], "prev_state": saved[0]})["logit"]
        target_q = model({"obs": obs[4:8], "prev_state": saved[1]})["logit"]
    action = torch.tensor([0, 1])
    assert q[0].gather(1, action.unsqueeze(1)).mean().item() == close(1.144)
    assert q[0].mean().item() == close(1.14413)
    assert target_q[0].max(dim=-1).values.mean().item() == close(2.42796)


def test_heads_of_continuous_actions_and_values_have_a_width_of_their_own():
    sizes = {"encoder_hidden_size_list": [16, 8], "actor_head_hidden_size": 12, "critic_head_hidden_size": 32}
    model = VAC(4, 3, action_space="continuous", critic_head_layer_num=2, **sizes)
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items() if name.endswith("weight")}
    assert [shapes[f"critic_head.{name}.weight"] for name in ("main.0", "main.2", "last")] == [
        (32, 8),
        (32, 32),
        (1, 32),
    ]
    assert [shapes[f"actor_head.{name}.weight"] for name in ("main.0", "mu")] == [(12, 8), (3, 12)]
    with pytest.raises(ValueError, match="actor_head_hidden_size must equal the last entry"):
        VAC(4, 3, **sizes)


def test_an_encoder_of_the_users_gets_the_whole_dict():
    class Encoder(torch.nn.Module):
        def forward(self, obs):
            return obs["far"]["x"] + obs["near"]

    far, near = torch.ones(2, 64), torch.zeros(2, 64)
    for model, options in ((VAC(4, 3, encoder=Encoder()), {"mode": "compute_actor"}), (DQN(4, 3), {})):
        model.encoder = Encoder()
        assert model({"far": {"x": far}, "near": near}, **options)["logit"].shape == (2, 3)
