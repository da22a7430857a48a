"""TQC, REDQ, DroQ, CrossQ and SimBa's networks: their updates and layers beside numpy."""

import copy

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.model import create_model
from ding.policy import CrossQPolicy, DroQPolicy, PolicyConfigError, REDQPolicy, SACPolicy, TQCPolicy
from ding.torch_utils.network.normalization import BatchRenorm, RunningNorm
from ding.utils import deep_merge_dicts

GAMMA, ALPHA = 0.9, 0.5
SMALL = {"obs_shape": 3, "action_shape": 2, "actor_head_hidden_size": 8, "critic_head_hidden_size": 6}
RAW = {
    "obs": [[0.3, -1.0, 0.5], [0.9, 0.1, -0.4]],
    "next_obs": [[-0.2, 0.8, 1.1], [0.4, -0.7, 0.6]],
    "action": [[0.5, -0.9], [-0.1, 0.2]],
    "reward": [[1.5], [-0.7]],
}
BATCH = TransitionBatch({**{key: torch.tensor(value) for key, value in RAW.items()}, "done": np.array([False, True])})


def make(cls, learning_rate=0.0, **overrides):
    torch.manual_seed(0)
    rates = {f"learning_rate_{part}": learning_rate for part in ("q", "policy", "alpha")}
    fixed = {"learn": {**rates, "alpha": ALPHA, "discount_factor": GAMMA, "actor_update_freq": 1, "init_w": 0.3}}
    cfg = deep_merge_dicts(cls.default_config(), deep_merge_dicts({"model": SMALL}, fixed))
    return cls(deep_merge_dicts(cfg, overrides), enable_field=["learn"])


def learn(policy, seed=5):
    torch.manual_seed(seed)
    return policy.learn_mode.forward(BATCH)


def network(policy):
    return policy.learn_mode.get_attribute("model")


def drawn(model, obs):
    """Actions and log-probabilities of the normal distribution squashed by tanh, by the draws of torch."""
    with torch.no_grad():
        mu, sigma = (part.double().numpy() for part in model(obs, mode="compute_actor")["logit"])
    noise = torch.randn(mu.shape).double().numpy()
    action = np.tanh(mu + sigma * noise)
    density = -0.5 * noise**2 - np.log(sigma) - 0.5 * np.log(2 * np.pi) - np.log(1 - action**2)
    return torch.tensor(action, dtype=torch.float32), density.sum(-1)


def critics(model, obs, action, key="q_value"):
    with torch.no_grad():
        return model({"obs": obs, "action": action}, mode="compute_critic")[key].double().numpy()


def test_tqc_regresses_quantiles_to_the_smallest_of_all_critics():
    policy = make(TQCPolicy, model={"ensemble_num": 3, "num_quantiles": 4}, learn={"top_quantiles_to_drop": 1})
    model, obs, next_obs = network(policy), BATCH.columns["obs"], BATCH.columns["next_obs"]
    target_model = policy.learn_mode.get_attribute("target_model")
    with torch.no_grad():  # quantiles that are apart from those of the target network
        for parameter in target_model.parameters():
            parameter.mul_(1.7)
    target_model = copy.deepcopy(target_model)
    found = learn(policy)
    torch.manual_seed(5)
    next_action, log_prob = drawn(model, next_obs)
    atoms = critics(target_model.forward, next_obs, next_action, "quantiles")
    kept = np.sort(atoms.transpose(1, 0, 2).reshape(2, 12), axis=1)[:, :9]
    not_done = np.array([1.0, 0.0])
    reward = np.array(RAW["reward"])
    target = reward + GAMMA * not_done[:, None] * (kept - ALPHA * log_prob[:, None])
    quantiles = critics(model, obs, BATCH.columns["action"], "quantiles")
    loss = 0.0
    for critic in range(3):
        pairs = []
        for row in range(2):
            for index, fraction in enumerate((0.125, 0.375, 0.625, 0.875)):
                for wanted in target[row]:
                    gap = wanted - quantiles[critic, row, index]
                    huber = 0.5 * gap**2 if abs(gap) <= 1 else abs(gap) - 0.5
                    pairs.append(abs(fraction - (gap < 0)) * huber)
        loss += np.mean(pairs)
    assert found["critic_loss"] == pytest.approx(loss, rel=1e-5)
    action, log_prob = drawn(model, obs)
    q = critics(model, obs, action, "quantiles").mean((0, 2))
    assert found["policy_loss"] == pytest.approx((ALPHA * log_prob - q).mean(), rel=1e-5)


def test_tqc_has_to_keep_a_quantile():
    with pytest.raises(PolicyConfigError, match="top_quantiles_to_drop must be at least 0 and less than the 4"):
        make(TQCPolicy, model={"num_quantiles": 4}, learn={"top_quantiles_to_drop": 4})


def test_redq_takes_the_smallest_of_a_random_subset():
    policy = make(REDQPolicy, model={"ensemble_num": 5}, learn={"target_subset": 2})
    model, obs, next_obs = network(policy), BATCH.columns["obs"], BATCH.columns["next_obs"]
    losses = set()
    for seed in (5, 6, 7):
        found = learn(policy, seed)
        torch.manual_seed(seed)
        next_action, log_prob = drawn(model, next_obs)
        subset = torch.randperm(5)[:2].numpy()
        next_q = critics(model, next_obs, next_action)[subset].min(0)
        target = np.array(RAW["reward"])[:, 0] + GAMMA * np.array([1, 0]) * (next_q - ALPHA * log_prob)
        q = critics(model, obs, BATCH.columns["action"])
        assert found["critic_loss"] == pytest.approx(((q - target) ** 2).mean(1).sum(), rel=1e-5)
        action, log_prob = drawn(model, obs)
        mean = critics(model, obs, action).mean(0)
        assert found["policy_loss"] == pytest.approx((ALPHA * log_prob - mean).mean(), rel=1e-5)
        losses.add(tuple(subset))
    assert len(losses) > 1


@pytest.mark.parametrize("cls", [REDQPolicy, DroQPolicy, CrossQPolicy])
def test_the_actor_has_its_turn_at_every_third_update_also_after_a_resume(cls):
    policy = make(cls, 1e-3, learn={"actor_update_freq": 3})
    assert "policy_loss" not in learn(policy)
    assert "policy_loss" not in learn(policy)
    other = make(cls, 1e-3, learn={"actor_update_freq": 3})
    other.learn_mode.load_state_dict(copy.deepcopy(policy.learn_mode.state_dict()))
    found, expected = learn(other), learn(policy)
    assert "alpha_loss" in found
    assert found == expected


def test_droq_drops_out_before_it_normalises():
    model = create_model({"type": "ensemble_qac", **SMALL, "norm_type": "LN", "dropout": 0.4, "ensemble_num": 2})
    inputs = {key: torch.tensor(RAW[key]) for key in ("obs", "action")}
    torch.manual_seed(3)
    found = critics(model, **inputs)
    torch.manual_seed(3)
    masks = [torch.empty(2, 2, 6).bernoulli_(0.6).numpy() for _ in range(2)]
    weights = {name: value.double().numpy() for name, value in model.critic.state_dict().items()}
    rows = np.concatenate([RAW["obs"], RAW["action"]], axis=1)
    for member in range(2):
        x = rows
        for layer, mask in enumerate(masks):
            part = slice(6 * member, 6 * member + 6)
            x = x @ weights[f"head.pred.{layer}.0.weight"][part, :, 0].T + weights[f"head.pred.{layer}.0.bias"][part]
            x = x * mask[member] / 0.6
            x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
            scale, shift = (weights[f"head.pred.{layer}.2.{name}"][part] for name in ("weight", "bias"))
            x = np.maximum(x * scale + shift, 0)
        q = x @ weights["head.pred.2.0.weight"][member, :, 0] + weights["head.pred.2.0.bias"][member]
        np.testing.assert_allclose(found[member], q, rtol=1e-4, atol=1e-5)
    model.eval()
    np.testing.assert_array_equal(critics(model, **inputs), critics(model, **inputs))
    assert not np.allclose(critics(model, **inputs), found)


def test_droq_draws_masks_for_the_target_network_too():
    policy = make(DroQPolicy, model={"dropout": 0.5})
    target = policy.learn_mode.get_attribute("target_model")
    inputs = {key: torch.tensor(RAW[key]) for key in ("obs", "action")}
    assert not np.allclose(critics(target.forward, **inputs), critics(target.forward, **inputs))


# What the class of this name in sbx 0.28.0 gave, whose `d` is of a deviation without `eps`.
SBX_ROWS = [
    (-0.272149, 1.120400, 0.957965),
    (-0.273776, 1.120493, 0.957969),
    (2.048146, 4.686731, 3.092813),
    (2.960064, 4.599610, 3.069496),
]


def test_batch_renormalisation_is_that_of_sbx():
    norm = BatchRenorm(3, momentum=0.1, warmup_steps=2)
    x = torch.sin(torch.arange(12.0)).view(4, 3) * torch.tensor([1.0, 3.0, 10.0])
    rows = [norm(x * (1 + i) + i).detach()[0].numpy() for i in range(4)]
    np.testing.assert_allclose(rows, SBX_ROWS, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(norm.running_mean, [0.622946, 0.695129, 0.424679], rtol=1e-5)
    np.testing.assert_allclose(norm.running_var, [0.830889, 13.278618, 261.99673], rtol=1e-5)
    norm.eval()
    np.testing.assert_allclose(norm(x).detach()[0], [-0.682995, 0.501982, 0.535531], rtol=1e-5)
    assert norm.num_batches_tracked == 4


def _renormed(weights, name, x):
    mean, var = x.mean(0), x.var(0)
    return (x - mean) / np.sqrt(var + 1e-3) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def test_crossq_learns_from_one_pass_over_both_states():
    policy = make(CrossQPolicy, model={"critic_head_layer_num": 1})
    model, obs, next_obs = network(policy), BATCH.columns["obs"], BATCH.columns["next_obs"]
    learn(policy)  # statistics that are not those of the start
    before = copy.deepcopy(model)
    found = learn(policy)
    torch.manual_seed(5)
    next_action, log_prob = drawn(before.eval(), next_obs)
    rows = torch.cat([torch.cat([obs, BATCH.columns["action"]], 1), torch.cat([next_obs, next_action], 1)]).numpy()
    weights = {name: value.double().numpy() for name, value in before.critic.state_dict().items()}
    values = []
    for member in range(2):
        own = {
            name: value[len(value) // 2 * member :][: len(value) // 2] for name, value in weights.items() if value.ndim
        }
        x = _renormed(own, "head.input_norm", rows.astype(np.float64))
        x = np.maximum(x @ own["head.pred.0.0.weight"][:, :, 0].T + own["head.pred.0.0.bias"], 0)
        x = _renormed(own, "head.pred.0.2", x)
        values.append((x @ own["head.pred.1.0.weight"][:, :, 0].T + own["head.pred.1.0.bias"])[:, 0])
    q, next_q = np.split(np.array(values), 2, axis=1)
    target = np.array(RAW["reward"])[:, 0] + GAMMA * np.array([1, 0]) * (next_q.min(0) - ALPHA * log_prob)
    assert found["critic_loss"] == pytest.approx(((q - target) ** 2).mean(1).sum(), rel=1e-4)
    moved = 0.99 * weights["head.input_norm.running_mean"] + 0.01 * np.tile(rows.mean(0), 2)
    np.testing.assert_allclose(model.critic["head"].input_norm.running_mean, moved, rtol=1e-4, atol=1e-6)


def test_checkpoints_of_crossq_have_the_statistics_and_no_target_network():
    policy = make(CrossQPolicy, 1e-3)
    for _ in range(3):
        learn(policy)
    state = copy.deepcopy(policy.learn_mode.state_dict())
    assert list(state) == ["model", "optimizer_q", "optimizer_policy", "optimizer_alpha", "alpha"]
    assert state["model"]["actor.head.0.num_batches_tracked"] == 3
    assert state["model"]["actor.head.0.running_mean"].abs().min() > 0
    other = make(CrossQPolicy, 1e-3)
    other.learn_mode.load_state_dict(state)
    assert learn(other) == learn(policy)
    for name, value in other.learn_mode.state_dict()["model"].items():
        assert torch.equal(value, policy.learn_mode.state_dict()["model"][name]), name


def test_running_normalisation_counts_all_rows_alike():
    norm, rows = RunningNorm(3), np.random.default_rng(0).normal(5, [1, 2, 3], (20, 3)).astype(np.float32)
    for start, stop in ((0, 1), (1, 8), (8, 20)):
        norm.update(torch.from_numpy(rows[start:stop]))
    np.testing.assert_allclose(norm.mean, rows.mean(0), rtol=1e-5)
    np.testing.assert_allclose(norm.var, rows.var(0), rtol=1e-4)
    np.testing.assert_allclose(norm(torch.from_numpy(rows)), (rows - rows.mean(0)) / rows.std(0), rtol=1e-3, atol=1e-5)
    norm.eval()
    norm.update(torch.ones(2, 3))
    assert norm.count == 20


def test_simba_adds_blocks_to_their_input_and_normalises_observations():
    sizes = {**SMALL, "actor_head_layer_num": 2}
    model = create_model({"type": "simba_qac", **sizes, "action_space": "regression", "twin_critic": True})
    obs = torch.tensor(RAW["obs"])
    found = model(obs, mode="compute_actor")["action"].detach().numpy()
    weights = {name: value.double().numpy() for name, value in model.actor_head.state_dict().items()}

    def linear(name, x):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name, x):
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    rows = np.array(RAW["obs"])
    x = linear("0", (rows - rows.mean(0)) / np.sqrt(rows.var(0) + 1e-8))
    for block in ("1", "2"):
        hidden = np.maximum(linear(f"{block}.layers.0", norm(f"{block}.norm", x)), 0)
        x = x + linear(f"{block}.layers.2", hidden)
    np.testing.assert_allclose(found, np.tanh(linear("4.last", norm("3", x))), rtol=1e-4, atol=1e-5)
    assert weights["1.layers.0.weight"].shape == (32, 8)


def test_checkpoints_of_simba_have_the_statistics():
    policy = make(SACPolicy, 1e-3, model={"type": "simba_qac"}, learn={"optim_type": "adamw", "weight_decay": 0.01})
    for _ in range(2):
        learn(policy)
    state = copy.deepcopy(policy.learn_mode.state_dict())
    assert state["model"]["obs_norm.count"] == 8  # of the observations before and behind the steps
    torch.testing.assert_close(state["target_model"]["obs_norm.mean"], state["model"]["obs_norm.mean"])
    other = make(SACPolicy, 1e-3, model={"type": "simba_qac"}, learn={"optim_type": "adamw", "weight_decay": 0.01})
    other.learn_mode.load_state_dict(state)
    assert learn(other) == learn(policy)


def test_betas_and_decay_of_the_config_reach_the_optimisers():
    learn_cfg = {"betas": [0.5, 0.99], "optim_type": "adamw", "weight_decay": 0.1}
    state = make(SACPolicy, learn=learn_cfg).learn_mode.state_dict()
    group = state["optimizer_q"]["param_groups"][0]
    assert (tuple(group["betas"]), group["weight_decay"]) == ((0.5, 0.99), 0.1)
    assert make(CrossQPolicy).learn_mode.state_dict()["optimizer_policy"]["param_groups"][0]["betas"] == (0.5, 0.999)
    with pytest.raises(PolicyConfigError, match="optim_type"):
        make(SACPolicy, learn={"optim_type": "adamx"})
