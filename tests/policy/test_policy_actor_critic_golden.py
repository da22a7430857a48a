"""The numbers of the first learn steps of actor-critic algorithms with Q functions, from networks filled by a rule."""

import copy
import math
import random
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.model import PDQN
from ding.policy import D4PGPolicy, DDPGPolicy, DiscreteSACPolicy, PDQNPolicy, SACPolicy, TD3Policy
from ding.utils import deep_merge_dicts


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def samples(kind: str, nstep: int, gamma: float) -> list[dict[str, Any]]:
    made = []
    for i in range(4):
        args = 0.9 * wave((2,), 0.4 * i)
        action = {
            "continuous": args,
            "discrete": torch.tensor(i % 2),
            "hybrid": {"action_type": torch.tensor(i % 2), "action_args": args},
        }[kind]
        sample = {
            "obs": wave((4,), 0.3 * i),
            "next_obs": wave((4,), 0.3 * i + 0.2),
            "action": action,
            "logit": wave((2,), 0.1 * i),
            "reward": wave((nstep,), 0.5 + i),
            "done": i == 3,
            "IS": 1.0,
        }
        made.append(sample if nstep == 1 else {**sample, "value_gamma": gamma**nstep})
    return made


REGRESSION = {"model": {"action_space": "regression"}}
CASES: dict[str, Any] = {
    "ddpg": (
        DDPGPolicy, {"model": {"action_space": "regression", "twin_critic": False}}, "continuous",
        [
            {"priority": [0.247913, 0.782639, 0.14803, 1.71298], "td_error": 0.72289, "critic_loss": 0.72289,
             "actor_loss": -0.794012, "q_value": 0.886433, "target q_value": 0.749195},
            {"priority": [0.209346, 0.707466, 0.116452, 1.82003], "td_error": 0.713323, "actor_loss": -0.83701,
             "total_loss": -0.123687, "q_value": 0.928523, "target q_value": 0.74941},
            {"priority": [0.175701, 0.640387, 0.0905469, 1.92155], "td_error": 0.707046, "actor_loss": -0.872004,
             "total_loss": -0.164958, "q_value": 0.968016, "target q_value": 0.749822},
        ],
        469.278, 464.85,
    ),
    "td3": (
        TD3Policy, REGRESSION, "continuous",
        [
            {"priority": [0.293862, 0.6851, 0.0876687, 1.71298], "td_error": 0.694902, "critic_loss": 0.694902,
             "critic_twin_loss": 0.694902, "total_loss": 1.3898, "q_value": 0.886433, "q_value_twin": 0.886433,
             "target q_value": 0.734785},
            {"priority": [0.174322, 0.683, 0.121797, 1.82003], "td_error": 0.699787, "actor_loss": -0.830236,
             "total_loss": 0.569338, "q_value": 0.928523, "target q_value": 0.729056},
            {"priority": [0.171386, 0.513388, 0.125821, 1.91416], "td_error": 0.681189, "total_loss": 1.36238,
             "q_value": 0.965784, "target q_value": 0.754809},
            {"priority": [0.191647, 0.490209, 0.0629227, 1.97751], "td_error": 0.680573, "actor_loss": -0.871042,
             "total_loss": 0.490104, "q_value": 0.992349, "target q_value": 0.728959},
        ],
        706.142, 698.863,
    ),
    "d4pg": (
        D4PGPolicy, {}, "continuous",
        [
            {"q_value": 4.60469, "priority": [3.42102, 3.40366, 3.71814, 4.71765], "critic_loss": 3.81512,
             "actor_loss": -4.06085},
            {"q_value": 4.5033, "priority": [3.42185, 3.40346, 3.71549, 4.64941], "critic_loss": 3.79755,
             "actor_loss": -3.98094},
            {"q_value": 4.4018, "priority": [3.42324, 3.40405, 3.71348, 4.58504], "critic_loss": 3.78146,
             "actor_loss": -3.90339},
        ],
        624.738, 627.276,
    ),
    "sac": (
        SACPolicy, {}, "continuous",
        [
            {"priority": [1.41478, 0.252581, 0.098189, 1.71298], "td_error": 0.869632, "alpha": 0.19994,
             "target_q_value": 0.571155, "transformed_log_prob": -1.70496, "critic_loss": 0.869632,
             "twin_critic_loss": 0.869632, "policy_loss": -0.594663, "alpha_loss": -2.74403, "total_loss": -1.59943},
            {"priority": [0.141482, 0.00996586, 0.325679, 1.68754], "td_error": 0.541166, "alpha": 0.19988,
             "target_q_value": 0.237278, "transformed_log_prob": -1.65738, "policy_loss": -0.459713,
             "alpha_loss": -2.66794, "total_loss": -2.04532},
            {"priority": [0.136112, 0.746992, 0.290709, 1.65566], "td_error": 0.707367, "alpha": 0.199822,
             "target_q_value": 0.74197, "transformed_log_prob": -3.48888, "policy_loss": -0.909513,
             "alpha_loss": -5.61723, "total_loss": -5.112},
        ],
        702.661, 705.379,
    ),
    "sac-fixed-alpha": (
        SACPolicy, {"learn": {"auto_alpha": False}}, "continuous",
        [
            {"priority": [1.41478, 0.252581, 0.098189, 1.71298], "alpha": 0.2, "transformed_log_prob": 0.29504,
             "policy_loss": -0.594663, "total_loss": 1.1446},
            {"td_error": 0.541245, "target_q_value": 0.237137, "policy_loss": -0.459693, "total_loss": 0.622797},
            {"td_error": 0.707427, "transformed_log_prob": -1.48888, "policy_loss": -0.909691},
        ],
        702.661, 705.379,
    ),
    "discrete_sac": (
        DiscreteSACPolicy, {}, "discrete",
        [
            {"total_loss": -0.672596, "policy_loss": -0.869754, "critic_loss": 2.11742, "alpha": 0.19994,
             "priority": [2.69181, 0.679422, 3.15722, 1.94122], "td_error": 2.11742, "target_value": 0.874148,
             "entropy": 0.650228},
            {"total_loss": -0.674038, "policy_loss": -0.863758, "critic_loss": 2.11049, "alpha": 0.19988,
             "priority": [2.68323, 0.708516, 3.1462, 1.90404], "target_value": 0.877572},
            {"total_loss": -0.674775, "policy_loss": -0.857751, "critic_loss": 2.10387, "alpha": 0.19982,
             "priority": [2.67475, 0.737801, 3.13532, 1.86762], "target_value": 0.88093},
        ],
        691.412, 692.545,
    ),
}  # fmt: skip


def _fill(policy: Any) -> None:
    for name in ("model", "target_model"):
        with torch.no_grad():
            for p in policy.learn_mode.get_attribute(name).parameters():
                p.copy_(torch.linspace(-0.1, 0.1, p.numel()).reshape(p.shape))
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def _sizes(policy: Any, name: str) -> float:
    return sum(float(p.detach().abs().sum()) for p in policy.learn_mode.get_attribute(name).parameters())


@pytest.mark.parametrize("as_columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("case", list(CASES))
def test_first_learn_steps(case, as_columns):
    cls, overrides, kind, steps, total, target_total = CASES[case]
    base = {"model": {"obs_shape": 4, "action_shape": 2}, "learn": {"batch_size": 4}, "reference_numerics": True}
    cfg = deep_merge_dicts(deep_merge_dicts(cls.default_config(), base), overrides)
    policy = cls(cfg, enable_field=["learn", "collect"])
    _fill(policy)
    data = samples(kind, cfg.get("nstep", 1), cfg.learn.discount_factor)
    seen: set[str] = set()
    for expected in steps:
        given = TransitionBatch(TransitionBatch.from_rows(data).columns) if as_columns else copy.deepcopy(data)
        result = policy.learn_mode.forward(given)
        # How the mass of a target between two atoms is split depends on the last digits.
        relative = 2e-4 if case == "d4pg" else 1e-5
        for key, value in expected.items():
            assert result[key] == pytest.approx(value, rel=relative), key
        seen |= set(result)
    assert seen >= set(policy.learn_mode.monitor_vars())
    assert _sizes(policy, "model") == pytest.approx(total, rel=1e-5)
    assert _sizes(policy, "target_model") == pytest.approx(target_total, rel=1e-5)


HYBRID = {"action_type_shape": 2, "action_args_shape": 2}
PDQN_CASES = {
    False: (
        [
            {"q_loss": 130.083, "priority": [154.399, 0.307367, 154.117, 211.511], "target_q_value": 7.88616},
            {"q_loss": 120.759, "priority": [145.853, 1.55904, 145.031, 190.593], "target_q_value": 7.88629},
            {"q_loss": 112.795, "priority": [138.328, 3.58442, 137.138, 172.13], "target_q_value": 7.8857},
            {"q_loss": 106.05, "priority": [131.668, 6.12935, 130.261, 156.141], "target_q_value": 7.88443},
            {"continuous_loss": -14.6219, "total_loss": -14.6219, "q_value": 7.31097},
            {"continuous_loss": -14.6274, "total_loss": -14.6274, "q_value": 7.31368},
        ],
        3181.94, 3208.52,
    ),
    True: (
        [
            {"q_loss": 124.604, "priority": [151.224, 0.67658, 151.172, 195.345], "target_q_value": 7.73891},
            {"q_loss": 115.643, "priority": [142.825, 2.31292, 142.278, 175.157], "target_q_value": 7.73811},
            {"q_loss": 108.017, "priority": [135.419, 4.69541, 134.542, 157.413], "target_q_value": 7.73644},
            {"q_loss": 101.587, "priority": [128.858, 7.54802, 127.79, 142.153], "target_q_value": 7.73399},
            {"continuous_loss": -14.2724, "total_loss": -14.2724, "q_value": 7.1362},
            {"continuous_loss": -14.2734, "total_loss": -14.2734, "q_value": 7.13668},
        ],
        3182.71, 3208.53,
    ),
}  # fmt: skip


@pytest.mark.parametrize("multi_pass", [False, True])
def test_first_learn_steps_of_pdqn(multi_pass):
    """DI-engine runs values and arguments on one encoder, so this network does, too."""
    steps, total, target_total = PDQN_CASES[multi_pass]
    model = {"obs_shape": 4, "action_shape": HYBRID, "multi_pass": multi_pass, "action_mask": [[1, 0], [0, 1]]}
    overrides = {"model": model, "learn": {"batch_size": 4}, "reference_numerics": True}
    network = PDQN(**model)
    network.encoder[0] = network.cont_encoder
    policy = PDQNPolicy(
        deep_merge_dicts(PDQNPolicy.default_config(), overrides), model=network, enable_field=["learn", "collect"]
    )
    _fill(policy)
    for expected in steps:
        result = policy.learn_mode.forward(samples("hybrid", 1, 0.97))
        assert result["reward"] == pytest.approx(0.431152, rel=1e-5)
        for key, value in expected.items():
            assert result[key] == pytest.approx(value, rel=1e-5), key
    assert _sizes(policy, "model") == pytest.approx(total, rel=1e-5)
    assert _sizes(policy, "target_model") == pytest.approx(target_total, rel=1e-5)


def agents(phase: float, discrete: bool) -> dict[str, torch.Tensor]:
    obs = {"agent_state": wave((2, 4), phase), "global_state": wave((2, 6), phase + 0.1)}
    return obs | ({"action_mask": torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])} if discrete else {})


AGENT_CASES: dict[str, Any] = {
    "ddpg": (
        DDPGPolicy, {"twin_critic": False},
        [
            {"action": 0.581879, "td_error": 0.492728, "actor_loss": -0.492216, "q_value": 0.600623,
             "target q_value": 0.473669},
            {"td_error": 0.477731, "actor_loss": -0.525663, "q_value": 0.635722, "target q_value": 0.473825},
            {"td_error": 0.465028, "actor_loss": -0.559621, "q_value": 0.671644, "target q_value": 0.474133},
        ],
        [0.13976, 0.72701, 0.21512, 0.88902], 478.863, 471.279,
    ),
    "sac": (
        SACPolicy, {},
        [
            {"td_error": 0.432765, "alpha": 0.19994, "target_q_value": 0.337763, "transformed_log_prob": -1.36358,
             "policy_loss": -0.282883, "alpha_loss": -2.1946, "total_loss": -1.61195},
            {"td_error": 0.738122, "alpha": 0.19988, "policy_loss": -0.439009, "alpha_loss": -3.12178},
            {"td_error": 0.579256, "alpha": 0.199821, "policy_loss": -0.390761, "total_loss": -2.10212},
        ],
        [0.166312, 0.273514, 0.402215, 0.889021], 717.788, 718.205,
    ),
    "discrete_sac": (
        DiscreteSACPolicy, {"action_shape": 3},
        [
            {"total_loss": -4.64368, "policy_loss": -0.301263, "critic_loss": 0.90274, "target_value": 0.325265,
             "entropy": 1.01281},
            {"total_loss": -4.65284, "policy_loss": -0.305415, "critic_loss": 0.898824, "target_value": 0.327075},
            {"total_loss": -4.66149, "policy_loss": -0.309509, "critic_loss": 0.895089, "target_value": 0.328898},
        ],
        [1.305, 1.3654, 0.808086, 0.13243], 715.073, 714.957,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", list(AGENT_CASES))
def test_first_learn_steps_of_several_agents(case):
    cls, model, steps, priority, total, target_total = AGENT_CASES[case]
    discrete = cls is DiscreteSACPolicy
    shapes = {"agent_obs_shape": 4, "global_obs_shape": 6, "action_shape": 2, **model}
    base = {"model": shapes, "learn": {"batch_size": 4}, "reference_numerics": True, "multi_agent": True}
    policy = cls(deep_merge_dicts(cls.default_config(), base), enable_field=["learn", "collect"])
    _fill(policy)
    data = [
        {
            "obs": agents(0.3 * i, discrete),
            "next_obs": agents(0.3 * i + 0.2, discrete),
            "action": torch.tensor([i % 2, i % 3]) if discrete else 0.9 * wave((2, 2), 0.4 * i),
            "logit": wave((2, 3), 0.1 * i),
            "reward": wave((1,), 0.5 + i),
            "done": i == 3,
        }
        for i in range(4)
    ]
    results = [policy.learn_mode.forward(copy.deepcopy(data)) for _ in steps]
    for result, expected in zip(results, steps):
        for key, value in expected.items():
            assert result[key] == pytest.approx(value, rel=1e-5), key
    # The original has one per agent; a buffer needs their mean.
    assert results[0]["priority"] == pytest.approx(priority, rel=1e-4)
    assert _sizes(policy, "model") == pytest.approx(total, rel=1e-5)
    assert _sizes(policy, "target_model") == pytest.approx(target_total, rel=1e-5)


@pytest.mark.parametrize("cls", [DDPGPolicy, TD3Policy])
def test_a_key_that_the_policy_does_not_read_changes_nothing(cls):
    model = {"obs_shape": 4, "action_shape": 2, "action_space": "regression"}
    results = []
    for user in ({"model": model}, {"model": model, "nstep": 3}):
        torch.manual_seed(0)
        policy = cls(deep_merge_dicts(cls.default_config(), user), enable_field=["learn"])
        results.append(policy.learn_mode.forward(samples("continuous", 1, 0.99))["critic_loss"])
    assert results[0] == results[1]
