"""TD3-VAE: learn steps against DI-engine's numbers, acting through the latent space, its pipeline."""

import pytest
import torch

from ding.data import TransitionBatch
from ding.policy import PolicyConfigError, TD3VAEPolicy
from ding.utils import deep_merge_dicts, set_pkg_seed
from tests.world_model.golden import wave


def samples(**marks):
    return [
        {
            "obs": wave((4,), 0.3 * i), "next_obs": wave((4,), 0.3 * i + 0.2), "action": 0.9 * wave((2,), 0.4 * i),
            "latent_action": 0.9 * wave((6,), 0.4 * i), "reward": wave((1,), 0.5 + i), "done": i == 3, **marks,
        }
        for i in range(4)
    ]  # fmt: skip


def make(latent=6, **learn):
    set_pkg_seed(0, use_cuda=False)
    own = {
        "reference_numerics": True,
        "model": {"obs_shape": 4, "action_shape": latent},
        "learn": {"noise": False, "learning_rate_vae": 1e-3, **learn},
    }
    return TD3VAEPolicy(deep_merge_dicts(TD3VAEPolicy.default_config(), own))


def filled(policy):
    parts = [policy.learn_mode.get_attribute(name) for name in ("model", "target_model", "vae_model")]
    with torch.no_grad():
        for parameter in (parameter for part in parts for parameter in part.parameters()):
            parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))
    set_pkg_seed(0, use_cuda=False)
    return policy


NAMES = ("vae_loss", "reconstruction_loss", "kld_loss", "predict_loss")
VAE_STEPS = [
    [1.21081, 0.413104, 20.7192, 59.0512],
    [1.00454, 0.386047, 18.0534, 43.7955],
    [0.857054, 0.34786, 16.0138, 34.9057],
]
RL_STEPS = [
    {"critic_loss": 0.480659, "actor_loss": -0.8067, "total_loss": 0.154619, "q_value": 0.605295, "action": 0.620779},
    {"critic_loss": 0.760529, "total_loss": 1.52106, "q_value": 0.708389, "td_error": 0.760529},
    {"critic_loss": 0.589468, "actor_loss": -0.915243, "total_loss": 0.263693, "q_value": 0.702881},
]


def test_td3_learns_as_in_di_engine():
    policy = filled(make())
    for expected in RL_STEPS:
        found = policy.learn_mode.forward(samples(vae_phase=False))
        assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-4)
        assert ("actor_loss" in found) == ("actor_loss" in expected)
    weights = policy.learn_mode.get_attribute("model").parameters()
    assert sum(weight.abs().sum().item() for weight in weights) == pytest.approx(745.782, rel=1e-5)


@pytest.mark.parametrize("compile", [False, "record"])
@pytest.mark.parametrize("mark", ["warm_up", "vae_phase"])
def test_the_autoencoder_learns_as_in_di_engine(mark, compile):
    policy = filled(make(compile=compile))
    before = policy.learn_mode.state_dict()["latent_space"]["low"].clone()
    for expected in VAE_STEPS:
        found = policy.learn_mode.forward(TransitionBatch.from_rows(samples(**{mark: True})))
        assert [found[name] for name in NAMES] == pytest.approx(expected, rel=1e-4)
    state = policy.learn_mode.state_dict()["latent_space"]
    losses = [step[3] for step in VAE_STEPS] if mark == "warm_up" else [0.0]
    assert state["predict_loss"].item() == pytest.approx(sum(losses) / len(losses), rel=1e-3)
    assert torch.equal(state["low"], before) == (mark == "warm_up")
    assert (state["low"] <= state["high"]).all()


def test_samples_that_the_autoencoder_explains_keep_their_latent_actions():
    losses = []
    for explains in (False, True):
        policy = filled(make())
        if explains:
            state = policy.learn_mode.state_dict()
            state["latent_space"]["predict_loss"].fill_(1000.0)
            policy.learn_mode.load_state_dict(state)
        losses.append(policy.learn_mode.forward(samples())["critic_loss"])
    assert losses[0] == pytest.approx(0.480659, rel=1e-4)
    assert losses[1] != pytest.approx(0.480659, rel=1e-2)


@pytest.mark.parametrize("latent", [3, 8])
def test_latent_actions_of_any_size_are_decoded_within_the_bounds(latent):
    policy = make(latent)
    state = policy.learn_mode.state_dict()
    state["latent_space"]["low"].fill_(0.1)
    state["latent_space"]["high"].fill_(0.2)
    policy.collect_mode.load_state_dict(state)
    obs = {3: wave((4,), 0.1), 5: wave((4,), 0.2)}
    for mode in (policy.collect_mode, policy.eval_mode):
        output = mode.forward(obs)
        assert output[5]["action"].shape == (2,)
        assert ((output[5]["latent_action"] >= 0.1) & (output[5]["latent_action"] <= 0.2)).all()
    # What evaluates by a checkpoint of the learner decodes as the learner does.
    other = make(latent)
    assert not torch.equal(other.eval_mode.forward(obs)[3]["action"], policy.eval_mode.forward(obs)[3]["action"])
    other.eval_mode.load_state_dict(state)
    assert torch.equal(other.eval_mode.forward(obs)[3]["action"], policy.eval_mode.forward(obs)[3]["action"])


def test_it_needs_vectors():
    model = {"obs_shape": [3, 4, 4], "action_shape": 2, "encoder_hidden_size_list": [4]}
    with pytest.raises(PolicyConfigError, match="obs_shape"):
        TD3VAEPolicy(deep_merge_dicts(TD3VAEPolicy.default_config(), {"model": model}))
