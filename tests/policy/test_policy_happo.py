"""HAPPO: the numbers of its first learn steps, columns and rows, agents that differ."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch, TransitionBatch
from ding.policy import HAPPOPolicy, PolicyConfigError
from ding.utils import deep_merge_dicts

MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def observation(phase: float, discrete: bool) -> dict[str, torch.Tensor]:
    obs = {"agent_state": wave((2, 4), phase), "global_state": wave((2, 6), phase + 0.1)}
    return {**obs, "action_mask": MASK} if discrete else obs


def samples(discrete: bool) -> list[dict[str, Any]]:
    def action(i: int) -> dict[str, Any]:
        if discrete:
            return {"action": torch.tensor([i % 2, i % 3]), "logit": wave((2, 3), 0.1 * i)}
        logit = {"mu": wave((2, 2), 0.1 * i), "sigma": torch.full((2, 2), 0.6)}
        return {"action": 0.9 * wave((2, 2), 0.4 * i), "logit": logit}

    return [
        {
            "obs": observation(0.3 * i, discrete),
            "next_obs": observation(0.3 * i + 0.2, discrete),
            **action(i),
            "value": wave((2,), 0.2 * i),
            "adv": wave((2,), 0.6 * i),
            "reward": wave((1,), 0.5 + i),
            "done": i == 3,
            "traj_flag": i == 3,
        }
        for i in range(4)
    ]


def policy_of(discrete: bool, **overrides: Any) -> HAPPOPolicy:
    torch.manual_seed(0)
    space = "discrete" if discrete else "continuous"
    model = {
        "agent_obs_shape": 4, "global_obs_shape": 6, "action_shape": 3 if discrete else 2, "agent_num": 2,
        "action_space": space, "sigma_type": "happo",
    }  # fmt: skip
    given = {"agent_num": 2, "action_space": space, "model": model, "learn": {"critic_learning_rate": 5e-4}}
    cfg = deep_merge_dicts(HAPPOPolicy.default_config(), given)
    return HAPPOPolicy(deep_merge_dicts(cfg, overrides))


def fill(network: Any) -> None:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.linspace(-0.05, 0.05, parameter.numel()).reshape(parameter.shape))


DISCRETE = [
    {"agent0_total_loss": 0.445107, "agent0_policy_loss": 0.220777, "agent0_value_loss": 0.44866,
     "agent0_entropy_loss": 0.680277, "agent0_adv_max": 1.04134, "agent0_value_mean": 0.196396,
     "agent0_value_max": 0.23487, "agent0_approx_kl": -0.642933, "agent0_clipfrac": 1},
    {"agent1_total_loss": 0.652511, "agent1_policy_loss": 0.26012, "agent1_value_loss": 0.784783,
     "agent1_entropy_loss": 1.08323, "agent1_adv_max": 1.044, "agent1_value_mean": 0.126675,
     "agent1_value_max": 0.187172, "agent1_approx_kl": 0.0895811, "agent1_clipfrac": 0.75},
    {"agent0_total_loss": 0.580148, "agent0_policy_loss": 0.219924, "agent0_value_loss": 0.720449,
     "agent0_entropy_loss": 0.681629, "agent0_adv_max": 1.04115, "agent0_value_mean": 0.21802,
     "agent0_value_max": 0.259268, "agent0_approx_kl": -0.644199, "agent0_clipfrac": 1},
    {"agent1_total_loss": 0.652392, "agent1_policy_loss": 0.255529, "agent1_value_loss": 0.793726,
     "agent1_entropy_loss": 1.08456, "agent1_adv_max": 1.04446, "agent1_value_mean": 0.144543,
     "agent1_value_max": 0.208456, "agent1_approx_kl": 0.0863978, "agent1_clipfrac": 0.75},
]  # fmt: skip
CONTINUOUS = [
    {"agent0_total_loss": 0.197128, "agent0_policy_loss": -0.0272024, "agent0_value_loss": 0.44866,
     "agent0_entropy_loss": 0.0323317, "agent0_approx_kl": 1.4865, "agent0_act": 0.620779,
     "agent0_mu_mean": 0.136149, "agent0_sigma_mean": 0.25},
    {"agent1_total_loss": 0.763392, "agent1_policy_loss": 0.371, "agent1_value_loss": 0.784783,
     "agent1_approx_kl": 2.44456, "agent1_act": 0.542979, "agent1_mu_mean": 0.0825138},
    {"agent0_total_loss": 0.328057, "agent0_policy_loss": -0.0321675, "agent0_value_loss": 0.720449,
     "agent0_entropy_loss": 0.0324817, "agent0_mu_mean": 0.145293, "agent0_sigma_mean": 0.250037},
    {"agent1_total_loss": 0.768575, "agent1_policy_loss": 0.371712, "agent1_value_loss": 0.793726,
     "agent1_approx_kl": 2.43448, "agent1_mu_mean": 0.0876867, "agent1_sigma_mean": 0.250037},
]  # fmt: skip


@pytest.mark.parametrize(("discrete", "rows", "total"), [(True, DISCRETE, 3196.71), (False, CONTINUOUS, 3213.13)])
def test_first_learn_steps(discrete: bool, rows: list[dict[str, float]], total: float) -> None:
    policy = policy_of(discrete, reference_numerics=True, learn={"epoch_per_collect": 1, "batch_size": 4})
    network = policy.learn_mode.get_attribute("model")
    fill(network)
    found = [row for _ in range(2) for row in policy.learn_mode.forward(samples(discrete))]
    for expected, row in zip(rows, found, strict=True):
        for key, value in expected.items():
            assert row[key] == pytest.approx(value, rel=1e-5), key
    assert sum(p.abs().sum().item() for p in network.parameters()) == pytest.approx(total, rel=1e-5)


def collected(policy: HAPPOPolicy, columns: bool) -> Any:
    """Four steps of two envs, one of which ends."""
    ids, steps = np.arange(2), 4

    def seen(t: int) -> dict[str, torch.Tensor]:
        rows = [observation(0.3 * t + i, True) for i in range(2)]
        return {key: torch.stack([row[key] for row in rows]) for key in rows[0]}

    torch.manual_seed(1)
    mode = policy.collect_mode
    pieces: list[Any] = [[], []]
    for t in range(steps):
        obs, following, done = seen(t), seen(t + 1), np.array([t == steps - 1, False])
        reward = torch.full((2, 1), 0.5 * t)
        if columns:
            output = mode.forward(EnvBatch(ids, obs))
            step = TimestepBatch(ids, following, reward, done, np.zeros(2, dtype=bool), {})
            made = TransitionBatch(mode.process_transition(obs, output.columns, step))
            for i in range(2):
                pieces[i].append(made[[i]])
        else:
            rows = {i: {key: value[i] for key, value in obs.items()} for i in range(2)}
            output = mode.forward(rows)
            for i in range(2):
                after = {key: value[i] for key, value in following.items()}
                step = BaseEnvTimestep(after, reward[i], bool(done[i]), {})
                pieces[i].append(mode.process_transition(rows[i], output[i], step))
    if columns:
        pieces = [TransitionBatch(TransitionBatch.concat(piece).columns) for piece in pieces]
    return [row for piece in pieces for row in mode.get_train_sample(piece)]


@pytest.mark.parametrize("recompute", [True, False])
def test_columns_and_rows_agree(recompute: bool) -> None:
    results = []
    for columns in (True, False):
        policy = policy_of(True, recompute_adv=recompute, learn={"epoch_per_collect": 2, "batch_size": 4})
        data = collected(policy, columns)
        assert [tuple(row["adv"].shape) for row in data] == [(2,)] * 8
        torch.manual_seed(2)
        np.random.seed(2)
        results.append(policy.learn_mode.forward(TransitionBatch.from_rows(data) if columns else data))
    for left, right in zip(*results, strict=True):
        assert left == pytest.approx(right, rel=1e-5, abs=1e-6)


def test_agents_have_networks_of_their_own_and_learn_in_any_order() -> None:
    policy = policy_of(True, learn={"epoch_per_collect": 1, "batch_size": 4})
    first, second = policy.learn_mode.get_attribute("model").agent_models
    assert not {id(p) for p in first.parameters()} & {id(p) for p in second.parameters()}
    orders = set()
    for seed in range(6):
        torch.manual_seed(seed)
        rows = policy.learn_mode.forward(samples(True))
        orders.add(tuple(next(iter(row))[:6] for row in rows))
    assert orders == {("agent0", "agent1"), ("agent1", "agent0")}


def test_a_learn_state_goes_on_where_it_was() -> None:
    policies = [policy_of(True, learn={"epoch_per_collect": 1, "batch_size": 4}) for _ in range(2)]
    policies[0].learn_mode.forward(samples(True))
    policies[1].learn_mode.load_state_dict(copy.deepcopy(policies[0].learn_mode.state_dict()))
    rows = []
    for policy in policies:
        torch.manual_seed(0)
        np.random.seed(0)
        rows.append(policy.learn_mode.forward(samples(True)))
    assert rows[0] == rows[1]


def test_the_number_of_agents_is_asked_for() -> None:
    with pytest.raises(PolicyConfigError, match="agent_num"):
        policy_of(True, agent_num=None)


def test_one_agent_is_a_number_of_agents_too():
    policy = policy_of(True, agent_num=1, model={"agent_num": 1}, learn={"epoch_per_collect": 1, "batch_size": 4})
    rows = samples(True)
    for row in rows:
        for key in ("obs", "next_obs"):
            row[key] = {**row[key], "agent_state": row[key]["agent_state"][:1], "action_mask": MASK[:1]}
        row |= {key: row[key][:1] for key in ("action", "logit", "value", "adv")}
    result = policy.learn_mode.forward(rows)
    assert [name for name in result[0] if name.endswith("total_loss")] == ["agent0_total_loss"]
    assert math.isfinite(result[0]["agent0_total_loss"])
