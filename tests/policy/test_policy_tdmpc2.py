"""TD-MPC2: its losses by plain numpy, and the plans it acts by."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ding.data import EnvBatch, TimestepBatch, TransitionBatch
from ding.model import TDMPC2
from ding.policy import PolicyConfigError, TDMPC2Policy
from ding.policy._acting.mppi import mppi
from ding.torch_utils.network.dreamer import TwoHotDistSymlog
from ding.utils import deep_merge_dicts, set_pkg_seed

_T, _B, _L, _A, _E, _M = 3, 4, 8, 2, 5, 21
_GAMMA, _RHO, _ETA = 0.9, 0.6, 0.05
_SMALL = {
    "horizon": _T,
    "plan": {"iterations": 3, "num_samples": 24, "num_elites": 6, "num_policy_trajectories": 4},
    "model": {
        "obs_shape": 3, "action_shape": _A, "latent_size": _L, "simnorm_size": 4, "hidden_size": 16,
        "encoder_hidden_size": 16, "num_buckets": _M, "max_symlog": 3.0, "dropout": 0.0,
    },
    "learn": {"discount_factor": _GAMMA, "rho": _RHO, "entropy_weight": _ETA, "learning_rate": 1e-3},
}  # fmt: skip


def _fresh_policy(changes: dict[str, Any] | None = None) -> TDMPC2Policy:
    set_pkg_seed(0, use_cuda=False)
    return TDMPC2Policy(deep_merge_dicts(deep_merge_dicts(TDMPC2Policy.default_config(), _SMALL), changes or {}))


def _policy(changes: dict[str, Any] | None = None) -> TDMPC2Policy:
    policy = _fresh_policy(changes)
    # Heads of rewards and values begin with zeros, by which any formula would be right.
    for parameter in policy.eval_mode.get_attribute("model").parameters():
        if not parameter.any():
            nn.init.normal_(parameter, std=0.3)
    return policy


def _sequences() -> TransitionBatch:
    """B sequences, of which the second ends with its episode and the third is filled up behind its second step."""
    random = np.random.default_rng(3)
    obs = random.normal(size=(_B, _T + 1, 3)).astype(np.float32)
    null, done = np.zeros((_B, _T), dtype=np.bool_), np.zeros((_B, _T), dtype=np.bool_)
    done[1, 2] = null[2, 2] = done[2, 2] = True
    columns = {
        "obs": torch.from_numpy(obs[:, :-1]),
        "next_obs": torch.from_numpy(obs[:, 1:]),
        "action": torch.from_numpy(random.uniform(-1, 1, size=(_B, _T, _A)).astype(np.float32)),
        "reward": torch.from_numpy(random.normal(size=(_B, _T, 1)).astype(np.float32)),
        "done": done,
        "null": null,
    }
    return TransitionBatch(columns)


def _symexp(x: np.ndarray) -> np.ndarray:
    return np.sign(x) * (np.exp(np.abs(x)) - 1)


def _mean_of(logits: np.ndarray, top: float = 3.0) -> np.ndarray:
    chance = np.exp(logits - logits.max(-1, keepdims=True))
    chance /= chance.sum(-1, keepdims=True)
    return _symexp(chance @ np.linspace(-top, top, logits.shape[-1]))


def _cross_entropy(logits: np.ndarray, number: float, top: float = 3.0) -> float:
    """Of one number, whose two nearest buckets share it."""
    buckets = np.linspace(-top, top, len(logits))
    place = np.clip(np.sign(number) * np.log(abs(number) + 1), -top, top)
    two_hot = np.interp(place, buckets, np.arange(len(buckets)))
    chance = np.zeros(len(buckets))
    below = min(int(two_hot), len(buckets) - 2)
    chance[below], chance[below + 1] = 1 - (two_hot - below), two_hot - below
    return float(-(chance * (logits - np.log(np.exp(logits).sum()))).sum())


def _prior_draw(model: TDMPC2, z: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Actions and log densities of the policy prior, by the noise that torch gives next."""
    mu, sigma = (part.detach().double().numpy() for part in model.prior(z))
    noise = torch.randn(mu.shape).double().numpy()
    action = np.tanh(mu + sigma * noise)
    density = -0.5 * noise**2 - np.log(sigma) - 0.5 * np.log(2 * np.pi) - np.log(1 - action**2)
    return action, density.sum(-1)


def _q(model: TDMPC2, z: torch.Tensor, action: np.ndarray) -> np.ndarray:
    """Logits ``[E, ..., M]``."""
    return model.values(z, torch.from_numpy(action).float()).logits.detach().double().numpy()


def _expected(policy: TDMPC2Policy, batch: TransitionBatch) -> dict[str, float]:
    """The losses of an update, step by step and row by row."""
    model: TDMPC2 = policy.learn_mode.get_attribute("model")
    target: Any = policy.learn_mode.get_attribute("target_model")
    columns = batch.columns
    torch.manual_seed(5)
    ahead = model.encode(columns["next_obs"].transpose(0, 1)).detach()
    next_action, _ = _prior_draw(model, ahead)
    pair = torch.randperm(_E)[:2].numpy()
    next_value = _mean_of(_q(target, ahead, next_action))[pair].min(0)
    z = [model.encode(columns["obs"][:, 0]).detach()]
    losses = dict.fromkeys(("consistency_loss", "reward_loss", "value_loss"), 0.0)
    for t in range(_T):
        action = columns["action"][:, t]
        z.append(model.step(z[-1], action).detach())
        reward_logits = model.reward(z[t], action).logits.detach().double().numpy()
        q_logits = _q(model, z[t], action.numpy())
        for b in range(_B):
            share = 0.0 if columns["null"][b, t] else _RHO**t / (_T * _B)
            reward = float(columns["reward"][b, t])
            goal = reward + (0.0 if columns["done"][b, t] else _GAMMA * next_value[t, b])
            distance = (z[t + 1][b] - ahead[t, b]).double().numpy()
            losses["consistency_loss"] += share * float((distance**2).mean())
            losses["reward_loss"] += share * _cross_entropy(reward_logits[b], reward)
            losses["value_loss"] += share * np.mean([_cross_entropy(one[b], goal) for one in q_logits])
    losses["total_loss"] = 20 * losses["consistency_loss"] + 0.1 * (losses["reward_loss"] + losses["value_loss"])
    return losses


def test_losses_of_the_world_model_are_those_of_plain_loops() -> None:
    policy, batch = _policy(), _sequences()
    # Another network than the one that learns.
    with torch.no_grad():
        for parameter in policy.learn_mode.get_attribute("target_model").parameters():
            parameter.mul_(1.1)
    expected = _expected(policy, batch)
    torch.manual_seed(5)
    found = policy.learn_mode.forward(batch)
    assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-4)


def test_the_prior_learns_from_the_values_after_the_update_of_the_world_model() -> None:
    policy, batch = _policy(), _sequences()
    model: TDMPC2 = policy.learn_mode.get_attribute("model")
    columns = batch.columns
    z = [model.encode(columns["obs"][:, 0])]
    for t in range(_T):
        z.append(model.step(z[-1], columns["action"][:, t]))
    states = torch.stack(z).detach()
    policy_before = [parameter.clone() for parameter in model.actor.parameters()]
    torch.manual_seed(5)
    found = policy.learn_mode.forward(batch)
    # The world model as it is now, and the prior as it was.
    with torch.no_grad():
        for parameter, before in zip(model.actor.parameters(), policy_before, strict=True):
            parameter.copy_(before)
    torch.manual_seed(5)
    torch.randn(_T, _B, _A)
    torch.randperm(_E)
    action, log_prob = _prior_draw(model, states)
    q = _mean_of(_q(model, states, action))[torch.randperm(_E)[:2].numpy()].mean(0)
    # A hundredth of the range of the first state's values, which is never taken for less than 1.
    spread = np.percentile(q[0], 95) - np.percentile(q[0], 5)
    scale = max(1.0, 0.01 * spread)
    expected = 0.0
    for t in range(_T + 1):
        for b in range(_B):
            filled_up = t > 0 and columns["null"][b, t - 1]
            share = 0.0 if filled_up else _RHO**t / ((_T + 1) * _B)
            expected += share * (_ETA * log_prob[t, b] - q[t, b] / scale)
    assert found["policy_loss"] == pytest.approx(expected, rel=1e-3)
    assert found["scale"] == pytest.approx(scale)
    assert found["entropy"] == pytest.approx(-log_prob.mean(), rel=1e-4)


def test_the_scale_follows_the_range_of_values() -> None:
    policy, batch = _policy(), _sequences()
    policy.learn_mode.get_attribute("scale").values.copy_(torch.tensor([-30.0, 70.0]))
    assert policy.learn_mode.forward(batch)["scale"] == pytest.approx(99, rel=0.02)


def test_no_gradient_of_the_prior_reaches_the_world_model_and_targets_follow_softly() -> None:
    policy, batch = _policy({"learn": {"consistency_weight": 0, "reward_weight": 0, "value_weight": 0}}), _sequences()
    model = policy.learn_mode.get_attribute("model")
    target = policy.learn_mode.get_attribute("target_model")
    with torch.no_grad():
        for parameter, followed in zip(model.parameters(), target.parameters(), strict=True):
            followed.copy_(parameter + 1)
    world = [parameter.clone() for parameter in model.world.parameters()]
    actor = [parameter.clone() for parameter in model.actor.parameters()]
    policy.learn_mode.forward(batch)
    assert all(map(torch.equal, world, model.world.parameters()))
    assert not any(map(torch.equal, actor, model.actor.parameters()))
    for followed, parameter in zip(target.world.parameters(), world, strict=True):
        torch.testing.assert_close(followed, parameter + 0.99)


def test_the_encoder_learns_more_slowly() -> None:
    policy, batch = _policy({"learn": {"encoder_lr_scale": 0.0}}), _sequences()
    world = policy.learn_mode.get_attribute("model").world
    before = {name: parameter.clone() for name, parameter in world.named_parameters()}
    policy.learn_mode.forward(batch)
    moved = {
        name.partition(".")[0] for name, parameter in world.named_parameters() if (parameter != before[name]).any()
    }
    assert moved == {"dynamics", "reward", "critic"}


def test_what_fills_a_sequence_up_changes_nothing_but_what_the_last_step_led_to() -> None:
    found = []
    for garbage in (0.0, 7.0):
        policy, batch = _policy(), _sequences()
        columns = {
            key: value.copy() if isinstance(value, np.ndarray) else value.clone()
            for key, value in batch.columns.items()
        }
        columns["action"][2, 2], columns["reward"][2, 2], columns["next_obs"][2, 2] = garbage, garbage, garbage
        torch.manual_seed(5)
        found.append(policy.learn_mode.forward(TransitionBatch(columns)))
        found[-1] = {key: found[-1][key] for key in ("total_loss", "policy_loss")}
    assert found[0] == pytest.approx(found[1], rel=1e-6)


# The network.


def test_latent_states_are_points_of_simplices() -> None:
    model = TDMPC2(3, _A, latent_size=_L, simnorm_size=4, hidden_size=16, encoder_hidden_size=16)
    linear, norm, _, last, last_norm, _ = (layer for layer in model.world["encoder"])
    obs = torch.randn(5, 3)
    hidden = norm(linear(obs))
    raw = last_norm(last(hidden * torch.tanh(torch.log1p(hidden.exp()))))
    expected = np.exp(raw.detach().numpy().reshape(5, 2, 4))
    expected /= expected.sum(-1, keepdims=True)
    found = model.encode(obs).detach().numpy()
    np.testing.assert_allclose(found, expected.reshape(5, _L), rtol=1e-4)
    np.testing.assert_allclose(found.reshape(5, 2, 4).sum(-1), 1, rtol=1e-5)
    assert model.step(model.encode(obs), torch.zeros(5, _A)).reshape(5, 2, 4).sum(-1).allclose(torch.ones(5, 2))


def test_values_are_those_of_separate_networks() -> None:
    model = _policy().eval_mode.get_attribute("model")
    z, action = torch.rand(6, _L), torch.rand(6, _A)
    found = model.values(z, action).logits.detach().numpy()
    blocks = list(model.world["critic"].pred)
    for member in range(_E):
        x = np.concatenate([z, action], 1)
        for index, block in enumerate(blocks):
            width = block[0].weight.shape[0] // _E
            rows = slice(member * width, (member + 1) * width)
            x = x @ block[0].weight[rows, :, 0].detach().numpy().T + block[0].bias[rows].detach().numpy()
            if index < 2:
                x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
                x = x * block[1].weight[rows].detach().numpy() + block[1].bias[rows].detach().numpy()
                x = x * np.tanh(np.log1p(np.exp(x)))
        np.testing.assert_allclose(found[member], x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", [0.0, 0.4, -3.7, 250.0, 1e9, -1e9])
def test_numbers_are_shared_by_two_of_101_buckets(number: float) -> None:
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 101)).astype(np.float32))
    dist = TwoHotDistSymlog(logits, -10.0, 10.0)
    found = dist.log_prob(torch.tensor([[number]])).item()
    assert -found == pytest.approx(_cross_entropy(logits[0].double().numpy(), number, 10.0), rel=1e-4)
    assert dist.mean().item() == pytest.approx(_mean_of(logits.double().numpy(), 10.0)[0], rel=1e-4)


def test_rewards_and_values_begin_with_zero() -> None:
    model = TDMPC2(3, _A)
    z, action = model.encode(torch.randn(4, 3)), torch.rand(4, _A)
    for dist in (model.reward(z, action), model.values(z, action)):
        torch.testing.assert_close(dist.mean(), torch.zeros_like(dist.mean()), rtol=0, atol=1e-5)


def test_sizes_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match="latent_size must be a multiple of simnorm_size=8, got 20"):
        TDMPC2(3, 2, latent_size=20)
    with pytest.raises(ValueError, match="num_buckets must be at least 2, got 1"):
        TDMPC2(3, 2, num_buckets=1)
    with pytest.raises(RuntimeError, match="obs_shape must have one axis"):
        TDMPC2((3, 8, 8), 2)


def test_values_for_other_callers_are_those_of_the_latent_state() -> None:
    model = _policy().eval_mode.get_attribute("model")
    obs, action = torch.randn(4, 3), torch.rand(4, _A)
    q = model({"obs": obs, "action": action}, mode="compute_critic")["q_value"]
    assert torch.equal(q, model.values(model.encode(obs), action).mean().squeeze(-1))
    assert q.shape == (_E, 4)
    mu, sigma = model(obs, mode="compute_actor")["logit"]
    assert mu.shape == sigma.shape == (4, _A)


# Plans.


def test_an_iteration_of_a_plan_is_that_of_plain_loops() -> None:
    random = np.random.default_rng(1)
    mean, noise = random.normal(size=(2, _T, _A)) / 4, random.normal(size=(2, 7, _T, _A))
    proposals = random.uniform(-1, 1, size=(2, 3, _T, _A))
    best = random.uniform(-1, 1, size=(2, _T, _A))
    cfg = {"iterations": 1, "num_samples": 10, "num_elites": 4, "min_std": 0.2, "max_std": 0.5, "temperature": 3.0}

    def returns(actions: torch.Tensor) -> torch.Tensor:
        return -(actions - torch.from_numpy(best).unsqueeze(1)).square().sum((2, 3))

    plan = mppi(returns, torch.from_numpy(mean), torch.from_numpy(proposals), cfg, lambda *_: torch.from_numpy(noise))
    for env in range(2):
        candidates = [*proposals[env], *(np.clip(mean[env] + 0.5 * one, -1, 1) for one in noise[env])]
        scores = [-((one - best[env]) ** 2).sum() for one in candidates]
        elites = sorted(zip(scores, range(10)), reverse=True)[:4]
        weights = np.array([np.exp(3.0 * score) for score, _ in elites])
        weights /= weights.sum()
        chosen = [candidates[index] for _, index in elites]
        expected = sum(weight * one for weight, one in zip(weights, chosen))
        variance = sum(weight * (one - expected) ** 2 for weight, one in zip(weights, chosen))
        np.testing.assert_allclose(plan.mean[env], expected)
        np.testing.assert_allclose(plan.std[env], np.clip(np.sqrt(variance), 0.2, 0.5))
        np.testing.assert_allclose(plan.weights[env], weights)
        np.testing.assert_allclose(plan.elites[env], chosen)


class _Certain:
    """A distribution that is one number."""

    def __init__(self, number: torch.Tensor) -> None:
        self._number = number

    def mean(self) -> torch.Tensor:
        return self._number


class _Cart(nn.Module):
    """The state is a place; an action moves it by half of its size, and a reward is minus the squared distance from 0.

    From a place in [-0.5, 0.5] the best first action is minus twice the place, and 0 after it.
    """

    action_size = 1

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Linear(1, 1)
        self.num_steps = 0

    def encode(self, obs: torch.Tensor) -> torch.Tensor:
        return obs

    def step(self, latent: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        self.num_steps += 1
        return latent + 0.5 * action

    def reward(self, latent: torch.Tensor, action: torch.Tensor) -> _Certain:
        return _Certain(-100 * (latent + 0.5 * action).square())

    def values(self, latent: torch.Tensor, action: torch.Tensor) -> _Certain:
        return _Certain(-100 * latent.square().expand(_E, *latent.shape))

    def prior(self, latent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros_like(latent), torch.ones_like(latent)


_CART = {
    "plan": {"iterations": 10, "num_samples": 128, "num_elites": 16, "num_policy_trajectories": 8, "min_std": 0.01},
    "model": {"obs_shape": 1, "action_shape": 1},
}


def _planner(**plan: Any) -> TDMPC2Policy:
    changes = deep_merge_dicts(_CART, {"plan": plan})
    cfg = deep_merge_dicts(deep_merge_dicts(TDMPC2Policy.default_config(), _SMALL), changes)
    return TDMPC2Policy(cfg, model=_Cart(), enable_field=["collect", "eval"])


_PLACES = torch.tensor([[0.4], [-0.3], [0.0], [0.5], [-0.15]])


# Collecting takes the action of one of the best candidates.
@pytest.mark.parametrize(("mode", "tolerance"), [("collect_mode", 0.3), ("eval_mode", 0.1)])
def test_plans_find_the_best_actions_of_all_environments_in_one_pass(mode: str, tolerance: float) -> None:
    policy = _planner()
    torch.manual_seed(0)
    output = getattr(policy, mode).forward(EnvBatch(np.arange(5), _PLACES))
    np.testing.assert_allclose(output.columns["action"], -2 * _PLACES, atol=tolerance)
    # The proposals take a step less than the plan has actions.
    assert policy.eval_mode.get_attribute("model").num_steps == 10 * _T + _T - 1


def test_a_far_place_is_left_as_fast_as_actions_allow() -> None:
    action = _planner().eval_mode.forward(EnvBatch(np.arange(2), torch.tensor([[3.0], [-3.0]]))).columns["action"]
    np.testing.assert_allclose(action, [[-1.0], [1.0]], atol=0.02)


def test_an_evaluation_depends_on_the_observations_of_its_episode_alone() -> None:
    torch.manual_seed(0)
    expected = _planner().eval_mode.forward(EnvBatch(np.arange(5), _PLACES)).columns["action"]
    state = torch.get_rng_state()
    policy = _planner()
    for order in ([3], [1, 4], [0, 2]):
        torch.manual_seed(order[0] + 10)
        found = policy.eval_mode.forward(EnvBatch(np.array(order), _PLACES[order])).columns["action"]
        torch.testing.assert_close(found, expected[order], rtol=1e-5, atol=1e-6)
    torch.manual_seed(0)
    _planner().eval_mode.forward(EnvBatch(np.arange(5), _PLACES))
    assert torch.equal(torch.get_rng_state(), state)


def test_collecting_explores() -> None:
    policy = _planner(min_std=0.3, max_std=0.3)
    torch.manual_seed(0)
    actions = []
    for _ in range(40):
        policy.collect_mode.reset()
        actions.append(policy.collect_mode.forward(EnvBatch(np.arange(5), _PLACES)).columns["action"])
    spread = torch.stack(actions).std(0)
    assert ((spread > 0.1) & (spread < 0.5)).all()
    assert torch.stack(actions).abs().max() <= 1


@pytest.mark.parametrize("mode", ["collect", "eval"])
def test_a_plan_begins_with_the_last_one_until_the_episode_ends(mode: str) -> None:
    # One candidate at deviation 0 but the mean itself: a plan is what it begins with.
    policy = _planner(num_samples=1, num_elites=1, num_policy_trajectories=0, min_std=0.0, max_std=0.0, iterations=1)
    acting = getattr(policy, f"{mode}_mode")
    policy.eval_mode.set_attribute(
        f"{mode}_means",
        {
            "mean": torch.arange(9.0).reshape(3, 3, 1) / 10,
            "known": torch.tensor([True, True, False]),
        },
    )

    def act(*env_ids: int) -> list[float]:
        places = torch.zeros(len(env_ids), 1)
        return acting.forward(EnvBatch(np.array(env_ids), places)).columns["action"].flatten().tolist()

    assert act(0, 1, 2) == pytest.approx([0.0, 0.3, 0.0])
    assert act(1, 0) == pytest.approx([0.4, 0.1])
    acting.reset([1])
    # Environment 1 begins anew, 0 moves on, and the last action of a plan that has moved on is 0.
    assert act(0, 1) == pytest.approx([0.2, 0.0])
    assert act(0, 1) == pytest.approx([0.0, 0.0])


def test_a_reset_forgets_all_plans_and_those_of_no_other_mode() -> None:
    policy = _planner()
    first = policy.eval_mode.forward(EnvBatch(np.arange(5), _PLACES)).columns["action"]
    second = policy.eval_mode.forward(EnvBatch(np.arange(5), _PLACES)).columns["action"]
    policy.collect_mode.reset()
    third = policy.eval_mode.forward(EnvBatch(np.arange(5), _PLACES)).columns["action"]
    policy.eval_mode.reset()
    assert torch.equal(first, policy.eval_mode.forward(EnvBatch(np.arange(5), _PLACES)).columns["action"])
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"horizon": 1}, "policy.horizon must be at least 2, found 1"),
        (
            {"plan": {"num_elites": 25}},
            "policy.plan.num_elites must be at least 1 and at most policy.plan.num_samples=24",
        ),
        (
            {"plan": {"num_policy_trajectories": 25}},
            "policy.plan.num_policy_trajectories must be at least 0 and at most",
        ),
        ({"plan": {"iterations": 0}}, "policy.plan.iterations must be at least 1, found 0"),
        ({"plan": {"max_std": 0.01}}, "policy.plan.max_std must be at least 0.05, found 0.01"),
    ],
)
def test_numbers_of_a_plan_that_do_not_fit_are_named(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(PolicyConfigError, match=told):
        _policy(changes)


# Samples and states.


def _collected(policy: TDMPC2Policy, num_steps: int, ends: dict[int, bool]) -> list[TransitionBatch]:
    """One environment; ``ends``: the steps with which an episode ends, and whether by a time limit."""
    steps = []
    for t in range(num_steps):
        obs = EnvBatch(np.arange(1), torch.full((1, 3), float(t)))
        output = policy.collect_mode.forward(obs)
        following = torch.full((1, 3), t + 1.0)
        done, truncated = np.array([t in ends]), np.array([ends.get(t, False)])
        timestep = TimestepBatch(np.arange(1), following, np.full((1, 1), t, dtype=np.float32), done, truncated, {})
        steps.append(TransitionBatch(policy.collect_mode.process_transition(obs.columns, output.columns, timestep)))
    return steps


def test_there_is_a_sequence_for_each_step_of_an_episode() -> None:
    policy = _policy()
    samples = policy.collect_mode.get_train_sample(TransitionBatch.concat(_collected(policy, 5, {4: False})))
    assert policy.collect_mode.get_attribute("unroll_len") - policy.collect_mode.get_attribute("sequence_overlap") == 1
    assert np.asarray(samples.columns["obs"])[:, :, 0].tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert np.asarray(samples.columns["done"]).tolist() == [[False] * 3, [False] * 3, [False, False, True]]
    assert not np.asarray(samples.columns["null"]).any()


def test_a_short_episode_is_filled_up_by_the_observation_after_it() -> None:
    policy = _policy()
    samples = policy.collect_mode.get_train_sample(TransitionBatch.concat(_collected(policy, 2, {1: True})))
    columns = samples.columns
    assert np.asarray(columns["obs"])[:, :, 0].tolist() == [[0, 1, 2]]
    assert np.asarray(columns["null"]).tolist() == [[False, False, True]]
    # A time limit, whose value is bootstrapped.
    assert np.asarray(columns["done"])[:, :2].tolist() == [[False, False]]


def test_learning_goes_on_exactly_from_a_saved_state() -> None:
    whole, parts, batch = _policy({"model": {"dropout": 0.1}}), _policy({"model": {"dropout": 0.1}}), _sequences()

    def learn(policy: TDMPC2Policy, seeds: range) -> list[dict[str, float]]:
        logs = []
        for seed in seeds:
            torch.manual_seed(seed)
            logs.append(policy.learn_mode.forward(batch))
        return logs

    learn(whole, range(3))
    parts.learn_mode.load_state_dict(copy.deepcopy(whole.learn_mode.state_dict()))
    assert learn(parts, range(3, 6)) == learn(whole, range(3, 6))


# Learning.


def _pushed(state: np.ndarray, force: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places and velocities ``[N, 2]`` of masses after a push ``[N, 1]``, and their rewards ``[N, 1]``."""
    velocity = 0.9 * state[:, 1:] + 0.3 * force
    place = np.clip(state[:, :1] + 0.3 * velocity, -2, 2)
    following = np.concatenate([place, velocity], 1).astype(np.float32)
    return following, -(place**2) - 0.1 * velocity**2


def _mean_return(act: Callable[[np.ndarray], np.ndarray]) -> float:
    """Of 20 steps of 16 masses."""
    state, total = np.random.default_rng(5).uniform(-1.5, 1.5, (16, 2)).astype(np.float32), 0.0
    for _ in range(20):
        state, reward = _pushed(state, act(state))
        total += float(reward.mean())
    return total


def test_random_pushes_teach_to_bring_a_mass_to_rest() -> None:
    model = {"obs_shape": 2, "action_shape": 1, "latent_size": 16, "hidden_size": 32, "num_buckets": 41}
    policy = _fresh_policy(
        {"model": {**model, "max_symlog": 4.0}, "learn": {"learning_rate": 3e-3, "entropy_weight": 1e-4}}
    )
    random = np.random.default_rng(0)
    states = [random.uniform(-1.5, 1.5, (200, 2)).astype(np.float32)]
    forces, rewards = random.uniform(-1, 1, (20, 200, 1)).astype(np.float32), []
    for force in forces:
        following, reward = _pushed(states[-1], force)
        states.append(following)
        rewards.append(reward.astype(np.float32))
    obs, action, reward = np.stack(states), forces, np.stack(rewards)
    set_pkg_seed(0, use_cuda=False)
    for _ in range(150):
        episode, step = random.integers(200, size=(64, 1)), random.integers(18, size=(64, 1)) + np.arange(_T)
        fields = {"obs": obs[step, episode], "next_obs": obs[step + 1, episode], "action": action[step, episode]}
        columns: dict[str, Any] = {key: torch.from_numpy(value) for key, value in fields.items()}
        columns["reward"] = torch.from_numpy(reward[step, episode])
        columns["done"] = columns["null"] = np.zeros((64, _T), dtype=np.bool_)
        policy.learn_mode.forward(TransitionBatch(columns))

    def planned(state: np.ndarray) -> np.ndarray:
        output = policy.eval_mode.forward(EnvBatch(np.arange(16), torch.from_numpy(state)))
        return np.asarray(output.columns["action"])

    assert _mean_return(lambda state: random.uniform(-1, 1, (16, 1))) < -25
    assert _mean_return(planned) > -8
