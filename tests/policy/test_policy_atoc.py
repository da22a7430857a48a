"""ATOC: the numbers of its first learn steps, samples of columns and rows."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch, TransitionBatch
from ding.policy import ATOCPolicy
from ding.utils import deep_merge_dicts


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def policy_of(talks: bool, **overrides: Any) -> ATOCPolicy:
    torch.manual_seed(0)
    model = {"obs_shape": 4, "action_shape": 2, "n_agent": 3, "communication": talks}
    given = {"model": model, "learn": {"communication": talks, "noise": False, "batch_size": 4}}
    cfg = deep_merge_dicts(ATOCPolicy.default_config(), given)
    return ATOCPolicy(deep_merge_dicts(cfg, overrides))


def samples() -> list[dict[str, Any]]:
    return [
        {
            "obs": wave((3, 4), 0.3 * i),
            "next_obs": wave((3, 4), 0.3 * i + 0.2),
            "action": 0.9 * wave((3, 2), 0.4 * i),
            "delta_q": 0.5 + 0.5 * wave((3,), 0.2 * i),
            "reward": wave((1,), 0.5 + i),
            "done": i == 3,
        }
        for i in range(4)
    ]


def fill(network: Any) -> None:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))


def total(network: Any) -> float:
    return sum(parameter.abs().sum().item() for parameter in network.parameters())


TALKING = [
    {"priority": [0.273634, 1.29188, 0.44757, 1.97334], "q_value": 0.945753, "critic_loss": 0.996607,
     "attention_loss": 0.621412, "actor_loss": -1.02941, "total_loss": 0.588609},
    {"priority": [0.213952, 1.14584, 0.368669, 2.13632], "q_value": 1.00732, "critic_loss": 0.966196,
     "attention_loss": 0.616914, "actor_loss": -1.08574, "total_loss": 0.497373},
    {"priority": [0.161018, 1.00869, 0.299936, 2.29857], "q_value": 1.06808, "critic_loss": 0.942054,
     "attention_loss": 0.612322, "actor_loss": -1.13814, "total_loss": 0.416234},
]  # fmt: skip
SILENT = [
    {"priority": [0.273669, 1.29196, 0.447616, 1.97334], "critic_loss": 0.996647, "actor_loss": -1.02945,
     "total_loss": -0.0328009},
    {"priority": [0.213983, 1.14592, 0.36871, 2.13632], "critic_loss": 0.966232, "actor_loss": -1.08578},
    {"priority": [0.161044, 1.00876, 0.29997, 2.29858], "critic_loss": 0.942087, "actor_loss": -1.1382},
]  # fmt: skip


@pytest.mark.parametrize(
    ("talks", "rows", "learner", "target"), [(True, TALKING, 733.964, 726.489), (False, SILENT, 466.893, 463.282)]
)
def test_first_learn_steps(talks: bool, rows: list[dict[str, Any]], learner: float, target: float) -> None:
    policy = policy_of(talks, reference_numerics=True)
    networks = [policy.learn_mode.get_attribute(name) for name in ("model", "target_model")]
    for network in networks:
        fill(network)
    for expected in rows:
        result = policy.learn_mode.forward(samples())
        for key, value in expected.items():
            assert result[key] == pytest.approx(value, rel=1e-5), key
    assert [total(network) for network in networks] == pytest.approx([learner, target], rel=1e-5)
    assert ("optimize_actor_attention" in policy.learn_mode.state_dict()) is talks


def segments(policy: ATOCPolicy, columns: bool) -> list[Any]:
    torch.manual_seed(1)
    mode, ids = policy.collect_mode, np.arange(2)
    made: list[Any] = [[], []]
    for t in range(3):
        obs, after = wave((2, 3, 4), 0.3 * t), wave((2, 3, 4), 0.3 * (t + 1))
        reward, done = torch.full((2, 1), float(t)), np.array([t == 2, False])
        if columns:
            output = mode.forward(EnvBatch(ids, obs))
            step = TimestepBatch(ids, after, reward, done, np.zeros(2, dtype=bool), {})
            batch = TransitionBatch(mode.process_transition(obs, output.columns, step))
        else:
            output = mode.forward({0: obs[0], 1: obs[1]})
        for i in range(2):
            if columns:
                made[i].append(batch[[i]])
            else:
                one = BaseEnvTimestep(after[i], reward[i], bool(done[i]), {})
                made[i].append(mode.process_transition(obs[i], output[i], one))
    if columns:
        made = [TransitionBatch(TransitionBatch.concat(piece).columns) for piece in made]
    return [row for piece in made for row in mode.get_train_sample(piece)]


@pytest.mark.parametrize("talks", [True, False])
def test_columns_and_rows_agree(talks: bool) -> None:
    by_columns, by_rows = policy_of(talks), policy_of(talks)
    left, right = segments(by_columns, True), segments(by_rows, False)
    for one, other in zip(left, right, strict=True):
        assert list(one) == list(other)
        for key in one:
            np.testing.assert_allclose(np.asarray(one[key]), np.asarray(other[key]), rtol=1e-5, atol=1e-6)
    if talks:
        gains = np.stack([np.asarray(row["delta_q"]) for row in left[:3]])
        assert gains.min() == 0
        assert gains.max() == pytest.approx(1, abs=1e-2)
    results = by_columns.learn_mode.forward(TransitionBatch.from_rows(left)), by_rows.learn_mode.forward(right)
    assert results[0].pop("priority") == pytest.approx(results[1].pop("priority"), rel=1e-5)
    assert results[0] == pytest.approx(results[1], rel=1e-5, abs=1e-6)
    greedy = by_columns.eval_mode.forward(EnvBatch(np.arange(2), wave((2, 3, 4), 0.1)))
    assert greedy[1]["action"].shape == (3, 2)


def test_gains_are_scaled_in_each_segment() -> None:
    def gains(scale: float) -> TransitionBatch:
        return TransitionBatch(
            {
                "obs": wave((4, 3, 4), 0.1), "next_obs": wave((4, 3, 4), 0.2), "action": wave((4, 3, 2), 0.3),
                "delta_q": scale * torch.arange(12.0).reshape(4, 3), "reward": wave((4, 1), 0.4),
                "done": np.arange(4) == 3,
            }
        )  # fmt: skip

    mode = policy_of(True).collect_mode
    alone = mode.get_train_sample(gains(1.0)).columns["delta_q"]
    together = TransitionBatch(TransitionBatch.concat([gains(1.0), gains(100.0)]).columns, np.array([4, 4]))
    assert torch.equal(mode.get_train_sample(together).columns["delta_q"][:4], alone)
