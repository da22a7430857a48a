"""IMPALA: the numbers of its first learn steps, sequences of short segments."""

import math
from typing import Any

import pytest
import torch

from ding.policy import IMPALACommandModePolicy, IMPALAPolicy
from ding.policy.errors import PolicyConfigError
from ding.utils import deep_merge_dicts


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def make(cls: type = IMPALAPolicy, **overrides: Any) -> Any:
    torch.manual_seed(0)
    base = {"model": {"obs_shape": 4, "action_shape": 2}, "unroll_len": 3, "learn": {"batch_size": 2}}
    return cls(deep_merge_dicts(deep_merge_dicts(cls.default_config(), base), overrides))


def segment(length: int, b: int = 0, done: bool = True) -> list[dict[str, Any]]:
    return [
        {
            "obs": wave((4,), 0.3 * t + b),
            "next_obs": wave((4,), 0.3 * (t + 1) + b),
            "action": torch.tensor((t + b) % 2),
            "logit": wave((2,), 0.1 * t),
            "reward": wave((1,), 0.5 * t + b),
            "done": done and t == length - 1,
        }
        for t in range(length)
    ]


STEPS: dict[str, Any] = {
    "adam": (
        [
            (1.91403, 0.942034, 1.94412, 0.660149),
            (1.89452, 0.936228, 1.91671, 0.659876),
            (1.87316, 0.929775, 1.8869, 0.659669),
        ],
        858.271,
    ),
    "rmsprop": (
        [
            (1.91403, 0.942034, 1.94412, 0.660149),
            (1.63746, 0.853242, 1.56856, 0.660273),
            (1.27016, 0.714244, 1.11197, 0.663737),
        ],
        939.639,
    ),
}


@pytest.mark.parametrize("form", ["stacked", "lists", "transitions", "reference"])
@pytest.mark.parametrize("optim", list(STEPS))
def test_first_learn_steps(optim, form):
    steps, total = STEPS[optim]
    policy = make(learn={"optim": optim}, reference_numerics=form == "reference")
    model = policy.learn_mode.get_attribute("model")
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.linspace(-0.05, 0.05, p.numel()).reshape(p.shape))
    samples = [policy.collect_mode.get_train_sample(segment(3, b, done=b == 1))[0] for b in range(2)]
    if form == "lists":
        samples = [{key: [*value] for key, value in sample.items()} for sample in samples]
    if form == "transitions":
        samples = [segment(3, b, done=b == 1) for b in range(2)]
    for expected in steps:
        result = policy.learn_mode.forward(samples)
        keys = ("total_loss", "policy_loss", "value_loss", "entropy_loss")
        assert [result[key] for key in keys] == pytest.approx(expected, rel=1e-5)
        assert set(result) >= set(policy.learn_mode.monitor_vars())
    assert sum(float(p.detach().abs().sum()) for p in model.parameters()) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("length", [2, 3])
def test_what_fills_up_a_short_segment_is_not_learned(length, done):
    (filled,) = make(unroll_len=4).collect_mode.get_train_sample(segment(length, done=done))
    assert filled["null"].tolist() == [False] * length + [True] * (4 - length)
    real = {key: value[:length] for key, value in filled.items()}
    short = make(unroll_len=4).learn_mode.forward([real, real])
    whole = make(unroll_len=4).learn_mode.forward([filled, filled])
    for key in ("policy_loss", "value_loss", "entropy_loss"):
        # Means over four steps, of which the filling gives zeros.
        assert whole[key] * 4 == pytest.approx(short[key] * length, rel=1e-5), key


def test_segments_are_cut_into_sequences():
    samples = make().collect_mode.get_train_sample(segment(7))
    assert [sample["obs"].shape for sample in samples] == [(3, 4)] * 3
    assert not any(sample["null"].any() for sample in samples)


def test_the_mask_of_the_observation_holds_for_both_policies():
    rows = [
        {
            **row,
            "action": torch.tensor(0),
            "obs": {"x": row["obs"], "action_mask": torch.tensor([1.0, 0.0])},
            "next_obs": {"x": row["next_obs"], "action_mask": torch.tensor([1.0, 0.0])},
        }
        for row in segment(3)
    ]

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)

        def forward(self, obs: Any, mode: str) -> dict[str, torch.Tensor]:
            output = self.layer(obs["x"])
            return {"logit": output[..., :2], "value": output[..., 2]}

    cfg = deep_merge_dicts(IMPALAPolicy.default_config(), {"unroll_len": 3})
    policy = IMPALAPolicy(cfg, model=Network())
    result = policy.learn_mode.forward(policy.collect_mode.get_train_sample(rows))
    # One action is left: nothing to choose.
    assert result["entropy_loss"] == 0
    assert result["policy_loss"] == 0


@pytest.mark.parametrize(
    ("overrides", "name"),
    [({"learn": {"optim": "adm"}}, "adam"), ({"unroll_len": 1}, "unroll_len"), ({"action_space": "hybrid"}, "hybrid")],
)
def test_settings_that_cannot_work(overrides, name):
    with pytest.raises(PolicyConfigError, match=name):
        make(**overrides)


def test_the_command_twin_needs_no_settings():
    assert make(IMPALACommandModePolicy).command_mode.get_setting_collect({"envstep": 0}) == {}
