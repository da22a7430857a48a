"""ReBRAC, XQL, Cal-QL and RLPD: their updates beside numpy, and the fields that samples get from later steps."""

import copy

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch, columns_save, create_dataset
from ding.policy import CalQLPolicy, IQLPolicy, ReBRACPolicy, RLPDPolicy, XQLPolicy
from ding.policy.xql import gumbel_loss
from ding.rl_utils.following import returns_along
from ding.utils import deep_merge_dicts

GAMMA = 0.9
SMALL = {"obs_shape": 3, "action_shape": 2, "actor_head_hidden_size": 8, "critic_head_hidden_size": 6}
RAW = {
    "obs": [[0.3, -1.0, 0.5], [0.9, 0.1, -0.4], [-0.6, 0.7, 0.2]],
    "next_obs": [[-0.2, 0.8, 1.1], [0.4, -0.7, 0.6], [0.1, 0.2, 0.3]],
    "action": [[0.5, -0.9], [-0.1, 0.2], [0.7, 0.3]],
    "next_action": [[0.1, 0.8], [0.4, -0.6], [-0.9, 0.5]],
    "reward": [[1.5], [-0.7], [0.4]],
}
TENSORS = {key: torch.tensor(value) for key, value in RAW.items()}
BATCH = TransitionBatch(
    {
        **TENSORS,
        "done": np.array([False, True, False]),
        "next_action_known": np.array([1.0, 0.0, 0.0], np.float32),
        "return": np.array([0.2, 3.0, -1e30], np.float32),
    }
)
NOT_DONE, REWARD = np.array([1.0, 0.0, 1.0]), np.array(RAW["reward"])[:, 0]


def make(cls, **overrides):
    torch.manual_seed(0)
    rates = [f"learning_rate_{part}" for part in ("q", "policy", "alpha", "actor", "critic")]
    defaults = cls.default_config()
    fixed = {**{key: 0.0 for key in rates if key in defaults.learn}, "discount_factor": GAMMA}
    fixed |= {"init_w": 0.3} if "init_w" in defaults.learn else {}
    cfg = deep_merge_dicts(defaults, deep_merge_dicts({"model": SMALL}, {"learn": fixed}))
    return cls(deep_merge_dicts(cfg, overrides), enable_field=["learn", "collect"])


def learn(policy, seed=5):
    torch.manual_seed(seed)
    return policy.learn_mode.forward(BATCH)


def network(policy):
    return policy.learn_mode.get_attribute("model")


def moved_target(policy):
    """The target network, with other values than the learner's."""
    target = policy.learn_mode.get_attribute("target_model")
    with torch.no_grad():
        for parameter in target.parameters():
            parameter.mul_(1.4)
    return copy.deepcopy(target)


def run(model, mode, inputs):
    with torch.no_grad():
        return model(inputs, mode=mode)


def critics(model, obs, action):
    q = run(model, "compute_critic", {"obs": obs, "action": action})["q_value"]
    return np.stack([one.double().numpy() for one in q])


def test_rebrac_penalises_the_actor_and_the_targets_apart():
    weights = {"actor_penalty_weight": 0.3, "critic_penalty_weight": 0.7, "actor_update_freq": 1, "noise_sigma": 0.4}
    policy = make(ReBRACPolicy, learn=weights)
    model, target_model = network(policy), moved_target(policy)
    found = learn(policy)
    torch.manual_seed(5)
    next_action = run(target_model.forward, "compute_actor", TENSORS["next_obs"])["action"]
    distance = ((next_action.double().numpy() - RAW["next_action"]) ** 2).sum(1) * [1, 0, 0]
    next_q = critics(target_model.forward, TENSORS["next_obs"], next_action).min(0)
    target = REWARD + GAMMA * NOT_DONE * (next_q - 0.7 * distance)
    q = critics(model, TENSORS["obs"], TENSORS["action"])
    assert found["critic_loss"] == pytest.approx(((q - target) ** 2).mean(1).sum(), rel=1e-5)
    action = run(model, "compute_actor", TENSORS["obs"])["action"]
    own = critics(model, TENSORS["obs"], action).min(0)
    penalty = ((action.double().numpy() - RAW["action"]) ** 2).sum(1)
    assert found["actor_loss"] == pytest.approx((0.3 * penalty - own / np.abs(own).mean()).mean(), rel=1e-5)
    plain = make(ReBRACPolicy, learn={**weights, "normalize_q": False})
    moved_target(plain)
    assert learn(plain)["actor_loss"] == pytest.approx((0.3 * penalty - own).mean(), rel=1e-5)


def test_each_hidden_layer_of_rebracs_critics_is_normalised_and_its_actor_is_not():
    model = network(make(ReBRACPolicy))
    state = {name: value.double().numpy() for name, value in model.critic.state_dict().items()}
    rows = np.concatenate([RAW["obs"], RAW["action"]], axis=1)
    found = critics(model, TENSORS["obs"], TENSORS["action"])
    for member in range(2):
        x, part = rows, slice(6 * member, 6 * member + 6)
        for layer in range(3):
            x = x @ state[f"head.pred.{layer}.0.weight"][part, :, 0].T + state[f"head.pred.{layer}.0.bias"][part]
            x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
            scale, shift = (state[f"head.pred.{layer}.1.{name}"][part] for name in ("weight", "bias"))
            x = np.maximum(x * scale + shift, 0)
        expected = x @ state["head.pred.3.0.weight"][member, :, 0] + state["head.pred.3.0.bias"][member]
        np.testing.assert_allclose(found[member], expected, rtol=1e-4, atol=1e-5)
    kinds = {type(layer).__name__ for layer in model.actor.modules()}
    assert not any("Norm" in kind for kind in kinds)


def test_the_gumbel_loss_is_scaled_and_cut():
    difference = torch.tensor([0.5, -1.0, 20.0], requires_grad=True)
    loss = gumbel_loss(difference, 2.0, 7.0)
    z = np.array([0.25, -0.5, 7.0])
    assert loss.item() == pytest.approx(((np.exp(z) - z - 1) / np.exp(7.0)).mean(), rel=1e-5)
    loss.backward()
    gradient = (np.exp(z) - 1) / np.exp(7.0) / 2.0 / 3
    gradient[2] = 0.0  # of an outlier
    np.testing.assert_allclose(difference.grad, gradient, rtol=1e-4, atol=1e-9)
    low = gumbel_loss(torch.tensor([-4.0, -6.0]), 1.0, 7.0)
    z = np.array([-4.0, -6.0])
    assert low.item() == pytest.approx(((np.exp(z) - z - 1) / np.exp(-1.0)).mean(), rel=1e-5)


def test_the_gumbel_loss_is_least_at_the_soft_maximum():
    q = torch.tensor([0.3, 1.2, -0.8, 2.0])
    best = 0.7 * torch.logsumexp(q / 0.7, 0) - 0.7 * np.log(4)
    v = best.clone().requires_grad_(True)
    gumbel_loss(q - v, 0.7, 7.0).backward()
    assert v.grad.item() == pytest.approx(0.0, abs=1e-6)


def test_xql_differs_from_iql_in_the_loss_of_the_values_alone():
    settings = {"learn": {"value_temperature": 0.5, "max_exponent": 0.4}}
    xql, iql = make(XQLPolicy, **settings), make(IQLPolicy)
    target_model = moved_target(xql)
    moved_target(iql)
    model, found, other = network(xql), learn(xql), learn(iql)
    q = critics(target_model.forward, TENSORS["obs"], TENSORS["action"]).min(0)
    v = run(model, "compute_value", TENSORS["obs"])["v_value"].double().numpy()
    z = np.minimum((q - v) / 0.5, 0.4)
    assert found["v_loss"] == pytest.approx(((np.exp(z) - z - 1) / np.exp(max(z.max(), -1))).mean(), rel=1e-4)
    assert found.pop("priority") == other.pop("priority")
    same = found.keys() - {"v_loss"}
    assert {key: found[key] for key in same} == pytest.approx({key: other[key] for key in same})


def squashed(model, obs, num_actions):
    """Drawn actions ``[B, n, D]`` and their log-probabilities, by the draws of torch."""
    mu, sigma = (part.unsqueeze(1).expand(-1, num_actions, -1) for part in run(model, "compute_actor", obs)["logit"])
    mu, sigma = mu.double().numpy(), sigma.double().numpy()
    noise = torch.randn(mu.shape).double().numpy()
    action = np.tanh(mu + sigma * noise)
    density = -0.5 * noise**2 - np.log(sigma) - 0.5 * np.log(2 * np.pi) - np.log(1 - action**2)
    return torch.tensor(action, dtype=torch.float32), density.sum(-1)


def test_cal_ql_pushes_values_of_the_policy_down_to_the_return_and_no_further():
    num = 2
    policy = make(CalQLPolicy, learn={"num_actions": num, "min_q_weight": 0.8})
    model, target_model = network(policy), moved_target(policy)
    found = learn(policy)
    torch.manual_seed(5)
    next_action, _ = squashed(model, TENSORS["next_obs"], 1)
    next_q = critics(target_model.forward, TENSORS["next_obs"], next_action[:, 0]).min(0)
    q = critics(model, TENSORS["obs"], TENSORS["action"])
    errors = ((q - (REWARD + GAMMA * NOT_DONE * next_q)) ** 2).mean(1)
    uniform = torch.empty(3 * num, 2).uniform_(-1, 1).reshape(3, num, 2)
    of_policy = [squashed(model, TENSORS[key], num) for key in ("obs", "next_obs")]
    parts = [(uniform, np.full((3, num), -2 * np.log(2.0))), *of_policy]
    bound, cut = np.array([0.2, 3.0, -1e30]), 0
    for critic, name in enumerate(("critic_loss", "twin_critic_loss")):
        exponents = []
        for kind, (action, density) in enumerate(parts):
            values = np.stack([critics(model, TENSORS["obs"], action[:, i])[critic] for i in range(num)], 1)
            if kind:
                cut += (values < bound[:, None]).sum()
                values = np.maximum(values, bound[:, None])
            exponents.append(values - density)
        gap = np.log(np.exp(np.concatenate(exponents, 1)).sum(1)).mean() - q[critic].mean()
        assert found[name] == pytest.approx(errors[critic] + 0.8 * gap, rel=1e-4)
    assert 0 < cut < 24


def test_returns_are_exact_to_the_end_of_an_episode_and_bounds_where_they_are_cut():
    reward = np.array([1.0, 2.0, 3.0, -1.0, -2.0, 5.0])
    done = np.array([False, False, True, False, False, False])
    following = np.array([1, 2, -1, 4, -1, -1])  # an episode, two steps before a time limit, the end of the data
    found = returns_along(reward, done, following, 0.5, floor=-4.0)
    np.testing.assert_allclose(found, [1 + 1 + 0.75, 2 + 1.5, 3, -1 + 0.5 * (-2 - 2), -2 - 2, 5 - 2])
    rng = np.random.default_rng(0)
    reward = rng.normal(size=300)
    chain = np.append(np.arange(1, 300), -1)
    expected = np.zeros(301)
    expected[300] = -7.0
    for step in range(299, -1, -1):
        expected[step] = reward[step] + 0.97 * expected[step + 1]
    np.testing.assert_allclose(returns_along(reward, np.zeros(300, bool), chain, 0.97, -7.0), expected[:300])


def two_envs() -> dict[str, np.ndarray]:
    """Steps of two envs in turns: one has an episode of three steps and begins another one, one meets a time limit."""
    first, second = np.arange(5.0)[:, None] + np.zeros(2), 10 + np.arange(5.0)[:, None] + np.zeros(2)
    obs = np.stack([first[[0, 1, 2, 4]], second[[0, 1, 2, 3]]], 1).reshape(8, 2)
    ahead = np.stack([first[[1, 2, 3, 0]], second[[1, 2, 4, 4]]], 1).reshape(8, 2)
    ahead[6] = 99.0
    action = np.linspace(-1, 1, 8)[:, None]
    return {
        "obs": obs.astype(np.float32),
        "next_obs": ahead.astype(np.float32),
        "action": action.astype(np.float32),
        "reward": np.arange(8, dtype=np.float32)[:, None] - 2,
        "done": np.arange(8) == 4,
    }


def test_rows_of_a_data_set_find_the_step_after_them(tmp_path):
    columns = two_envs()
    columns_save({key: value[:5] for key, value in columns.items()}, str(tmp_path / "a"))
    columns_save({key: value[5:] for key, value in columns.items()}, str(tmp_path / "b"))
    dataset = create_dataset({"policy": {"collect": {"data_type": "columns", "data_path": str(tmp_path)}}})
    assert dataset.following_rows().tolist() == [2, 3, 4, 5, -1, -1, -1, -1]
    grouped = {f"{key}/x" if key.endswith("obs") else key: column for key, column in columns.items()}
    columns_save(grouped, str(tmp_path / "grouped"))
    dataset = create_dataset({"policy": {"collect": {"data_type": "columns", "data_path": str(tmp_path / "grouped")}}})
    assert dataset.following_rows().tolist() == [2, 3, 4, 5, -1, -1, -1, -1]


def test_samples_of_a_data_set_and_of_a_segment_get_the_same_fields():
    columns = two_envs()
    following = np.array([2, 3, 4, 5, -1, -1, -1, -1])
    rebrac, cal_ql = make(ReBRACPolicy), make(CalQLPolicy)
    fields = rebrac.fields_of_data_set(columns, following)
    np.testing.assert_array_equal(fields["next_action"][:4], columns["action"][2:6])
    assert fields["next_action_known"].tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    floor = -2.0 / (1 - GAMMA)
    returns = cal_ql.fields_of_data_set(columns, following)["return"]
    assert returns[[0, 4]] == pytest.approx([-2 + 0 + GAMMA**2 * 2, 2])
    assert returns[[1, 7]] == pytest.approx([-1 + GAMMA * 1 + GAMMA**2 * 3 + GAMMA**3 * floor, 5 + GAMMA * floor])
    segment = TransitionBatch({key: value[[0, 2, 4]] for key, value in columns.items()})
    found = cal_ql.collect_mode.get_train_sample(segment).columns["return"]
    np.testing.assert_allclose(found, returns[[0, 2, 4]])
    found = rebrac.collect_mode.get_train_sample(segment).columns
    np.testing.assert_array_equal(found["next_action"][:2], columns["action"][[2, 4]])
    assert found["next_action_known"].tolist() == [1, 1, 0]
    assert make(CalQLPolicy).collect_mode.get_train_sample(segment[:2]).columns["return"].max() < -1e29


def test_rlpd_leaves_the_entropy_of_targets_out_if_asked():
    kept, left = (
        make(RLPDPolicy, model={"ensemble_num": 3}, learn={"with_q_entropy": value, "actor_update_freq": 1})
        for value in (True, False)
    )
    model, target_model = network(left), moved_target(left)
    moved_target(kept)
    found = learn(left)
    torch.manual_seed(5)
    next_action, _ = squashed(model, TENSORS["next_obs"], 1)
    subset = torch.randperm(3)[:2].numpy()
    next_q = critics(target_model.forward, TENSORS["next_obs"], next_action[:, 0])[subset].min(0)
    q = critics(model, TENSORS["obs"], TENSORS["action"])
    expected = ((q - (REWARD + GAMMA * NOT_DONE * next_q)) ** 2).mean(1).sum()
    assert found["critic_loss"] == pytest.approx(expected, rel=1e-5)
    assert learn(kept)["critic_loss"] != pytest.approx(expected, rel=1e-3)
    assert left.learn_mode.get_attribute("target_entropy") == -1.0
