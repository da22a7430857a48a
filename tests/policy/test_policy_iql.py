"""IQL: numbers of DI-engine, the losses of the paper, former configs."""

import math

import pytest
import torch

from ding.model.template.qvac import ContinuousQVAC
from ding.policy import IQLPolicy
from ding.policy.iql import asymmetric_l2_loss
from ding.utils import deep_merge_dicts
from tests.world_model.golden import fill, wave

SMALL = {"actor_head_hidden_size": 8, "critic_head_hidden_size": 8, "actor_head_layer_num": 2}


def make(**overrides):
    own = {"model": {"obs_shape": 4, "action_shape": 2, **SMALL}, **overrides}
    return IQLPolicy(deep_merge_dicts(IQLPolicy.default_config(), own), enable_field=["learn", "collect", "eval"])


def samples():
    return [
        {
            "obs": wave((4,), 0.3 * i), "next_obs": wave((4,), 0.3 * i + 0.2), "action": 0.9 * wave((2,), 0.4 * i),
            "reward": wave((1,), 0.5 + i), "done": i == 3,
        }
        for i in range(4)
    ]  # fmt: skip


def test_the_network_is_that_of_di_engine():
    obs, action = wave((3, 4), 0.1), 0.5 * wave((3, 2), 0.2)
    model = ContinuousQVAC(4, 2, "reparameterization", True, 8, 1, 8, 1)
    fill(model, 0.2)
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    assert shapes["critic_q_head.1.0.weight"] == shapes["critic.1.1.0.weight"] == (8, 6)
    assert shapes["critic_v_head.2.last.weight"] == shapes["critic.2.2.last.weight"] == (1, 8)
    mu, sigma = model(obs, mode="compute_actor")["logit"]
    assert mu[0].tolist() == pytest.approx([-0.172338, -0.0198171], rel=1e-4)
    assert sigma[0].tolist() == pytest.approx([1.31066, 1.11121], rel=1e-4)
    critic = model({"obs": obs, "action": action}, mode="compute_critic")
    assert critic["q_value"][0].tolist() == pytest.approx([-0.0856788, -0.0844231, -0.0874708], rel=1e-4)
    assert critic["q_value"][1].tolist() == pytest.approx([-0.0209704, -0.0292141, -0.025934], rel=1e-4)
    assert critic["v_value"].tolist() == pytest.approx([0.0333845, 0.0677691, 0.0346919], rel=1e-4)
    single = ContinuousQVAC(4, 2, "regression", False, 8, 1, 8, 1)
    fill(single, 0.2)
    critic = single({"obs": obs, "action": action}, mode="compute_critic")
    assert critic["q_value"].tolist() == pytest.approx([0.264875, 0.282982, 0.265167], rel=1e-4)
    assert single(obs, mode="compute_actor")["action"][0].tolist() == pytest.approx([0.264118, 0.105063], rel=1e-4)
    image = ContinuousQVAC((3, 8, 8), 2, "reparameterization", encoder_hidden_size_list=[4, 8], share_encoder=True)
    assert image(torch.zeros(2, 3, 8, 8), mode="compute_value")["v_value"].shape == (2,)


def test_reference_numerics_have_the_first_learn_steps_of_di_engine():
    assert asymmetric_l2_loss(wave((4,), 0.3), 0.7).item() == pytest.approx(0.391135, rel=1e-4)
    policy = make(reference_numerics=True)
    fill(policy.learn_mode.get_attribute("model"), 0.2)
    names = ("q_loss", "v_loss", "policy_loss", "total_loss")
    for expected in (
        (0.489091, 0.0103872, 1.13935, 2.11753),
        (0.487091, 0.0101733, 1.14031, 2.11449),
        (0.485098, 0.00996186, 1.14127, 2.11147),
    ):
        found = policy.learn_mode.forward(samples())
        assert [found[name] for name in names] == pytest.approx(expected, rel=1e-4)
    assert found["policy_grad_norm"] == pytest.approx(1.09049, rel=1e-3)
    weights = policy.learn_mode.get_attribute("model").parameters()
    assert sum(weight.abs().sum().item() for weight in weights) == pytest.approx(105.919, rel=1e-4)
    actions = policy.eval_mode.forward({0: wave((4,), 0.1), 2: wave((4,), 0.4)})
    assert actions[0]["action"].tolist() == pytest.approx([0.111755, 0.0504555], rel=1e-4)
    assert actions[2]["action"].tolist() == pytest.approx([0.109961, 0.0482637], rel=1e-4)


class Table(torch.nn.Module):
    """Values of two states (observations of zeros or ones) and two samples, as parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.q = torch.nn.ParameterList([torch.tensor([2.0, 9.0]), torch.tensor([5.0, 1.0])])
        self.v = torch.nn.ParameterList([torch.tensor([1.0, 2.0]), torch.tensor([3.0, 3.0])])
        self.actor = torch.nn.ParameterList([torch.zeros(2, 1), torch.ones(2, 1)])
        self.critic = torch.nn.ModuleList([self.q, self.v])

    def forward(self, inputs, mode):
        if mode == "compute_actor":
            return {"logit": list(self.actor)}
        if mode == "compute_value":
            return {"v_value": self.v[int(inputs[0, 0])]}
        return {"q_value": list(self.q), "v_value": self.v[int(inputs["obs"][0, 0])]}


def test_the_losses_are_those_of_the_paper():
    # Without steps of the critics, so that the advantages are those before.
    learn = {"discount_factor": 0.5, "tau": 0.8, "beta": 1 / math.log(2), "max_weight": 1.5, "learning_rate_q": 0.0}
    own = {"model": {"obs_shape": 4, "action_shape": 1}, "learn": learn}
    model = Table()
    policy = IQLPolicy(deep_merge_dicts(IQLPolicy.default_config(), own), model=model, enable_field=["learn"])
    # The target network keeps the values that the critics had.
    for critic, value in zip(model.q, (0.0, 1.0)):
        critic.data.fill_(value)
    row = {"obs": torch.zeros(4), "next_obs": torch.ones(4), "reward": 1.0}
    rows = [{**row, "action": torch.tensor([float(done)]), "done": done} for done in (False, True)]
    losses = policy.learn_mode.forward(rows)
    # Advantages 1 and -1 with the shares 0.8 and 0.2.
    assert losses["v_loss"] == pytest.approx(0.5)
    # Targets 1 + 0.5 * 3 and 1; the mean over the critics.
    assert losses["q_loss"] == pytest.approx(((2.5**2 + 1) / 2 + 1.5**2 / 2) / 2)
    # Weights min(2, 1.5) and 0.5; densities of a standard normal at 0 and 1.
    normal = 0.5 * math.log(2 * math.pi)
    assert losses["policy_loss"] == pytest.approx((1.5 * normal + 0.5 * (normal + 0.5)) / 2)


def test_former_configs_load_with_a_warning():
    former = {"expectile": 0.9, "beta": 4.0, "learning_rate_actor": 1e-3, "learning_rate_critic": 2e-3}
    with pytest.warns(UserWarning, match="expectile.*tau=0.9, beta=0.25, learning_rate_q=0.002"):
        policy = make(learn={**former, "learning_rate_value": 5e-3})
    assert policy.cfg.learn.learning_rate_policy == 1e-3
    assert "expectile" not in policy.cfg.learn


def test_files_of_di_engine_have_no_target_network():
    policy, other = make(), make()
    state = {key: value for key, value in policy.learn_mode.state_dict().items() if key != "target_model"}
    other.learn_mode.load_state_dict(state)
    weights = other.learn_mode.state_dict()["target_model"]
    assert all(torch.equal(weights[name], value) for name, value in state["model"].items())


def test_it_collects_around_the_squashed_means():
    policy = make()
    model = policy.learn_mode.get_attribute("model")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "mu" in name or "log_sigma" in name:
                parameter.fill_(-30.0 if "log_sigma" in name and name.endswith("bias") else 0.0)
            if name.endswith("mu.bias"):
                parameter.fill_(0.5)
    obs = {0: torch.zeros(4)}
    drawn = policy.collect_mode.forward(obs)[0]["action"]
    assert drawn.tolist() == pytest.approx([math.tanh(0.5)] * 2, abs=1e-3)
    assert policy.eval_mode.forward(obs)[0]["action"].tolist() == pytest.approx([math.tanh(0.5)] * 2)
