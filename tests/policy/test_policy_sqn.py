"""SQN: several heads, action masks, checkpoints with the temperature, the command twin."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from ding.model.template import SQN
from ding.policy import SQNCommandModePolicy, SQNPolicy
from ding.policy.errors import PolicyStateError
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


class Tables(nn.Module):
    """Values of two actions for the observations (1, 0) and (0, 1): a table for each Q function."""

    def __init__(self, *tables: list[list[float]]) -> None:
        super().__init__()
        self.tables = nn.ParameterList(nn.Parameter(torch.tensor(table)) for table in tables)

    def forward(self, obs: torch.Tensor) -> dict[str, Any]:
        values = [obs @ table for table in self.tables]
        return {"q_value": values, "logit": values[0]}


def learn(model: Tables, **fields: Any) -> dict[str, float]:
    """One update on a step with reward 1 from the first observation, by the first action, to the second one."""
    cfg = {"model": {"obs_shape": 2, "action_shape": 2}, "learn": {"alpha": 1.0, "discount_factor": 0.5}}
    policy = SQNPolicy(deep_merge_dicts(SQNPolicy.default_config(), cfg), model=model)
    step = {"obs": torch.tensor([1.0, 0.0]), "next_obs": torch.tensor([0.0, 1.0]), "action": torch.tensor([0])}
    return policy.learn_mode.forward([{**step, "reward": torch.ones(1), "done": False, **fields}])


def test_the_target_is_the_soft_value_of_the_smaller_one():
    result = learn(Tables([[1.0, 0.0], [1.0, 3.0]], [[2.0, 0.0], [2.0, 2.0]]))
    target = 1 + 0.5 * math.log(math.exp(1) + math.exp(2))
    assert result["q_loss"] == pytest.approx((1 - target) ** 2 + (2 - target) ** 2)
    p = 1 / (1 + math.exp(1))
    assert result["entropy"] == pytest.approx(-p * math.log(p) - (1 - p) * math.log(1 - p))
    assert result["q_value"] == pytest.approx(0.75)
    last = learn(Tables([[1.0, 0.0], [1.0, 3.0]], [[2.0, 0.0], [2.0, 2.0]]), done=True)
    assert last["q_loss"] == pytest.approx((2 - 1) ** 2)


def test_forbidden_actions_do_not_count():
    model = Tables([[1.0, 0.0], [1.0, 9.0]], [[1.0, 0.0], [1.0, 9.0]])
    result = learn(model, next_action_mask=torch.tensor([1.0, 0.0]))
    assert result["q_loss"] == pytest.approx(2 * (1 - 1.5) ** 2)
    assert result["entropy"] == 0


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
