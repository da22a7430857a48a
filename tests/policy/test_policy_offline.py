"""Offline algorithms of continuous actions: golden vectors, exact losses, checkpoints."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.policy import CQLPolicy, IQLPolicy, TD3BCPolicy
from ding.policy.cql import conservative_gaps
from ding.policy.iql import iql_loss
from ding.utils import deep_merge_dicts


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def samples() -> list[dict[str, Any]]:
    return [
        {
            "obs": wave((4,), 0.3 * i),
            "next_obs": wave((4,), 0.3 * i + 0.2),
            "action": 0.9 * wave((2,), 0.4 * i),
            "reward": wave((1,), 0.5 + i),
            "done": i == 3,
        }
        for i in range(4)
    ]


def make(cls: type, **overrides: Any) -> Any:
    torch.manual_seed(0)
    model = {"obs_shape": 4, "action_shape": 2, "actor_head_hidden_size": 64, "critic_head_hidden_size": 64}
    cfg = deep_merge_dicts(cls.default_config(), {"model": model, "reference_numerics": True})
    return cls(deep_merge_dicts(cfg, overrides), enable_field=["learn"])


def fill(policy: Any) -> None:
    for name in ("model", "target_model"):
        with torch.no_grad():
            for parameter in policy.learn_mode.get_attribute(name).parameters():
                parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))
    torch.manual_seed(0)


def size(policy: Any, name: str) -> float:
    return sum(float(one.detach().abs().sum()) for one in policy.learn_mode.get_attribute(name).parameters())


# With all Gaussian draws zero.
GOLDEN: dict[str, Any] = {
    "td3_bc": (
        TD3BCPolicy,
        # Without noise is with noise of zero.
        {"learn": {"noise": False}},
        [
            {"priority": [0.247913, 0.782639, 0.14803, 1.71298], "critic_loss": 0.72289, "q_value": 0.886433},
            {"priority": [0.209327, 0.707432, 0.116438, 1.82003], "actor_loss": -2.16599, "total_loss": -0.739377},
            {"priority": [0.175573, 0.640116, 0.0904405, 1.9219], "total_loss": 1.41401, "q_value": 0.968137},
            {"priority": [0.150453, 0.590231, 0.0731581, 1.99751], "actor_loss": -2.17909, "q_value": 0.99859},
        ],
        (705.238, 698.85),
    ),
    "cql": (
        CQLPolicy,
        {},
        [
            {"priority": [0.247913, 0.782639, 0.14803, 1.71298], "td_error": 0.72289, "alpha": 0.19994,
             "target_q_value": 0.749195, "critic_loss": 5.47592, "twin_critic_loss": 5.47592,
             "policy_loss": -1.07708, "alpha_loss": -5.73255, "total_loss": 4.14221},
            {"td_error": 0.72039, "critic_loss": 5.48139, "policy_loss": -1.09361, "total_loss": 4.09544},
            {"td_error": 0.718255, "critic_loss": 5.49849, "policy_loss": -1.10995, "total_loss": 4.07307},
        ],
        (706.499, 705.418),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_the_first_learn_steps(name, monkeypatch):
    cls, overrides, steps, sizes = GOLDEN[name]
    policy = make(cls, **overrides)
    fill(policy)
    monkeypatch.setattr(torch, "randn", lambda *shape, **kwargs: torch.zeros(*shape, **kwargs))
    for expected in steps:
        found = policy.learn_mode.forward(samples())
        for key, value in expected.items():
            np.testing.assert_allclose(found[key], value, rtol=1e-5, err_msg=key)
    assert (size(policy, "model"), size(policy, "target_model")) == pytest.approx(sizes, rel=1e-5)


def test_the_conservative_gap_of_equal_values_is_the_volume_of_the_actions():
    """Where Q is 3 everywhere and the policy is uniform, ``log E exp Q - Q`` is the logarithm of the volume, ``2^N``,
    times the number of samples.
    """

    def network(inputs, mode):
        if mode == "compute_actor":
            return {"logit": [torch.zeros(len(inputs), 1), torch.full((len(inputs), 1), 1e-3)]}
        return {"q_value": torch.full((len(inputs["action"]),), 3.0)}

    batch = {"obs": torch.zeros(2, 4), "next_obs": torch.zeros(2, 4), "action": torch.zeros(2, 1)}
    (gap,) = conservative_gaps(network, batch, 5)
    # The policy's own actions have high densities: they add little.
    assert math.log(5 * 2) < float(gap) < math.log(5 * 2) + 0.01


def test_the_weight_of_the_conservative_term_is_learned():
    policy = make(CQLPolicy, learn={"with_lagrange": True, "lagrange_thresh": -50.0, "num_actions": 2})
    before = policy.learn_mode.state_dict()["lagrange"]["log_weight"].clone()
    assert np.isfinite(policy.learn_mode.forward(samples())["critic_loss"])
    state = policy.learn_mode.state_dict()
    assert state["lagrange"]["log_weight"] > before
    resumed = make(CQLPolicy, learn={"with_lagrange": True, "lagrange_thresh": -50.0, "num_actions": 2})
    resumed.learn_mode.load_state_dict(state)
    assert torch.equal(resumed.learn_mode.state_dict()["lagrange"]["log_weight"], state["lagrange"]["log_weight"])


def test_the_losses_of_implicit_q_learning():
    def network(inputs, mode):
        if mode == "compute_actor":
            return {"logit": [torch.zeros(2, 1), torch.ones(2, 1)]}
        if mode == "compute_value":
            return {"v_value": torch.tensor([1.0, 2.0]) if inputs[0, 0] == 0 else torch.tensor([3.0, 3.0])}
        return {"q_value": [torch.tensor([0.0, 0.0]), torch.tensor([1.0, 1.0])]}

    def target(inputs, mode):
        return {"q_value": [torch.tensor([2.0, 9.0]), torch.tensor([5.0, 1.0])]}

    batch = {
        "obs": torch.zeros(2, 4), "next_obs": torch.ones(2, 4), "action": torch.tensor([[0.0], [1.0]]),
        "reward": torch.tensor([1.0, 1.0]), "done": torch.tensor([0.0, 1.0]), "weight": None,
    }  # fmt: skip
    loss = iql_loss(network, target, batch, 0.5, 0.8, math.log(2), 1.5)
    # Advantages 1 and -1 with the shares 0.8 and 0.2.
    assert float(loss.value_loss) == pytest.approx(0.5)
    # Targets 1 + 0.5 * 3 and 1.
    assert [float(one) for one in loss.critic.losses] == pytest.approx([(2.5**2 + 1) / 2, 1.5**2 / 2])
    # Weights min(2, 1.5) and 0.5; densities of a standard normal at 0 and 1.
    normal = 0.5 * math.log(2 * math.pi)
    assert float(loss.actor_loss) == pytest.approx((1.5 * normal + 0.5 * (normal + 0.5)) / 2)


@pytest.mark.parametrize("cls", [TD3BCPolicy, CQLPolicy, IQLPolicy])
def test_a_checkpoint_is_gone_on_from(cls):
    policy, resumed = make(cls), make(cls)
    policy.learn_mode.forward(samples())
    resumed.learn_mode.load_state_dict(copy.deepcopy(policy.learn_mode.state_dict()))
    outputs = []
    for one in (policy, resumed):
        torch.manual_seed(1)
        output = one.learn_mode.forward(samples())
        outputs.append([*output.pop("priority"), *output.values()])
    assert outputs[0] == pytest.approx(outputs[1], rel=1e-6)
