"""MAT: one pass over all agents beside one agent after the other, the loss beside numpy, masks, what acts."""

import copy

import numpy as np
import pytest
import torch

from ding.data import EnvBatch, TransitionBatch
from ding.model import MAT, create_model
from ding.policy import MATPolicy, PolicyConfigError
from ding.utils import deep_merge_dicts

AGENTS, OBS, ACTIONS, ENVS = 3, 4, 3, 6
MODEL = {
    "agent_num": AGENTS, "agent_obs_shape": OBS, "action_shape": ACTIONS, "embed_dim": 8, "head_num": 2,
    "layer_num": 2,
}  # fmt: skip
SPACES = ("discrete", "continuous")


def network(space="discrete", **overrides):
    """A network whose weights are all far from 0."""
    torch.manual_seed(0)
    model = create_model({"type": "mat", **MODEL, "action_space": space, **overrides})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.6 * torch.randn_like(parameter))
    return model.eval()


def observation(seed=0, masked=True):
    rng = np.random.default_rng(seed)
    obs = {"agent_state": torch.from_numpy(rng.normal(size=(ENVS, AGENTS, OBS)).astype(np.float32))}
    if masked:
        mask = rng.integers(2, size=(ENVS, AGENTS, ACTIONS))
        mask[..., 1] = 1
        mask[0, 0] = [0, 1, 0]
        obs["action_mask"] = torch.from_numpy(mask)
    return obs


class Numpy:
    """The forward pass in float64, for one environment and without a mask: an agent's decoder sees only a prefix."""

    def __init__(self, model):
        self.w = {name: value.detach().double().numpy() for name, value in model.state_dict().items()}

    def linear(self, name, x):
        return x @ self.w[f"{name}.weight"].T + self.w.get(f"{name}.bias", 0.0)

    def norm(self, name, x):
        centred = x - x.mean(-1, keepdims=True)
        return (
            centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * self.w[f"{name}.weight"]
            + (self.w[f"{name}.bias"])
        )

    def attention(self, name, queries, tokens):
        q, k, v = (self.linear(f"{name}.{n}", x) for n, x in (("query", queries), ("key", tokens), ("value", tokens)))
        heads = []
        for part in (slice(0, 4), slice(4, 8)):
            scores = np.exp(q[:, part] @ k[:, part].T / 2.0)
            heads.append(scores / scores.sum(1, keepdims=True) @ v[:, part])
        return self.linear(f"{name}.project", np.concatenate(heads, 1))

    def mlp(self, name, x):
        return self.linear(f"{name}.mlp.2", gelu(self.linear(f"{name}.mlp.0", x)))

    def encode(self, state):
        x = self.norm("embed_obs.3", gelu(self.linear("embed_obs.1", self.norm("embed_obs.0", state))))
        for block in ("encoder.0", "encoder.1"):
            x = self.norm(f"{block}.norms.0", x + self.attention(f"{block}.attentions.0", x, x))
            x = self.norm(f"{block}.norms.1", x + self.mlp(block, x))
        return x

    def value(self, encoded):
        hidden = self.norm("critic_head.2", gelu(self.linear("critic_head.0", encoded)))
        return self.linear("critic_head.3", hidden)[:, 0]

    def logit(self, encoded, taken):
        """Logits of the agent after ``taken``, the one-hot (or continuous) actions of those before it."""
        tokens = np.array([[1.0, 0, 0, 0], *[[0.0, *action] for action in taken]])
        x, known = self.norm("embed_action.2", gelu(self.linear("embed_action.0", tokens))), encoded[: len(tokens)]
        for block in ("decoder.0", "decoder.1"):
            # Rows before the last one look at prefixes of their own.
            own = [self.attention(f"{block}.attentions.0", x[[i]], x[: i + 1]) for i in range(len(x))]
            x = self.norm(f"{block}.norms.0", x + np.concatenate(own))
            own = [self.attention(f"{block}.attentions.1", known[[i]], x[: i + 1]) for i in range(len(x))]
            x = self.norm(f"{block}.norms.1", known + np.concatenate(own))
            x = self.norm(f"{block}.norms.2", x + self.mlp(block, x))
        return self.norm("actor_hidden.2", gelu(self.linear("actor_hidden.0", x[-1])))


def gelu(x):
    return torch.nn.functional.gelu(torch.from_numpy(np.asarray(x))).numpy()


@pytest.mark.parametrize("space", SPACES)
def test_the_pass_over_all_agents_has_the_numbers_of_one_agent_after_the_other(space):
    model, obs = network(space), observation(masked=False)
    with torch.no_grad():
        acted = model(obs, mode="sample")
        found = model({"obs": obs, "action": acted["action"]}, mode="compute_actor_critic")
    plain = Numpy(model)
    for env in range(ENVS):
        encoded = plain.encode(obs["agent_state"][env].double().numpy())
        np.testing.assert_allclose(found["value"][env], plain.value(encoded), rtol=1e-4, atol=1e-5)
        actions = acted["action"][env].numpy()
        taken = np.eye(ACTIONS)[actions] if space == "discrete" else actions
        for agent in range(AGENTS):
            hidden = plain.logit(encoded, taken[:agent])
            if space == "discrete":
                expected = plain.linear("actor_head.Q.1.0", hidden)
                np.testing.assert_allclose(found["logit"][env, agent], expected, rtol=1e-4, atol=1e-5)
            else:
                expected = plain.linear("actor_head.mu", hidden)
                np.testing.assert_allclose(found["logit"]["mu"][env, agent], expected, rtol=1e-4, atol=1e-5)
                sigma = np.exp(plain.w["actor_head.log_sigma_param"][0])
                np.testing.assert_allclose(found["logit"]["sigma"][env, agent], sigma, rtol=1e-5)
    for key in ("logit", "value"):
        torch.testing.assert_close(acted[key], found[key], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("changed", range(AGENTS))
def test_an_agent_depends_on_the_actions_before_it_only(space, changed):
    model, obs = network(space), observation(masked=False)
    with torch.no_grad():
        action = model(obs, mode="sample")["action"]
        other = action.clone()
        other[:, changed] = (action[:, changed] + 1) % ACTIONS
        logits = [model({"obs": obs, "action": a}, mode="compute_actor_critic")["logit"] for a in (action, other)]
    left, right = logits if space == "discrete" else (logit["mu"] for logit in logits)
    assert torch.equal(left[:, : changed + 1], right[:, : changed + 1])
    for later in range(changed + 1, AGENTS):
        assert ((left[:, later] - right[:, later]).abs().amax(-1) > 1e-6).all()


def test_every_agent_sees_all_observations():
    model, obs = network(), observation()
    changed = {**obs, "agent_state": obs["agent_state"].clone()}
    changed["agent_state"][:, -1] = observation(1)["agent_state"][:, -1]
    with torch.no_grad():
        left, right = (model({"obs": o, "action": torch.zeros(ENVS, AGENTS, dtype=torch.int64)},
                             mode="compute_actor_critic") for o in (obs, changed))  # fmt: skip
    assert (left["value"] != right["value"]).all()
    assert (left["logit"] != right["logit"]).any(-1).all()


@pytest.mark.parametrize("mode", ["sample", "argmax"])
def test_forbidden_actions_are_never_taken(mode):
    model = network()
    for seed in range(20):
        obs = observation(seed)
        with torch.no_grad():
            action = model(obs, mode=mode)["action"]
        assert obs["action_mask"].gather(-1, action.unsqueeze(-1)).all()
        if mode == "argmax":
            # The most likely one, given those of the agents before.
            logit = model({"obs": obs, "action": action}, mode="compute_actor_critic")["logit"]
            assert torch.equal(logit.argmax(-1), action)


def test_actions_are_drawn_as_their_probabilities_say():
    model, count = network(), 4000
    obs = {"agent_state": observation(masked=False)["agent_state"][:1].expand(count, -1, -1)}
    torch.manual_seed(0)
    with torch.no_grad():
        output = model(obs, mode="sample")
    # Of the second agent, by what the first did.
    for first in range(ACTIONS):
        rows = output["action"][:, 0] == first
        expected = output["logit"][rows][0, 1].softmax(-1)
        found = torch.bincount(output["action"][rows, 1], minlength=ACTIONS) / rows.sum()
        assert (found - expected).abs().max() < 4 * 0.5 / rows.sum().sqrt()


def make(space="discrete", **overrides):
    torch.manual_seed(0)
    cfg = {"action_space": space, "model": {**MODEL, "action_space": space}}
    return MATPolicy(deep_merge_dicts(deep_merge_dicts(MATPolicy.default_config(), cfg), overrides))


def samples(space="discrete", masked=True):
    """``ENVS`` samples of one segment, of an older policy than the one that learns."""
    obs = observation(1, masked)
    with torch.no_grad():
        output = network(space)(obs, mode="sample")
    rng = np.random.default_rng(2)
    return {
        "obs": obs, "next_obs": observation(3, masked), **output,
        "adv": torch.from_numpy(rng.normal(size=(ENVS, AGENTS)).astype(np.float32)),
        "reward": torch.from_numpy(rng.normal(size=(ENVS, 1)).astype(np.float32)),
        "done": np.zeros(ENVS, dtype=bool), "traj_flag": np.arange(ENVS) == ENVS - 1,
    }  # fmt: skip


def log_prob_and_entropy(logit, action, mask):
    """``[B, A]`` each, in numpy."""
    if isinstance(logit, dict):
        mu, sigma = (logit[key].detach().double().numpy() for key in ("mu", "sigma"))
        each = -0.5 * ((action.numpy() - mu) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
        return each.sum(-1), (0.5 + 0.5 * np.log(2 * np.pi) + np.log(sigma)).sum(-1)
    weight = np.exp(logit.detach().double().numpy()) * (1.0 if mask is None else mask.numpy())
    p = weight / weight.sum(-1, keepdims=True)
    taken = np.take_along_axis(p, action.numpy()[..., None], -1)[..., 0]
    return np.log(taken), -np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0).sum(-1)


@pytest.mark.parametrize(("space", "masked"), [("discrete", True), ("discrete", False), ("continuous", False)])
def test_the_loss_is_that_of_the_paper(space, masked):
    policy = make(
        space,
        recompute_adv=False,
        learn={"epoch_per_collect": 1, "batch_size": ENVS, "entropy_weight": 0.1, "value_norm": False,
               "adv_norm": False, "learning_rate": 0.0},
    )  # fmt: skip
    data = samples(space, masked)
    model = copy.deepcopy(policy.learn_mode.get_attribute("model"))
    (found,) = policy.learn_mode.forward(TransitionBatch(data))

    with torch.no_grad():
        output = model({"obs": data["obs"], "action": data["action"]}, mode="compute_actor_critic")
    mask = data["obs"].get("action_mask")
    new, entropy = log_prob_and_entropy(output["logit"], data["action"], mask)
    old, _ = log_prob_and_entropy(data["logit"], data["action"], mask)
    ratio, adv = np.exp(new - old), data["adv"].numpy()
    joint = adv.mean(1, keepdims=True)
    surrogate = np.minimum(ratio * joint, np.clip(ratio, 0.8, 1.2) * joint).mean()
    value, old_value = output["value"].numpy(), data["value"].numpy()
    target = old_value + adv
    clipped = old_value + np.clip(value - old_value, -0.2, 0.2)
    value_loss = 0.5 * np.maximum((target - value) ** 2, (target - clipped) ** 2).mean()
    expected = {
        "policy_loss": -surrogate, "value_loss": value_loss, "entropy_loss": entropy.mean(),
        "total_loss": -surrogate + 0.5 * value_loss - 0.1 * entropy.mean(), "clipfrac": (abs(ratio - 1) > 0.2).mean(),
    }  # fmt: skip
    assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_the_mean_of_the_advantages_is_that_of_the_mean_value():
    policy, half = make(), ENVS // 2
    columns = {**samples(), "done": np.arange(ENVS) == half - 1}
    del columns["adv"], columns["traj_flag"]
    segments = TransitionBatch(columns, np.array([half, half]))
    found = policy.collect_mode.get_train_sample(segments).columns["adv"].numpy()
    with torch.no_grad():
        model = policy.learn_mode.get_attribute("model")
        after = model(columns["next_obs"], mode="compute_critic")["value"][-1].mean().item()
    value, reward = columns["value"].mean(1).numpy(), columns["reward"][:, 0].numpy()
    expected, following = np.zeros(ENVS), 0.0
    for t in reversed(range(ENVS)):
        next_value = after if t == ENVS - 1 else value[t + 1]
        alive = float(not columns["done"][t])
        following = reward[t] + 0.99 * alive * next_value - value[t] + 0.99 * 0.95 * alive * following
        expected[t] = following
    np.testing.assert_allclose(found.mean(1), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("space", SPACES)
def test_policies_start_nearly_uniform_with_values_near_zero(space):
    model, obs = make(space).learn_mode.get_attribute("model"), observation(masked=False)
    with torch.no_grad():
        output = model(obs, mode="sample")
    start = output["logit"] if space == "discrete" else output["logit"]["mu"]
    assert start.abs().max() < 0.1
    assert output["value"].abs().max() < 0.1
    if space == "continuous":
        assert output["logit"]["sigma"].unique().tolist() == [pytest.approx(np.exp(-0.5))]


def test_one_continuous_dimension():
    policy = make("continuous", model={"action_shape": 1})
    data = EnvBatch(np.arange(ENVS), observation(masked=False))
    output = policy.collect_mode.forward(data)
    assert output.columns["action"].shape == (ENVS, AGENTS, 1)
    taken = {key: output.columns[key] for key in ("action", "logit", "value")}
    rows = policy.learn_mode.forward(TransitionBatch({**samples(masked=False), "obs": data.columns, **taken}))
    # Nothing has changed yet since the actions were drawn.
    assert rows[0]["approx_kl"] == pytest.approx(0.0, abs=1e-6)


def test_a_loaded_policy_learns_on_bit_by_bit():
    whole, data = make(), TransitionBatch(samples())
    torch.manual_seed(1)
    np.random.seed(1)
    whole.learn_mode.forward(data)
    parts = make()
    parts.learn_mode.load_state_dict(copy.deepcopy(whole.learn_mode.state_dict()))
    found = []
    for policy in (whole, parts):
        torch.manual_seed(2)
        np.random.seed(2)
        found.append(policy.learn_mode.forward(data))
    assert found[0] == found[1]
    for left, right in zip(*(p.learn_mode.get_attribute("model").parameters() for p in (whole, parts)), strict=True):
        assert torch.equal(left, right)


def test_wrong_settings_are_named():
    with pytest.raises(PolicyConfigError, match="pretrained_model_path"):
        make(learn={"pretrained_model_path": "some.pth"})
    with pytest.raises(PolicyConfigError, match=r"policy\.recurrent"):
        make(recurrent=True)
    for wrong, said in (
        ({"action_shape": [2, 3]}, "one action of each agent"),
        ({"agent_obs_shape": [3, 8, 8]}, "takes a vector"),
        ({"action_space": "hybrid"}, "discrete or continuous"),
        ({"head_num": 3}, "no multiple of head_num=3"),
    ):
        with pytest.raises(ValueError, match=said):
            MAT(**{**MODEL, **wrong})
