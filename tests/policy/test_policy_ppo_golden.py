"""The numbers of the first learn steps of the on-policy algorithms, from networks that were filled by a rule."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.policy import (
    A2CPolicy,
    OffPPOCollectTrajPolicy,
    PGPolicy,
    PPGOffPolicy,
    PPGPolicy,
    PPOOffPolicy,
    PPOPGPolicy,
    PPOPolicy,
    PPOSTDIMPolicy,
)
from ding.utils import deep_merge_dicts


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def samples(continuous: bool = False) -> list[dict[str, Any]]:
    made = []
    for i in range(4):
        mu_sigma = {"mu": wave((2,), 0.1 * i), "sigma": torch.full((2,), 0.6)}
        made.append(
            {
                "obs": wave((4,), 0.3 * i),
                "next_obs": wave((4,), 0.3 * i + 0.2),
                "action": 0.9 * wave((2,), 0.4 * i) if continuous else torch.tensor(i % 2),
                "logit": mu_sigma if continuous else wave((2,), 0.1 * i),
                "value": torch.tensor(math.sin(0.2 * i)),
                "adv": torch.tensor(math.sin(0.6 * i)),
                "return": torch.tensor(math.sin(0.6 * i)),
                "reward": wave((1,), 0.5 + i),
                "done": i == 3,
                "traj_flag": i == 3,
            }
        )
    return made


def fill(model: torch.nn.Module, scale: float = 0.05) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(-scale, scale, parameter.numel()).reshape(parameter.shape))


def make(cls: type, **overrides: Any) -> Any:
    base = {"model": {"obs_shape": 4, "action_shape": 2}, "learn": {"batch_size": 4}}
    cfg = deep_merge_dicts(deep_merge_dicts(cls.default_config(), base), overrides)
    policy = cls(cfg, enable_field=["learn", "collect"])
    for name in ("model", "aux_model"):
        if name in policy.learn_mode.state_dict():
            fill(policy.learn_mode.get_attribute(name))
    return policy


CONTINUOUS = {"action_space": "continuous", "model": {"action_space": "continuous"}}
CASES = {
    "ppo": (
        PPOPolicy,
        {"learn": {"epoch_per_collect": 3}},
        [
            {"total_loss": 0.205047, "policy_loss": -0.0145184, "value_loss": 0.439132, "entropy_loss": 0.656404,
             "value_mean": 0.252478, "approx_kl": -0.0158373, "clipfrac": 0.0, "kl_div": 0.0},
            {"total_loss": 0.335743, "policy_loss": -0.0143349, "value_loss": 0.700155, "entropy_loss": 0.656292,
             "value_mean": 0.266628, "approx_kl": -0.0156009},
            {"total_loss": 0.333047, "policy_loss": -0.0144096, "value_loss": 0.694913, "entropy_loss": 0.656387,
             "value_mean": 0.280227, "approx_kl": -0.0155743},
        ],
        853.89,
    ),
    "ppo_stdim": (
        PPOSTDIMPolicy,
        {"learn": {"epoch_per_collect": 3}, "aux_model": {"encode_shape": 8}},
        [
            {"total_loss": 0.206437, "aux_loss_learn": 1.39026, "aux_loss_eval": 0.00138974, "policy_loss": -0.0145184,
             "value_loss": 0.439132, "adv_max": 1.04705, "value_max": 0.261425},
            {"total_loss": 0.337132, "aux_loss_learn": 1.38995, "aux_loss_eval": 0.00138946, "value_loss": 0.700155},
            {"total_loss": 0.334436, "aux_loss_learn": 1.3896, "aux_loss_eval": 0.00138915, "approx_kl": -0.0155747},
        ],
        853.889,
    ),
    "ppo without recompute_adv and value_norm": (
        PPOPolicy,
        {"recompute_adv": False, "learn": {"epoch_per_collect": 3, "value_norm": False, "entropy_weight": 0.01}},
        [
            {"total_loss": 0.209213, "policy_loss": 0.0221751, "value_loss": 0.387204, "entropy_loss": 0.656404},
            {"total_loss": 0.20026, "policy_loss": 0.0180331, "value_loss": 0.377516, "entropy_loss": 0.653144},
            {"total_loss": 0.19108, "policy_loss": 0.0137403, "value_loss": 0.367672, "approx_kl": -0.00880489},
        ],
        856.347,
    ),
    "ppo continuous": (
        PPOPolicy,
        {"learn": {"epoch_per_collect": 3}, **CONTINUOUS},
        [
            {"total_loss": 0.405306, "policy_loss": 0.18574, "value_loss": 0.439132, "entropy_loss": 2.83788,
             "approx_kl": 1.1277, "clipfrac": 1.0, "mu_mean": 0.150048, "sigma_mean": 1.00125},
            {"total_loss": 0.535256, "policy_loss": 0.185179, "value_loss": 0.700155, "entropy_loss": 2.83728},
            {"total_loss": 0.531788, "policy_loss": 0.184608, "value_loss": 0.694361, "entropy_loss": 2.83669,
             "approx_kl": 1.11592, "mu_mean": 0.167384, "sigma_mean": 1.00065},
        ],
        856.006,
    ),
    "ppo_offpolicy": (
        PPOOffPolicy,
        {},
        [
            {"total_loss": -0.430813, "policy_loss": -0.617851, "value": 0.288183, "value_loss": 0.387204,
             "entropy_loss": 0.656404, "adv_abs_max": 0.973848, "approx_kl": -0.0158373, "clipfrac": 0.0},
            {"total_loss": -0.180513, "policy_loss": -0.617728, "value_loss": 0.887545, "entropy_loss": 0.65577},
            {"total_loss": -0.156436, "policy_loss": -0.617613, "value_loss": 0.935458, "approx_kl": -0.0146404},
        ],
        868.245,
    ),
    "offppo_collect_traj": (
        OffPPOCollectTrajPolicy,
        {},
        [
            {"total_loss": -0.430813, "policy_loss": -0.617851, "value_loss": 0.387204, "entropy_loss": 0.656404,
             "adv_abs_max": 0.973848, "approx_kl": -0.0158373, "clipfrac": 0.0},
            {"total_loss": -0.447117, "policy_loss": -0.617728, "value_loss": 0.354337, "approx_kl": -0.0152168},
            {"total_loss": -0.4641, "policy_loss": -0.617639, "value_loss": 0.320185, "approx_kl": -0.0148683},
        ],
        868.159,
    ),
    "ppo_pg": (
        PPOPGPolicy,
        {"learn": {"epoch_per_collect": 3}},
        [
            {"total_loss": -0.617851, "policy_loss": -0.617851, "entropy_loss": 0.656404, "approx_kl": -0.0158373},
            {"total_loss": -0.618226, "policy_loss": -0.618226, "entropy_loss": 0.659413, "approx_kl": -0.0189293},
            {"total_loss": -0.618588, "policy_loss": -0.618588, "entropy_loss": 0.662181, "clipfrac": 0.0},
        ],
        735.89,
    ),
    "ppg_offpolicy": (
        PPGOffPolicy,
        {},
        [
            {"policy_loss": -0.618673, "value_loss": 0.193602, "entropy_loss": 0.661602, "clipfrac": 0.0,
             "policy_adv_abs_max": 0.973848, "approx_kl": -0.0210787, "total_loss": -0.431687},
            {"policy_loss": -0.619898, "value_loss": 0.177169, "entropy_loss": 0.670247, "approx_kl": -0.0298535},
            {"policy_loss": -0.620917, "value_loss": 0.160093, "entropy_loss": 0.676369, "total_loss": -0.467588},
        ],
        1691.98,
    ),
    "ppg": (
        PPGPolicy,
        {},
        [
            {"policy_loss": -0.618673, "value_loss": 0.193602, "entropy_loss": 0.661602, "clipfrac": 0.0,
             "policy_adv_abs_max": 0.973848, "approx_kl": -0.0210787},
            {"policy_loss": -0.619898, "value_loss": 0.177169, "entropy_loss": 0.670247, "approx_kl": -0.0298535},
            {"policy_loss": -0.620917, "value_loss": 0.160093, "entropy_loss": 0.676369, "approx_kl": -0.0359851},
        ],
        1691.98,
    ),
    # The numbers of DI-engine but for the divergence, which is NaN there, and without weight here.
    "ppg_offpolicy with auxiliary phases": (
        PPGOffPolicy,
        {"reference_numerics": True, "learn": {"aux_freq": 1, "aux_bc_weight": 0}},
        [
            {"policy_loss": -0.618673, "value_loss": 0.193602, "aux_value_loss": 0.283077, "auxiliary_loss": 0.334338},
            {"policy_loss": -0.619055, "value_loss": 0.112719, "entropy_loss": 0.66578, "approx_kl": -0.0255429,
             "aux_value_loss": 0.244674, "auxiliary_loss": 0.236795},
        ],
        1795.09,
    ),
    "pg": (
        PGPolicy,
        {},
        [
            {"total_loss": 0.404847, "policy_loss": 0.411411, "entropy_loss": -0.00656404, "return_abs_max": 0.973848,
             "grad_norm": 0.0413731},
            {"total_loss": 0.404174, "policy_loss": 0.410827, "entropy_loss": -0.00665259, "grad_norm": 0.00920529},
            {"total_loss": 0.40416, "policy_loss": 0.410866, "entropy_loss": -0.00670601, "grad_norm": 0.0190459},
        ],
        726.149,
    ),
    "a2c": (
        A2CPolicy,
        {},
        [
            {"total_loss": 0.792051, "policy_loss": 0.411411, "value_loss": 0.774408, "entropy_loss": 0.656404,
             "adv_abs_max": 0.973848, "grad_norm": 1.45576},
            {"total_loss": 0.759301, "policy_loss": 0.411521, "value_loss": 0.708675, "grad_norm": 1.48709},
            {"total_loss": 0.725248, "policy_loss": 0.411604, "value_loss": 0.640396, "grad_norm": 1.49258},
        ],
        868.156,
    ),
}  # fmt: skip


@pytest.mark.parametrize("as_columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("case", list(CASES))
def test_first_learn_steps(case, as_columns):
    cls, overrides, steps, total = CASES[case]
    # The returns of these numbers are divided by the deviation of those before them.
    policy = make(cls, **({"reference_numerics": True} if cls is not PPGOffPolicy else {}), **overrides)
    data = samples("continuous" in case)
    np.random.seed(0)
    results: list[dict] = []
    while len(results) < len(steps):
        given: Any = TransitionBatch(TransitionBatch.from_rows(data).columns) if as_columns else copy.deepcopy(data)
        if cls is PPGOffPolicy:
            given = {"policy": given, "value": given}
        output = policy.learn_mode.forward(given)
        results += output if isinstance(output, list) else [output]
    assert len(results) == len(steps)
    for result, expected in zip(results, steps):
        assert {key: result[key] for key in expected} == pytest.approx(expected, rel=1e-5, abs=1e-7)
        assert all(type(value) is float for value in result.values())
        # PPG reports the numbers of its auxiliary phase when there was one.
        skipped = {"auxiliary_loss", "behavioral_cloning_loss", "aux_value_loss"} - set(expected)
        assert set(result) >= set(policy.learn_mode.monitor_vars()) - skipped
    model = policy.learn_mode.get_attribute("model")
    assert sum(float(p.detach().abs().sum()) for p in model.parameters()) == pytest.approx(total, rel=1e-5)


def agents(continuous: bool) -> list[dict[str, Any]]:
    made = []
    for i in range(4):
        mask = {} if continuous else {"action_mask": torch.tensor([[1, 1, 0], [1, 1, 1]])}
        logit = {"mu": wave((2, 2), 0.1 * i), "sigma": torch.full((2, 2), 0.6)}
        made.append(
            {
                **{
                    name: {"agent_state": wave((2, 4), phase), "global_state": wave((2, 6), phase + 0.1), **mask}
                    for name, phase in (("obs", 0.3 * i), ("next_obs", 0.3 * i + 0.2))
                },
                "action": 0.9 * wave((2, 2), 0.4 * i) if continuous else torch.tensor([i % 2, i % 3]),
                "logit": logit if continuous else wave((2, 3), 0.1 * i),
                "value": wave((2,), 0.2 * i),
                "adv": wave((2,), 0.6 * i),
                "reward": wave((1,), 0.5 + i),
                "done": i == 3,
                "traj_flag": i == 3,
            }
        )
    return made


AGENTS = {
    False: (
        [
            {"total_loss": 0.508687, "policy_loss": 0.220165, "value_loss": 0.577044, "entropy_loss": 0.894612,
             "adv_max": 1.1276, "value_mean": -0.0232738, "approx_kl": -0.304287, "clipfrac": 0.875},
            {"total_loss": 0.67908, "policy_loss": 0.219783, "value_loss": 0.918594, "entropy_loss": 0.894641},
            {"total_loss": 0.678211, "policy_loss": 0.219482, "value_loss": 0.917458, "approx_kl": -0.304522},
        ],
        91.9958,
    ),
    True: (
        [
            {"total_loss": 0.581063, "policy_loss": 0.292541, "value_loss": 0.577044, "entropy_loss": 2.83788,
             "adv_max": 1.1276, "value_mean": -0.0232738, "approx_kl": 1.1169, "act": 0.581879,
             "mu_mean": 0.0128338, "sigma_mean": 1.00125},
            {"total_loss": 0.751616, "policy_loss": 0.292319, "value_loss": 0.918594, "mu_mean": 0.0130635},
            {"total_loss": 0.750873, "policy_loss": 0.292144, "value_loss": 0.917459, "mu_mean": 0.0132966},
        ],
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("continuous", [False, True])
def test_first_learn_steps_of_several_agents(continuous):
    steps, total = AGENTS[continuous]
    space = "continuous" if continuous else "discrete"
    model = {
        "agent_obs_shape": 4,
        "global_obs_shape": 6,
        "action_shape": 2 if continuous else 3,
        "agent_num": 2,
        "actor_head_hidden_size": 32,
        "critic_head_hidden_size": 32,
        "action_space": space,
    }
    # The stored logits are not masked here, as those of a collector are.
    cfg = {
        "reference_numerics": True,
        "multi_agent": True,
        "action_space": space,
        "learn": {"epoch_per_collect": 3, "batch_size": 4},
    }
    cfg = deep_merge_dicts(PPOPolicy.default_config(), {**cfg, "model": model})
    policy = PPOPolicy(cfg, enable_field=["learn", "collect"])
    network = policy.learn_mode.get_attribute("model")
    fill(network)
    for result, expected in zip(policy.learn_mode.forward(agents(continuous)), steps, strict=True):
        assert {key: result[key] for key in expected} == pytest.approx(expected, rel=1e-5, abs=1e-7)
    if total is not None:
        assert sum(float(p.detach().abs().sum()) for p in network.parameters()) == pytest.approx(total, rel=1e-5)


def test_one_agent_learns_what_its_only_row_of_two_would():
    """Two agents that are the same one twice have the losses of one."""
    cfg = {"multi_agent": True, "learn": {"epoch_per_collect": 1, "batch_size": 4, "adv_norm": False}, "model": {
        "agent_obs_shape": 4, "global_obs_shape": 6, "action_shape": 3, "action_space": "discrete",
    }}  # fmt: skip
    losses = []
    for count in (1, 2):
        config = deep_merge_dicts(deep_merge_dicts(PPOPolicy.default_config(), cfg), {"model": {"agent_num": count}})
        policy = PPOPolicy(config, enable_field=["learn"])
        fill(policy.learn_mode.get_attribute("model"))
        rows = agents(False)
        for row in rows:
            for key in ("obs", "next_obs"):
                row[key] = {name: of_first_agent(row[key][name], count) for name in row[key]}
            row |= {key: of_first_agent(row[key], count) for key in ("action", "logit", "value", "adv")}
        losses.append(policy.learn_mode.forward(rows)[0])
    for key in ("policy_loss", "value_loss", "entropy_loss"):
        assert losses[0][key] == pytest.approx(losses[1][key], rel=1e-5), key


def of_first_agent(value: torch.Tensor, count: int) -> torch.Tensor:
    """``[2, ...]`` as what the first agent has, ``count`` times; what has no axis of agents is as it is."""
    return torch.stack([value[0]] * count) if value.dim() and len(value) == 2 else value
