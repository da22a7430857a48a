"""ACER: the numbers of its first learn steps, its network, sequences of short segments, action masks."""

import math
from typing import Any

import pytest
import torch

from ding.model import ACER
from ding.policy import ACERPolicy
from ding.utils import deep_merge_dicts


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def fill(model: torch.nn.Module) -> None:
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.linspace(-0.1, 0.1, p.numel()).reshape(p.shape))


def size(model: torch.nn.Module) -> float:
    return sum(float(p.detach().abs().sum()) for p in model.parameters())


def make(steps: int = 3, **overrides: Any) -> Any:
    torch.manual_seed(0)
    base = {"model": {"obs_shape": 4, "action_shape": 2}, "learn": {"batch_size": 2, "unroll_len": steps}}
    return ACERPolicy(deep_merge_dicts(deep_merge_dicts(ACERPolicy.default_config(), base), overrides))


def segment(length: int, b: int = 0, done: bool = True, mask: bool = False) -> list[dict[str, Any]]:
    def observation(phase: float) -> Any:
        obs = wave((4,), phase)
        return {"observation": obs, "action_mask": torch.tensor([1.0, 0.0])} if mask else obs

    return [
        {
            "obs": observation(0.3 * t + b),
            "next_obs": observation(0.3 * (t + 1) + b),
            "action": torch.tensor(0 if mask else (t + b) % 2),
            "logit": wave((2,), 0.1 * t),
            "reward": wave((1,), 0.5 * t + b),
            "done": done and t == length - 1,
        }
        for t in range(length)
    ]


KEYS = ("actor_loss", "bc_loss", "policy_loss", "critic_loss", "entropy_loss", "kl_div")
STEPS: dict[bool, Any] = {
    True: (
        [
            (0.00198065, 0.0, 0.00198071, 24.6811, 0.000647519, 0.0),
            (0.00283415, 0.0, 0.00283424, 22.5971, 0.00093709, 6.47985e-06),
            (0.00393092, 0.0, 0.00393105, 20.683, 0.00132432, 2.78081e-05),
        ],
        2948.58,
    ),
    False: (
        [
            (0.00198065, 0.0, 0.00198071, 24.6811, 0.000647519, 0.0),
            (0.00283415, 0.0, 0.00283424, 22.5971, 0.00093709, 6.47985e-06),
            (0.00395603, 0.0, 0.00395617, 20.683, 0.00133031, 2.82026e-05),
        ],
        2948.55,
    ),
}


@pytest.mark.parametrize("form", ["stacked", "lists", "reference"])
@pytest.mark.parametrize("trust_region", [True, False])
def test_first_learn_steps(trust_region, form):
    steps, total = STEPS[trust_region]
    policy = make(learn={"trust_region": trust_region}, reference_numerics=form == "reference")
    models = [policy.learn_mode.get_attribute(name) for name in ("model", "target_model")]
    for model in models:
        fill(model)
    samples = [policy.collect_mode.get_train_sample(segment(3, b, done=b == 1))[0] for b in range(2)]
    if form == "lists":
        samples = [{key: [*value] for key, value in sample.items()} for sample in samples]
    for expected in steps:
        result = policy.learn_mode.forward(samples)
        # The divergence is a small difference of large numbers.
        assert [result[key] for key in KEYS] == pytest.approx(expected, rel=2e-5, abs=1e-9)
        assert set(result) == set(policy.learn_mode.monitor_vars())
    assert [size(model) for model in models] == pytest.approx([total, 2970.46], rel=1e-5)


def test_the_network():
    model = ACER(4, 2)
    assert len(model.state_dict()) == 40
    assert sum(p.numel() for p in model.parameters()) == 59396
    small = ACER(4, 2, [16, 8], 8, critic_head_hidden_size=8)
    fill(small)
    expected = [-0.106885, 0.132244, -0.10553, 0.126171]
    for mode, key in (("compute_actor", "logit"), ("compute_critic", "q_value")):
        assert small(wave((2, 4), 0.1), mode=mode)[key].flatten().tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("length", [2, 3])
def test_what_fills_up_a_short_segment_is_not_learned(length, done):
    (filled,) = make(4).collect_mode.get_train_sample(segment(length, done=done))
    assert filled["null"].tolist() == [False] * length + [True] * (4 - length)
    real = {key: value[:length] for key, value in filled.items()}
    short, whole = (make(4).learn_mode.forward([sample, sample]) for sample in (real, filled))
    assert whole == pytest.approx(short, rel=1e-4, abs=1e-7)


def test_a_forbidden_action_has_no_part():
    policy = make()
    result = policy.learn_mode.forward(policy.collect_mode.get_train_sample(segment(3, mask=True)))
    assert {key: result[key] for key in ("entropy_loss", "kl_div", "policy_loss")} == {
        "entropy_loss": 0,
        "kl_div": 0,
        "policy_loss": 0,
    }
    assert all(math.isfinite(value) for value in result.values())


def test_a_resumed_policy_goes_on_in_the_same_way():
    policy, other = make(), make()
    samples = policy.collect_mode.get_train_sample(segment(6))
    policy.learn_mode.forward(samples)
    other.learn_mode.load_state_dict(policy.learn_mode.state_dict())
    assert policy.learn_mode.forward(samples) == other.learn_mode.forward(samples)
