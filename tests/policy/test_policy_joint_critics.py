"""MADDPG and MASAC: critics of the actions of all agents, beside numpy; compiled and batched updates."""

import copy

import numpy as np
import pytest
import torch

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch, TransitionBatch
from ding.model import create_model
from ding.policy import MADDPGPolicy, MASACPolicy
from ding.utils import deep_merge_dicts

GAMMA, AGENTS = 0.9, 3
MODEL = {
    "agent_num": AGENTS, "agent_obs_shape": 4, "global_obs_shape": 5, "action_shape": 2,
    "actor_head_hidden_size": 8, "critic_head_hidden_size": 6,
}  # fmt: skip
BATCH_SIZE = 4


def observation(rng, count=BATCH_SIZE):
    return {
        "agent_state": torch.from_numpy(rng.normal(size=(count, AGENTS, 4)).astype(np.float32)),
        "global_state": torch.from_numpy(rng.normal(size=(count, 5)).astype(np.float32)),
    }


def batch():
    rng = np.random.default_rng(0)
    action = torch.from_numpy(rng.uniform(-1, 1, (BATCH_SIZE, AGENTS, 2)).astype(np.float32))
    return TransitionBatch(
        {
            "obs": observation(rng),
            "next_obs": observation(rng),
            "action": action,
            "reward": torch.tensor([[1.5], [-0.7], [0.2], [0.9]]),
            "done": np.array([False, True, False, False]),
        }
    )


def make(cls, rate=0.0, **learn):
    torch.manual_seed(0)
    defaults = cls.default_config()
    rates = [f"learning_rate_{part}" for part in ("q", "policy", "alpha", "actor", "critic")]
    fixed = {key: rate for key in rates if key in defaults.learn} | {"discount_factor": GAMMA}
    fixed |= {"init_w": 0.3} if "init_w" in defaults.learn else {}
    return cls(deep_merge_dicts(defaults, {"model": MODEL, "learn": {**fixed, **learn}}))


def learn(policy, samples):
    torch.manual_seed(5)
    return policy.learn_mode.forward(samples)


def moved_target(policy):
    target = policy.learn_mode.get_attribute("target_model")
    with torch.no_grad():
        for parameter in target.parameters():
            parameter.mul_(1.4)
    return copy.deepcopy(target)


def q_of(critic, state, own, others):
    """``Q_i`` of each agent, ``[B, A]``, by the weights of one critic."""
    weights = {name: value.double().numpy() for name, value in critic.state_dict().items()}
    found = np.empty(own.shape[:2])
    for agent in range(AGENTS):
        behind = [others[:, (agent + step) % AGENTS] for step in range(1, AGENTS)]
        which = np.tile(np.eye(AGENTS)[agent], (len(own), 1))
        x = np.concatenate([state, which, own[:, agent], *behind], 1)
        x = np.maximum(x @ weights["0.weight"].T + weights["0.bias"], 0)
        x = np.maximum(x @ weights["2.main.0.weight"].T + weights["2.main.0.bias"], 0)
        found[:, agent] = (x @ weights["2.last.weight"].T + weights["2.last.bias"])[:, 0]
    return found


def actor(network, obs, key):
    with torch.no_grad():
        return network(obs, mode="compute_actor")[key]


def test_maddpg_judges_the_actions_of_all_agents():
    policy, samples = make(MADDPGPolicy), batch()
    columns, model, target_model = samples.columns, policy.learn_mode.get_attribute("model"), moved_target(policy)
    found = learn(policy, samples)
    shown = columns["action"].double().numpy()
    state, next_state = (columns[key]["global_state"].double().numpy() for key in ("obs", "next_obs"))
    next_action = actor(target_model.forward, columns["next_obs"], "action").double().numpy()
    target_critic = target_model.critic
    next_q = q_of(target_critic, next_state, next_action, next_action)
    target = columns["reward"].double().numpy() + GAMMA * (1 - np.array([0, 1, 0, 0]))[:, None] * next_q
    errors = q_of(model.critic, state, shown, shown) - target
    assert found["critic_loss"] == pytest.approx((errors**2).mean(), rel=1e-5)
    assert found["priority"] == pytest.approx(np.abs(errors).mean(1), rel=1e-5)
    own = actor(model, columns["obs"], "action").double().numpy()
    assert found["actor_loss"] == pytest.approx(-q_of(model.critic, state, own, shown).mean(), rel=1e-5)


def test_masac_draws_the_actions_of_all_agents():
    policy, samples = make(MASACPolicy, alpha=0.5), batch()
    columns, model, target_model = samples.columns, policy.learn_mode.get_attribute("model"), moved_target(policy)
    found = learn(policy, samples)
    torch.manual_seed(5)

    def drawn(obs):
        mu, sigma = (part.double().numpy() for part in actor(model, obs, "logit"))
        noise = torch.randn(mu.shape).double().numpy()
        action = np.tanh(mu + sigma * noise)
        density = -0.5 * noise**2 - np.log(sigma) - 0.5 * np.log(2 * np.pi) - np.log(1 - action**2)
        return action, density.sum(-1)

    shown = columns["action"].double().numpy()
    state, next_state = (columns[key]["global_state"].double().numpy() for key in ("obs", "next_obs"))
    next_action, log_prob = drawn(columns["next_obs"])
    next_q = np.min([q_of(critic, next_state, next_action, next_action) for critic in target_model.critic], 0)
    target = columns["reward"].double().numpy() + GAMMA * np.array([1, 0, 1, 1])[:, None] * (next_q - 0.5 * log_prob)
    for critic, name in zip(model.critic, ("critic_loss", "twin_critic_loss")):
        assert found[name] == pytest.approx(((q_of(critic, state, shown, shown) - target) ** 2).mean(), rel=1e-4)
    action, log_prob = drawn(columns["obs"])
    q = np.min([q_of(critic, state, action, action) for critic in model.critic], 0)
    assert found["policy_loss"] == pytest.approx((0.5 * log_prob - q).mean(), rel=1e-4)


def test_an_agent_learns_by_its_own_action_alone():
    torch.manual_seed(0)
    model = create_model({"type": "joint_maqac", **MODEL, "action_space": "regression"})
    obs = observation(np.random.default_rng(1))
    action = torch.zeros(BATCH_SIZE, AGENTS, 2, requires_grad=True)
    q = model({"obs": obs, "action": action, "others": action.detach()}, mode="compute_critic")["q_value"]
    (gradient,) = torch.autograd.grad(q[:, 0].sum(), action, retain_graph=True)
    assert gradient[:, 0].abs().min() > 0
    assert gradient[:, 1:].abs().max() == 0
    seen = {**obs, "global_state": obs["global_state"].unsqueeze(1).expand(-1, AGENTS, -1)}
    again = model({"obs": seen, "action": action}, mode="compute_critic")["q_value"]
    torch.testing.assert_close(again, q)


def test_masac_starts_with_small_means():
    model = make(MASACPolicy, init_w=1e-3).learn_mode.get_attribute("model")
    mu, sigma = actor(model, observation(np.random.default_rng(0)), "logit")
    assert mu.abs().max() < 0.02
    assert (sigma - 1).abs().max() < 0.02


@pytest.mark.parametrize("cls", [MADDPGPolicy, MASACPolicy])
def test_recorded_and_resumed_updates_are_those_of_the_policy(cls):
    eager, recorded, resumed, samples = make(cls, 1e-3), make(cls, 1e-3, compile="record"), make(cls, 1e-3), batch()
    for _ in range(2):
        expected, found = learn(eager, samples), learn(recorded, samples)
        expected.pop("priority"), found.pop("priority")
        assert found == {key: pytest.approx(value, rel=1e-4, abs=1e-5) for key, value in expected.items()}
    assert recorded.learn_mode.get_attribute("compiled_updates").graphs.num_compiled == 1
    resumed.learn_mode.load_state_dict(copy.deepcopy(eager.learn_mode.state_dict()))
    assert learn(resumed, samples) == learn(eager, samples)


@pytest.mark.parametrize("cls", [MADDPGPolicy, MASACPolicy])
def test_what_is_collected_is_learned_from(cls):
    policy, rng = make(cls), np.random.default_rng(2)
    obs = observation(rng, 2)
    torch.manual_seed(1)
    output = policy.collect_mode.forward(EnvBatch(np.arange(2), obs))
    action = output.columns["action"]
    assert tuple(action.shape) == (2, AGENTS, 2)
    assert action.abs().max() <= 1
    torch.manual_seed(1)
    rows = policy.collect_mode.forward({i: {key: value[i] for key, value in obs.items()} for i in range(2)})
    assert all(torch.allclose(torch.as_tensor(rows[i]["action"]), action[i]) for i in range(2))
    reward = np.ones((2, 1), np.float32)
    step = TimestepBatch(np.arange(2), observation(rng, 2), reward, np.array([True, True]), np.array([True, False]), {})
    columns = policy.collect_mode.process_transition(obs, output.columns, step)
    assert list(columns["done"]) == [False, True]
    samples = policy.collect_mode.get_train_sample(TransitionBatch(columns))
    assert np.isfinite(learn(policy, samples)["total_loss"])
    single = BaseEnvTimestep({key: value[0] for key, value in step.obs.items()}, reward[0], True, {})
    assert policy.collect_mode.process_transition(obs, rows[0], single)["done"] is True
