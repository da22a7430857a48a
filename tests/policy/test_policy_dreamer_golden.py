"""Dreamer's updates and actions against DI-engine's numbers, in its world model."""

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.data import EnvBatch
from ding.policy import create_policy, get_policy_cls
from ding.utils import deep_merge_dicts
from ding.world_model import create_world_model
from tests.world_model.golden import fill, wave
from tests.world_model.test_world_dreamer import Sequences

SIZES = {"dyn_stoch": 2, "dyn_deter": 4, "dyn_discrete": 3, "units": 8}
GOLDEN = {
    "continuous": (
        {
            "normed_target_mean": -0.118775, "normed_target_std": 0.0219133, "EMA_005": -0.00144732,
            "EMA_095": -0.00092275, "actor_entropy": 0.000823435, "value_mean": -0.0426319, "target_mean": -0.120223,
            "imag_reward_mean": -0.0634452, "imag_action_mean": 0.451314, "imag_action_std": 0.235556,
            "actor_ent": 2.74478, "actor_grad_norm": 2.48877e-05, "critic_grad_norm": 2.99724, "critic_loss": 8.4986,
            "actor_loss": 0.0591591,
        },
        {"critic_loss": 8.5017, "actor_loss": 0.0589247, "value_mean": -0.0426167, "target_mean": -0.119915},
        {"critic_loss": 8.50496, "actor_loss": 0.0586898, "value_mean": -0.0426014, "target_mean": -0.119606},
        859.217,
    ),
    "discrete": (
        {
            "normed_target_mean": -0.118782, "actor_entropy": 0.000194654, "value_mean": -0.0426308,
            "imag_action_mean": 0.5, "imag_action_std": 0.505291, "actor_ent": 0.648849,
            "actor_grad_norm": 6.39446e-05, "critic_grad_norm": 2.99613, "critic_loss": 8.49854,
            "actor_loss": 0.0596111,
        },
        {},
        {"critic_loss": 8.50489, "actor_loss": 0.0591417},
        853.535,
    ),
}  # fmt: skip


@pytest.fixture
def modes(monkeypatch):
    """Draws are modes."""
    module = "ding.torch_utils.network.dreamer"
    monkeypatch.setattr(f"{module}.OneHotDist.sample", lambda self, sample_shape=(), seed=None: self.mode())
    monkeypatch.setattr(f"{module}.ContDist.sample", lambda self, sample_shape=(): self.mean)


def make(kind):
    vector = {"obs_type": "vector", "action_type": kind, "state_size": 4, "action_size": 2, "dyn_hidden": 5}
    own = {**SIZES, **vector, "encoder_hidden_size_list": [8, 6], "kl_free": 0.0, "reference_numerics": True}
    world = create_world_model({"type": "dreamer", "cuda": False, "model": own}, None)
    actor = {"action_shape": 2, "actor_dist": "normal" if kind == "continuous" else "onehot"}
    given = {"type": "dreamer", "imag_horizon": 4, "model": {**SIZES, **actor, "reference_numerics": True}}
    default = get_policy_cls(EasyDict(type="dreamer")).default_config()
    policy = create_policy(EasyDict(deep_merge_dicts(default, given)))
    for module in (world, policy.learn_mode.get_attribute("model")):
        fill(module, 0.5)
    state = policy.learn_mode.state_dict()
    policy.learn_mode.load_state_dict(
        {key: state[key] for key in ("model", "optimizer_value", "optimizer_actor")}
    )  # the slow critic becomes the critic
    return policy, world


def learn(policy, world, kind, count):
    found = []
    for _ in range(count):
        post, _ = world.train(Sequences(kind == "discrete"), 0, 0, 2, 3)
        found.append(policy.learn_mode.forward(post, world_model=world, envstep=0))
    return found


@pytest.mark.usefixtures("modes")
@pytest.mark.parametrize("kind", GOLDEN)
def test_updates_and_actions_are_those_of_di_engine(kind):
    policy, world = make(kind)
    *steps, total = GOLDEN[kind]
    for found, expected in zip(learn(policy, world, kind, 3), steps, strict=True):
        norms = {name for name in expected if name.endswith("norm")}
        assert {name: found[name] for name in expected} == {
            name: pytest.approx(value, rel=1e-3 if name in norms else 1e-4) for name, value in expected.items()
        }
    state = policy.learn_mode.state_dict()
    assert sum(value.abs().sum().item() for value in state["model"].values()) == pytest.approx(total, rel=1e-5)
    if kind == "continuous":
        slow = sum(value.abs().sum().item() for value in state["slow_value"].values())
        assert slow == pytest.approx(791.435, rel=1e-5)
    data = EnvBatch(np.array([0, 2]), torch.stack([wave((4,), 0.1), wave((4,), 0.5)]).numpy())
    found = policy.collect_mode.forward(data, world_model=world, envstep=0)
    actions, log_prob = found.columns["action"].tolist(), found.columns["logprob"][0].item()
    if kind == "discrete":
        assert (actions, log_prob) == ([[1], [1]], pytest.approx(-0.434567, rel=1e-4))
        return
    assert (actions, log_prob) == (
        [pytest.approx([0.218814, 0.684652], rel=1e-4)] * 2,
        pytest.approx(-1.74486, rel=1e-4),
    )
    states = [found[env_id]["state"] for env_id in (0, 2)]
    again = policy.collect_mode.forward(data, world_model=world, envstep=0, reset=np.array([1, 0]), state=states)
    assert again.columns["action"].tolist() == [
        pytest.approx([0.218814, 0.684652], rel=1e-4),
        pytest.approx([0.218602, 0.684515], rel=1e-4),
    ]
