"""R2D2 over a gated transformer-XL: the numbers of its first learn steps, memories of environments and of samples."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import EnvBatch
from ding.policy import R2D2GTrXLPolicy
from ding.policy.errors import PolicyConfigError
from ding.utils import deep_merge_dicts


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def make(**overrides: Any) -> Any:
    torch.manual_seed(0)
    base = {
        "model": {"obs_shape": 4, "action_shape": 2, "memory_len": 4, "hidden_size": 16},
        "nstep": 2,
        "burnin_step": 1,
        "unroll_len": 6,
        "seq_len": 6,
        "learn": {"batch_size": 2},
        "collect": {"env_num": 2},
        "eval": {"env_num": 2},
    }
    return R2D2GTrXLPolicy(deep_merge_dicts(deep_merge_dicts(R2D2GTrXLPolicy.default_config(), base), overrides))


def episode(length: int, b: int = 0, done: bool = True) -> list[dict[str, Any]]:
    return [
        {
            "obs": wave((4,), 0.3 * t + b),
            "action": torch.tensor((t + b) % 2),
            "prev_memory": 0.1 * wave((4, 4, 16), 0.1 * t + b),
            "reward": wave((1,), 0.5 * t + b),
            "done": done and t == length - 1,
        }
        for t in range(length)
    ]


STEPS: dict[str, Any] = {
    "zero": (
        [
            (2.25986, [4.21515, 4.41289], -0.0648135, 0.0609742, -0.0648018),
            (2.25901, [4.21491, 4.41273], -0.064495, 0.0609748, -0.0644832),
            (2.25815, [4.21468, 4.41257], -0.0641749, 0.060976, -0.0641629),
        ],
        1005.29,
    ),
    "old": (
        [
            (2.25982, [4.21511, 4.41269], -0.0648384, 0.0609461, -0.0648093),
            (2.25896, [4.21488, 4.41253], -0.0645205, 0.0609467, -0.0644908),
            (2.25811, [4.21465, 4.41237], -0.064201, 0.0609479, -0.0641706),
        ],
        1005.31,
    ),
}


@pytest.mark.parametrize("form", ["stacked", "lists"])
@pytest.mark.parametrize("init_memory", ["zero", "old"])
def test_first_learn_steps(init_memory, form):
    steps, total = STEPS[init_memory]
    policy = make(reference_numerics=True, learn={"init_memory": init_memory})
    sizes = []
    for name in ("model", "target_model"):
        with torch.no_grad():
            for p in policy.learn_mode.get_attribute(name).parameters():
                p.copy_(torch.linspace(-0.1, 0.1, p.numel()).reshape(p.shape))
    samples = [sample for b in range(2) for sample in policy.collect_mode.get_train_sample(episode(6, b))]
    samples = [{**sample, "IS": 1 / (1 + b)} for b, sample in enumerate(samples)]
    if form == "lists":
        # All memories of the steps, as DI-engine has them.
        memories = [[step["prev_memory"] for step in episode(6, b)] for b in range(2)]
        samples = [
            {**{k: [*v] if k != "IS" else v for k, v in sample.items()}, "prev_memory": memory}
            for sample, memory in zip(samples, memories)
        ]
    keys = ("total_loss", "priority", "q_s_taken-a_t0", "target_q_s_max-a_t0", "q_s_a-mean_t0")
    for expected in steps:
        result = policy.learn_mode.forward(samples)
        for key, value in zip(keys, expected, strict=True):
            assert result[key] == pytest.approx(value, rel=1e-5), key
    for name in ("model", "target_model"):
        model = policy.learn_mode.get_attribute(name)
        sizes.append(sum(float(p.detach().abs().sum()) for p in model.parameters()))
    assert sizes == pytest.approx([total, 1004.63], rel=1e-5)


def test_segments_see_the_ones_before_through_the_memory():
    whole, cut = (make(seq_len=seq_len, model={"memory_len": 6}) for seq_len in (6, 2))
    samples = [{**sample, "IS": 1.0} for sample in whole.collect_mode.get_train_sample(episode(6))]
    left, right = (policy.learn_mode.forward(samples) for policy in (whole, cut))
    # The same values but for the empty slots of the memory, which the longer segment sees too.
    assert left["total_loss"] == pytest.approx(right["total_loss"], rel=1e-2)
    assert left["total_loss"] != right["total_loss"]


def test_the_filling_of_a_short_episode_is_not_learned():
    policy = make(priority=False, priority_IS_weight=False)
    (sample,) = policy.collect_mode.get_train_sample(episode(4))
    assert sample["null"].tolist() == [False] * 4 + [True] * 2
    first = make(priority=False, priority_IS_weight=False).learn_mode.forward([sample])
    changed = {**sample, "reward": sample["reward"].clone(), "obs": sample["obs"].clone()}
    changed["reward"][4:], changed["obs"][4:] = 100.0, 100.0
    assert policy.learn_mode.forward([changed])["total_loss"] == pytest.approx(first["total_loss"], rel=1e-5)


def act(policy: Any, ids: list[int], t: int) -> dict[int, dict[str, torch.Tensor]]:
    obs = torch.stack([wave((4,), 0.3 * t + env_id) for env_id in ids])
    return policy.collect_mode.forward(EnvBatch(np.array(ids), obs), eps=0.0).to_dict()


def test_each_environment_has_a_memory_that_begins_with_its_episode():
    policy = make(learn={"init_memory": "old"})
    together = [act(policy, [0, 1], t) for t in range(3)]
    assert not together[0][1]["memory"].any()
    assert together[2][1]["memory"].any()
    policy.collect_mode.reset([0, 1])
    alone = [act(policy, [1], t)[1] for t in range(3)]
    for both, one in zip(together, alone):
        torch.testing.assert_close(both[1]["memory"], one["memory"])
        torch.testing.assert_close(both[1]["logit"], one["logit"])


def test_acting_step_by_step_gives_the_values_of_the_sequence():
    # The memory holds the whole episode here, in both forms.
    policy = make(model={"memory_len": 2})
    model = policy.learn_mode.get_attribute("model").eval()
    logits = torch.stack([act(policy, [0], t)[0]["logit"] for t in range(2)])
    obs = torch.stack([wave((1, 4), 0.3 * t) for t in range(2)])
    memory = None
    with torch.no_grad():
        for t in range(2):
            output = model({"obs": obs[t : t + 1], "prev_state": memory})
            memory = output["next_state"]
            torch.testing.assert_close(output["logit"][0, 0], logits[t])


@pytest.mark.parametrize(
    ("overrides", "name"), [({"unroll_len": 3}, "unroll_len"), ({"learn": {"init_memory": "olld"}}, "'old'")]
)
def test_settings_that_cannot_work(overrides, name):
    with pytest.raises(PolicyConfigError, match=name):
        make(**overrides)


def test_the_defaults_have_one_length_of_a_sample():
    cfg = R2D2GTrXLPolicy.default_config()
    assert "learn_unroll_len" not in cfg
    assert (cfg.unroll_len, cfg.seq_len, cfg.nstep, cfg.burnin_step) == (25, 20, 5, 1)
