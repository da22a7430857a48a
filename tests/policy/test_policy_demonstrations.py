"""DQfD and R2D3: the numbers of their first learn steps, their samples, and what demonstrations change."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.policy import DQFDCommandModePolicy, DQFDPolicy, R2D3CommandModePolicy, R2D3Policy
from ding.utils import deep_merge_dicts


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def make(cls: type, **overrides: Any) -> Any:
    torch.manual_seed(0)
    base: dict[str, Any] = {"model": {"obs_shape": 4, "action_shape": 2}}
    if issubclass(cls, R2D3Policy):
        sizes = {"nstep": 2, "burnin_step": 2, "learn_unroll_len": 6, "collect": {"env_num": 2}, "eval": {"env_num": 2}}
        base |= {**sizes, "learn": {"batch_size": 2}}
    else:
        base |= {"nstep": 3, "learn": {"batch_size": 4}}
    return cls(deep_merge_dicts(deep_merge_dicts(cls.default_config(), base), overrides))


def fill(policy: Any) -> None:
    for name in ("model", "target_model"):
        with torch.no_grad():
            for p in policy.learn_mode.get_attribute(name).parameters():
                p.copy_(torch.linspace(-0.1, 0.1, p.numel()).reshape(p.shape))


def total(policy: Any, name: str) -> float:
    return sum(float(p.detach().abs().sum()) for p in policy.learn_mode.get_attribute(name).parameters())


def dqfd_samples() -> list[dict[str, Any]]:
    return [
        {
            "obs": wave((4,), 0.3 * i),
            "next_obs": wave((4,), 0.3 * i + 0.2),
            "next_obs_1": wave((4,), 0.3 * i + 0.1),
            "action": torch.tensor(i % 2),
            "reward": wave((3,), 0.5 + i),
            "done": i == 3,
            "done_1": i == 3,
            "is_expert": i % 2,
            "IS": 1 / (1 + i),
            "value_gamma": 0.99**3,
        }
        for i in range(4)
    ]


def episode(length: int, b: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "obs": wave((4,), 0.3 * t + b),
            "action": torch.tensor((t + b) % 2),
            "prev_state": {"h": 0.1 * wave((1, 1, 64), 0.1 * t), "c": 0.1 * wave((1, 1, 64), 0.2 * t)},
            "reward": wave((1,), 0.5 * t + b),
            "done": t == length - 1,
        }
        for t in range(length)
    ]


def r2d3_samples(policy: Any) -> list[dict[str, Any]]:
    samples = [sample for b in range(2) for sample in policy.collect_mode.get_train_sample(episode(8, b))]
    return [{**sample, "IS": 1 / (1 + b), "is_expert": [float(b)] * 8} for b, sample in enumerate(samples)]


@pytest.mark.parametrize("as_columns", [False, True], ids=["rows", "columns"])
def test_first_learn_steps_of_dqfd(as_columns):
    policy = make(DQFDPolicy, reference_numerics=True)
    fill(policy)
    for loss, priority in (
        (136.856, [340.029, 4.33749, 289.048, 435.5]),
        (129.063, [321.811, 8.06975, 271.505, 399.617]),
        (121.74, [300.519, 8.10482, 251.217, 394.603]),
    ):
        data: Any = dqfd_samples()
        result = policy.learn_mode.forward(
            TransitionBatch(TransitionBatch.from_rows(data).columns) if as_columns else data
        )
        assert result["total_loss"] == pytest.approx(loss, rel=1e-5)
        assert result["priority"] == pytest.approx(priority, rel=1e-5)
        assert set(result) >= set(policy.learn_mode.monitor_vars())
    assert total(policy, "model") == pytest.approx(1693.42, rel=1e-5)
    assert total(policy, "target_model") == pytest.approx(1696.9, rel=1e-5)


R2D3_STEPS: dict[bool, Any] = {
    True: [
        (4.44042, 2.90755, 2.9154, 0.811663, [10.7786, 12.7904], 1.144, 2.34256, 1.14413),
        (4.3826, 2.86206, 2.87002, 0.820022, [10.6422, 12.6957], 1.17321, 2.34261, 1.17334),
        (4.33456, 2.82482, 2.83282, 0.825448, [10.5229, 12.6054], 1.19573, 2.34272, 1.19585),
    ],
    False: [
        (9.24155, 6.06849, 4.47796, 0.761663, [25.1135, 19.2272], 1.144, 2.34256, 1.14413),
        (9.10733, 5.97536, 4.40017, 0.770022, [24.9095, 19.0835], 1.17321, 2.34261, 1.17334),
        (9.00053, 5.90187, 4.3383, 0.775493, [24.7304, 18.9503], 1.19585, 2.34272, 1.19597),
    ],
}


@pytest.mark.parametrize("value_rescale", [True, False])
def test_first_learn_steps_of_r2d3(value_rescale):
    policy = make(R2D3Policy, reference_numerics=True, learn={"value_rescale": value_rescale})
    fill(policy)
    samples = r2d3_samples(policy)
    keys = ("total_loss", "nstep_loss", "1step_loss", "sl_loss", "priority")
    keys += ("q_s_taken-a_t0", "target_q_s_max-a_t0", "q_s_a-mean_t0")
    for expected in R2D3_STEPS[value_rescale]:
        result = policy.learn_mode.forward(samples)
        for key, value in zip(keys, expected, strict=True):
            assert result[key] == pytest.approx(value, rel=1e-5), key
        assert set(result) >= set(policy.learn_mode.monitor_vars())
    assert total(policy, "model") == pytest.approx(3402.9, rel=1e-5)
    assert total(policy, "target_model") == pytest.approx(3399.66, rel=1e-5)


def test_samples_keep_what_follows_after_one_step():
    steps = [{**step, "next_obs": wave((4,), 0.3 * (t + 1))} for t, step in enumerate(episode(5))]
    samples = make(DQFDPolicy).collect_mode.get_train_sample([dict(step) for step in steps])
    assert [sample["done"] for sample in samples] == [False, False, True, True, True]
    assert [sample["done_1"] for sample in samples] == [False] * 4 + [True]
    for step, sample in zip(steps, samples):
        torch.testing.assert_close(sample["next_obs_1"], step["next_obs"])
    (sequence,) = make(R2D3Policy).collect_mode.get_train_sample(episode(8))
    assert np.asarray(sequence["done_one_step"]).reshape(-1).tolist() == [False] * 7 + [True]
    assert np.asarray(sequence["done"]).reshape(-1).tolist() == [False] * 6 + [True] * 2


def test_demonstrations_raise_the_value_of_their_action():
    """With the other losses weighted 0, an update moves values of demonstrated actions above the others only."""
    policy = make(DQFDPolicy, priority=False, priority_IS_weight=False, learn={"lambda1": 0, "lambda_one_step_td": 0})
    own = [{**sample, "is_expert": 0} for sample in dqfd_samples()]
    before = total(policy, "model")
    assert policy.learn_mode.forward(own)["total_loss"] == 0.0
    assert total(policy, "model") == pytest.approx(before, rel=1e-6)
    expert = [{**sample, "is_expert": 1} for sample in dqfd_samples()]
    losses = [policy.learn_mode.forward(expert)["sl_loss"] for _ in range(30)]
    assert losses[-1] < 0.7 * losses[0]


def test_samples_without_a_mark_are_the_agents():
    marked = [{**sample, "is_expert": 0} for sample in dqfd_samples()]
    unmarked = [{key: value for key, value in sample.items() if key != "is_expert"} for sample in marked]
    results = [make(DQFDPolicy).learn_mode.forward(samples) for samples in (marked, unmarked)]
    assert results[0] == results[1]


def test_what_fills_up_a_short_episode_is_not_learned():
    policy = make(R2D3Policy, priority=False, priority_IS_weight=False)
    (sample,) = policy.collect_mode.get_train_sample(episode(5))
    sample["is_expert"] = [1.0] * len(sample["done"])
    changed = {**sample, "obs": sample["obs"].clone(), "reward": torch.as_tensor(sample["reward"]).clone()}
    changed["obs"][5:] = 7.0
    changed["reward"][5:] = 7.0
    losses = [
        make(R2D3Policy, priority=False, priority_IS_weight=False).learn_mode.forward([one])
        for one in (sample, changed)
    ]
    for key in ("total_loss", "nstep_loss", "1step_loss", "sl_loss"):
        assert losses[0][key] == pytest.approx(losses[1][key], rel=1e-6), key


@pytest.mark.parametrize("cls", [DQFDCommandModePolicy, R2D3CommandModePolicy])
def test_the_command_twins_anneal_epsilon(cls):
    command = make(cls).command_mode
    assert command.get_setting_collect({"envstep": 0}) == {"eps": pytest.approx(0.95)}
