"""SQN: several heads, action masks, checkpoints with the temperature, the command twin."""

import math
from typing import Any

import pytest
import torch

from ding.model.template import SQN
from ding.policy import SQNCommandModePolicy, SQNPolicy
from ding.policy.errors import PolicyStateError
from ding.policy.sqn import sqn_loss
from ding.utils import deep_merge_dicts


def make(cls: type = SQNPolicy, action_shape: Any = 2) -> Any:
    torch.manual_seed(0)
    model = {"obs_shape": 4, "action_shape": action_shape}
    return cls(deep_merge_dicts(cls.default_config(), {"model": model}))


def samples(action: list[int]) -> list[dict[str, Any]]:
    torch.manual_seed(1)
    return [
        {
            "obs": torch.randn(4),
            "next_obs": torch.randn(4),
            "action": torch.tensor(action),
            "reward": torch.ones(1),
            "done": i == 2,
        }
        for i in range(3)
    ]


def constant(q0: list[float], q1: list[float], rows: int = 1) -> Any:
    return lambda obs: {"q_value": [torch.tensor([q0] * rows), torch.tensor([q1] * rows)]}


def batch(**more: Any) -> dict[str, Any]:
    return {
        "obs": None,
        "next_obs": None,
        "action": torch.tensor([0]),
        "reward": torch.ones(1),
        "done": torch.zeros(1),
    } | more


def test_the_goal_is_the_soft_value_of_the_smaller_one():
    loss = sqn_loss(constant([1.0, 0.0], [2.0, 0.0]), constant([1.0, 3.0], [2.0, 2.0]), torch.ones(()), batch(), 0.5)
    goal = 1 + 0.5 * math.log(math.exp(1) + math.exp(2))
    assert loss.q_loss.item() == pytest.approx((1 - goal) ** 2 + (2 - goal) ** 2)
    p = 1 / (1 + math.exp(1))
    assert loss.entropy.item() == pytest.approx(-p * math.log(p) - (1 - p) * math.log(1 - p))
    assert loss.q_value.item() == pytest.approx(0.75)


def test_forbidden_actions_do_not_count():
    given = batch(next_action_mask=torch.tensor([[1.0, 0.0]]))
    loss = sqn_loss(constant([1.0, 0.0], [1.0, 0.0]), constant([1.0, 9.0], [1.0, 9.0]), torch.ones(()), given, 0.5)
    assert loss.q_loss.item() == pytest.approx(2 * (1 - 1.5) ** 2)
    assert loss.entropy.item() == 0


def test_several_heads_learn_the_mean_of_their_losses():
    result = make(action_shape=[2, 3]).learn_mode.forward(samples([1, 2]))
    assert all(math.isfinite(value) for value in result.values())


def test_a_checkpoint_restores_target_network_and_temperature():
    policy, resumed = make(), make()
    policy.learn_mode.forward(samples([1]))
    resumed.learn_mode.load_state_dict(policy.learn_mode.state_dict())
    assert resumed.learn_mode.forward(samples([0])) == pytest.approx(policy.learn_mode.forward(samples([0])), rel=1e-6)


def test_a_file_of_the_original_api_is_loaded():
    policy, resumed = make(), make()
    policy.learn_mode.forward(samples([1]))
    state = policy.learn_mode.state_dict()
    resumed.learn_mode.load_state_dict({key: state[key] for key in ("model", "optimizer_q", "optimizer_alpha")})
    target = resumed.learn_mode.state_dict()["target_model"]
    assert all(torch.equal(value, target[key]) for key, value in state["model"].items())
    with pytest.raises(PolicyStateError, match="optimizer_q"):
        resumed.learn_mode.load_state_dict({"model": state["model"]})


def test_the_command_twin_anneals_epsilon():
    assert make(SQNCommandModePolicy).command_mode.get_setting_collect({"envstep": 0}) == {"eps": 1.0}


def test_the_network_has_the_parameters_of_the_original_api():
    state = SQN(4, 2, [16, 8]).state_dict()
    assert len(state) == 24
    assert sum(value.numel() for value in state.values()) == 774
    assert {"q0.encoder.init.weight", "q1.head.V.1.0.bias"} <= set(state)
