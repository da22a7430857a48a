"""Offline algorithms of continuous actions: golden vectors, exact losses, checkpoints."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.model.template import BCQ, EDAC
from ding.policy import BCQPolicy, CQLPolicy, EDACPolicy, IQLPolicy, TD3BCPolicy
from ding.policy.cql import conservative_gaps
from ding.policy.edac import diversity_loss
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
    sizes = [16, 8] if cls is BCQPolicy else 64
    model = {"obs_shape": 4, "action_shape": 2, "actor_head_hidden_size": sizes, "critic_head_hidden_size": sizes}
    model |= {"vae_hidden_dims": [12, 12]} if cls is BCQPolicy else {}
    cfg = deep_merge_dicts(cls.default_config(), {"model": model, "reference_numerics": True})
    return cls(deep_merge_dicts(cfg, overrides), enable_field=["learn", "eval"])


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


@pytest.mark.parametrize("cls", [TD3BCPolicy, CQLPolicy, IQLPolicy, EDACPolicy, BCQPolicy])
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


@pytest.mark.parametrize("eta", [0.1, 0.0])
def test_the_first_learn_steps_of_edac(eta):
    policy = make(EDACPolicy, model={"ensemble_num": 3}, learn={"with_q_entropy": True, "eta": eta})
    fill(policy)
    diversity = [12.2544 - 12.1544, 25.9463 - 25.8463, 6.84675 - 6.74676] if eta else [0, 0, 0]
    steps = [
        {"td_error": 12.1544, "alpha": 0.9997, "policy_loss": 0.39474},
        {"td_error": 25.8464, "alpha": 0.9994, "policy_loss": 0.438172, "alpha_loss": -0.000498472},
        {"td_error": 6.74676, "alpha": 0.999112, "policy_loss": -1.39376, "alpha_loss": -0.00209592},
    ]
    for expected, more in zip(steps, diversity):
        found = policy.learn_mode.forward(samples())
        # The sum over the members there, their mean here.
        error = expected.pop("td_error")
        assert 3 * found["td_error"] == pytest.approx(error, rel=1e-5)
        assert found["critic_loss"] == pytest.approx(error + more, rel=1e-5)
        for key, value in expected.items():
            assert found[key] == pytest.approx(value, rel=2e-4), key
    assert (size(policy, "model"), size(policy, "target_model")) == pytest.approx((313.042, 314.637), rel=1e-5)


@pytest.mark.parametrize("dims", [1, 2])
def test_gradients_of_critics_can_be_kept_apart_from_two_dimensions_on(dims):
    torch.manual_seed(0)
    model = EDAC(4, dims, 3, 8, critic_head_hidden_size=8)
    diversity_loss(model, wave((2, 4), 0.1), wave((2, dims), 0.3), 3).backward()
    moved = max(
        float(parameter.grad.abs().max()) for parameter in model.critic.parameters() if parameter.grad is not None
    )
    assert moved < 1e-6 if dims == 1 else moved > 1e-3


def test_members_of_an_ensemble_see_rows_of_their_own():
    torch.manual_seed(0)
    model = EDAC(4, 2, 3, 8, critic_head_hidden_size=8)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))
    inputs = {"obs": wave((2, 4), 0.1), "action": wave((2, 2), 0.3)}
    np.testing.assert_allclose(
        model(inputs, "compute_critic")["q_value"].flatten().detach(),
        [-0.1, -0.1, 0.00745955, 0.00126288, 0.294775, 0.127773], rtol=1e-4,
    )  # fmt: skip
    inputs = {"obs": wave((3, 2, 4), 0.1), "action": wave((3, 2, 2), 0.3)}
    np.testing.assert_allclose(
        model(inputs, "compute_critic")["q_value"].flatten().detach(),
        [-0.1, -0.1, 0.00268326, -0.00122327, 0.117317, 0.277566], rtol=1e-4,
    )  # fmt: skip


def test_the_first_learn_steps_of_bcq():
    """The original perturbs all dimensions alike, and regresses each sample to the targets of the whole batch: what
    does not depend on that is equal.
    """
    policy = make(BCQPolicy)
    for name in ("model", "target_model"):
        policy.learn_mode.get_attribute(name).actor[-1] = torch.nn.Linear(8, 1)
    fill(policy)
    steps = [
        {"recons_loss": 0.429913, "kld_loss": 0.0283234, "vae_loss": 0.444074, "target_q_value": -0.057715},
        {"recons_loss": 0.42884, "kld_loss": 0.0280329, "vae_loss": 0.442856},
        {"recons_loss": 0.427482, "kld_loss": 0.0277461, "vae_loss": 0.441355},
    ]
    for expected in steps:
        found = policy.learn_mode.forward(samples())
        for key, value in expected.items():
            assert found[key] == pytest.approx(value, rel=1e-5), key


def test_the_network_of_bcq_predicts_what_the_original_one_predicts():
    model = BCQ(4, 2, [16, 8], [16, 8], vae_hidden_dims=[12, 12])
    model.actor[-1] = torch.nn.Linear(8, 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))
    inputs = {"obs": wave((2, 4), 0.1), "action": wave((2, 2), 0.3)}
    np.testing.assert_allclose(
        model(inputs, "compute_actor")["action"].flatten().detach(), [0.293053, 0.839003, 0.987798, 0.671597], rtol=1e-5
    )
    for value in model(inputs, "compute_critic")["q_value"]:
        np.testing.assert_allclose(value.detach(), [-0.0493921, -0.0774831], rtol=1e-5)
    found = model.vae.decode_with_obs(wave((2, 4), 0.2), inputs["obs"])["reconstruction_action"]
    np.testing.assert_allclose(found.flatten().detach(), [-0.107252, 0.136284, -0.105463, 0.128133], rtol=1e-5)
    torch.manual_seed(0)
    best = model({"obs": inputs["obs"]}, "compute_eval")["action"]
    np.testing.assert_allclose(best.flatten().detach(), [-0.109751, 0.131651, -0.109244, 0.123813], rtol=1e-5)
    assert model({"obs": inputs["obs"][:1]}, "compute_eval")["action"].shape == (1, 2)
