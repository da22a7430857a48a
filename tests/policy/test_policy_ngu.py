"""NGU: the numbers of its first learn steps, its family, and what a transition keeps."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import EnvBatch, TimestepBatch
from ding.policy import NGUCommandModePolicy, NGUPolicy, PolicyConfigError
from ding.policy.errors import PolicyDataError
from ding.rl_utils.policy_family import family_betas, family_eps, family_gammas
from ding.utils import deep_merge_dicts


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def make(cls: type = NGUPolicy, **overrides: Any) -> Any:
    torch.manual_seed(0)
    base = {
        "model": {"obs_shape": 4, "action_shape": 2, "collector_env_num": 2}, "nstep": 2, "burnin_step": 2,
        "learn_unroll_len": 6, "collect": {"env_num": 2}, "eval": {"env_num": 2}, "learn": {"batch_size": 2},
    }  # fmt: skip
    return cls(deep_merge_dicts(deep_merge_dicts(cls.default_config(), base), overrides))


def episode(length: int, b: int, **fields: Any) -> list[dict[str, Any]]:
    return [
        {
            "obs": wave((4,), 0.3 * t + b),
            "action": torch.tensor((t + b) % 2),
            "prev_state": {"h": 0.1 * wave((1, 1, 64), 0.1 * t), "c": 0.1 * wave((1, 1, 64), 0.2 * t)},
            "reward": wave((1,), 0.5 * t + b),
            "done": t == length - 1,
            "beta": torch.tensor([b]),
        }
        for t in range(length)
    ]


def samples_of(policy: Any) -> list[dict[str, Any]]:
    samples = [sample for b in range(2) for sample in policy.collect_mode.get_train_sample(episode(8, b))]
    return [{**sample, "IS": 1 / (1 + b)} for b, sample in enumerate(samples)]


def test_first_learn_steps():
    policy = make(reference_numerics=True)
    for name in ("model", "target_model"):
        with torch.no_grad():
            for p in policy.learn_mode.get_attribute(name).parameters():
                p.copy_(torch.linspace(-0.1, 0.1, p.numel()).reshape(p.shape))
    samples = samples_of(policy)
    keys = ("total_loss", "priority", "q_s_taken-a_t0", "target_q_s_max-a_t0", "q_s_a-mean_t0")
    for expected in (
        (2.33404, [6.3632, 5.43723], 1.14397, 2.42827, 1.14409),
        (2.29729, [6.29145, 5.36619], 1.174, 2.42832, 1.17412),
        (2.26763, [6.22882, 5.30447], 1.19682, 2.42844, 1.19694),
    ):
        result = policy.learn_mode.forward(samples)
        for key, value in zip(keys, expected, strict=True):
            assert result[key] == pytest.approx(value, rel=1e-5), key
        assert set(result) >= set(policy.learn_mode.monitor_vars())
    sums = [
        sum(float(p.detach().abs().sum()) for p in policy.learn_mode.get_attribute(name).parameters())
        for name in ("model", "target_model")
    ]
    assert sums == pytest.approx([3466.9, 3463.66], rel=1e-5)


def test_the_steps_before_are_those_of_the_transitions_or_of_the_same_sequence():
    losses = []
    for kept in (False, True):
        policy = make(priority=False, priority_IS_weight=False)
        steps = episode(8, 1)
        if kept:
            for before, step in zip([None, *steps[:-1]], steps):
                step["prev_action"] = torch.tensor(-1) if before is None else before["action"]
                step["prev_reward_extrinsic"] = torch.zeros(1) if before is None else before["reward"].clone()
        losses.append(policy.learn_mode.forward(policy.collect_mode.get_train_sample(steps))["total_loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_each_member_learns_with_its_own_discount():
    def loss(beta: int, discount: int) -> float:
        policy = make(priority=False, priority_IS_weight=False)
        # The network reads the number of the member: it is the same one here.
        samples = policy.collect_mode.get_train_sample(
            [{**step, "beta": torch.tensor([beta]), "done": False} for step in episode(8, 0)]
        )
        gammas = policy.learn_mode.get_attribute("gammas")
        policy.learn_mode.set_attribute("gammas", gammas[[discount, discount]])
        return policy.learn_mode.forward(samples)["total_loss"]

    own = make(priority=False, priority_IS_weight=False)
    steps = [{**step, "beta": torch.tensor([1]), "done": False} for step in episode(8, 0)]
    assert own.learn_mode.forward(own.collect_mode.get_train_sample(steps))["total_loss"] == loss(1, 1) != loss(1, 0)


def observations(count: int = 2) -> EnvBatch:
    columns = {
        "obs": wave((count, 4), 0.0).numpy(),
        "prev_action": np.full(count, -1),
        "prev_reward_extrinsic": np.zeros((count, 1), dtype=np.float32),
    }
    return EnvBatch(np.arange(count), columns)


def test_members_are_drawn_anew_with_each_episode_and_the_first_one_is_evaluated():
    policy = make()
    seen = set()
    for _ in range(20):
        output = policy.collect_mode.forward(observations(), eps=1.0)
        seen.add(tuple(output.columns["beta"].flatten().tolist()))
        policy.collect_mode.reset([0, 1])
    assert seen == {(0, 0), (0, 1), (1, 0), (1, 1)}
    policy.eval_mode.reset()
    assert policy.eval_mode.forward(observations())[1]["action"].shape == (1,)
    never = np.zeros(2, dtype=bool)
    steps = TimestepBatch(np.arange(2), observations().columns, np.ones((2, 1), np.float32), never, never, {})
    columns = policy.collect_mode.process_transition(observations().columns, output.columns, steps)
    assert columns["obs"].shape == (2, 4)
    assert set(columns) == {
        *("obs", "action", "prev_state", "reward", "done", "beta", "prev_action", "prev_reward_extrinsic"),
        *("next_obs", "begins", "ends"),
    }
    with pytest.raises(PolicyDataError, match="obs_plus_prev_action_reward=True"):
        policy.collect_mode.forward(EnvBatch(np.arange(2), wave((2, 4), 0.0).numpy()))


def test_the_size_of_the_family_is_checked():
    with pytest.raises(PolicyConfigError, match=r"model\.collector_env_num=3 must be policy\.collect\.env_num=2"):
        make(model={"collector_env_num": 3})
    twin = make(NGUCommandModePolicy)
    assert set(twin.command_mode.get_setting_collect({"envstep": 0})) == {"eps"}


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_the_family(count):
    eps, gammas, betas = family_eps(count), family_gammas(count), family_betas(count)
    assert len(eps) == len(gammas) == len(betas) == count
    assert (eps[0], gammas[0], betas[-1]) == pytest.approx((0.4, 0.997, 0.3), rel=1e-4)
    if count > 1:
        assert (eps[-1], gammas[-1]) == pytest.approx((0.4**9, 0.99))
        assert betas[0] == pytest.approx(0.3 / (1 + math.exp(10)))
        assert betas == sorted(betas)
    if count == 3:
        # 0.3 sigmoid(10 (2 i - 1) / 1)
        assert betas[1] == pytest.approx(0.3 / (1 + math.exp(-10)))
