"""The numbers of the first learn steps of the relatives of QMIX, from networks that were filled by a rule."""

import copy
import math
from typing import Any

import pytest
import torch

from ding.data import TransitionBatch
from ding.policy.collaq import CollaQPolicy
from ding.policy.coma import COMAPolicy
from ding.policy.madqn import MADQNPolicy
from ding.policy.qmix import QMIXPolicy
from ding.policy.qtran import QTRANPolicy
from ding.policy.wqmix import WQMIXPolicy
from ding.utils import deep_merge_dicts

MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])
STEPS = 3


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def observation(kind: str, t: int, b: int) -> dict[str, torch.Tensor]:
    obs = {
        "agent_state": wave((2, 9 if kind == "coma" else 4), 0.3 * t + b),
        "global_state": wave((2, 6) if kind == "madqn" else (6,), 0.2 * t + b),
        "action_mask": MASK,
    }
    if kind == "collaq":
        obs["agent_alone_state"] = wave((2, 3), 0.1 * t + b)
        obs["agent_alone_padding_state"] = wave((2, 4), 0.15 * t + b)
    return obs


def state(kind: str, t: int, b: int) -> list[Any]:
    def agent(a: int, more: float) -> dict[str, torch.Tensor]:
        h = 0.1 * wave((1, 1, 16), 0.1 * t + a + more)
        return {"h": h, "c": h.clone()}

    if kind == "collaq":
        return [[agent(a, 0.5 * j) for a in range(2)] for j in range(3)]
    return [agent(a, 0.0) for a in range(2)]


def transitions(kind: str, b: int) -> list[dict[str, Any]]:
    return [
        {
            "obs": observation(kind, t, b),
            "next_obs": observation(kind, t + 1, b),
            "action": torch.tensor([(t + b) % 2, (t + b) % 3]),
            "reward": wave((1,), 0.5 * t + b),
            "done": t == STEPS - 1,
            "prev_state": state(kind, t, b),
        }
        for t in range(STEPS)
    ]


def sequence(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """The steps in the form of DI-engine, a list for each field."""
    made: dict[str, Any] = {key: [step[key] for step in steps] for key in steps[0]}
    for key in ("obs", "next_obs"):
        made[key] = {name: [row[name] for row in made[key]] for name in made[key][0]}
    return made


MODEL = {"agent_num": 2, "obs_shape": 4, "global_obs_shape": 6, "action_shape": 3, "hidden_size_list": [16, 16]}
QMIX_ROWS = [
    {"total_loss": 0.720611, "total_q": -0.0124789, "target_reward_total_q": 0.404874, "target_total_q": 0.0879399,
     "grad_norm": 4.1123},
    {"total_loss": 0.54379, "total_q": 0.0822119, "target_reward_total_q": 0.434297, "target_total_q": 0.13014,
     "grad_norm": 3.42684},
    {"total_loss": 0.489709, "total_q": 0.166984, "target_reward_total_q": 0.483094, "target_total_q": 0.201417,
     "grad_norm": 3.55066},
]  # fmt: skip
COLLAQ_ROWS = [
    {"total_loss": 0.725097, "colla_loss": 0.00289354, "td_loss": 0.722204, "grad_norm": 4.13313,
     "priority": [0.482867, 0.96154]},
    {"total_loss": 0.546713, "colla_loss": 0.000558446, "td_loss": 0.546155, "grad_norm": 3.42887,
     "priority": [0.283289, 0.809021]},
    {"total_loss": 0.492788, "colla_loss": 0.000301553, "td_loss": 0.492486, "grad_norm": 3.54727,
     "priority": [0.274049, 0.710923]},
]  # fmt: skip
COMA_MODEL = {
    "agent_num": 2,
    "obs_shape": {"agent_state": 9, "global_state": 6},
    "action_shape": 3,
    "actor_hidden_size_list": [16, 16],
}
#: Policy, overrides, rows, sums of all parameters of the learner and of the target network.
CASES: dict[str, Any] = {
    "qmix": (QMIXPolicy, {}, QMIX_ROWS, 333.437, 332.102),
    "qmix-double": (QMIXPolicy, {"learn": {"double_q": True}}, QMIX_ROWS, 333.437, 332.102),
    "wqmix-ow": (
        WQMIXPolicy, {"learn": {"alpha": 0.5}},
        [
            {"total_loss": 1705.71, "total_q": -0.0124789, "target_reward_total_q": 15.8956, "target_total_q": 21.9171,
             "grad_norm_q": 200.055, "grad_norm_q_star": 2704.14},
            {"total_loss": 732.909, "total_q": 0.0686012, "target_reward_total_q": 10.2207, "target_total_q": 13.6973,
             "grad_norm_q": 120.341, "grad_norm_q_star": 1231.16},
            {"total_loss": 389.942, "total_q": 0.144167, "target_reward_total_q": 7.37933, "target_total_q": 9.67223,
             "grad_norm_q": 95.0616, "grad_norm_q_star": 676.889},
        ],
        6919.62, None,
    ),
    "wqmix-cw": (
        WQMIXPolicy, {"learn": {"alpha": 0.5, "wqmix_ow": False}},
        [
            {"total_loss": 852.855, "total_q": -0.0124789, "grad_norm_q": 100.028, "grad_norm_q_star": 2704.14},
            {"total_loss": 366.454, "total_q": 0.0686012, "grad_norm_q": 60.1707, "grad_norm_q_star": 1231.16},
            {"total_loss": 195.602, "total_q": 0.126663, "grad_norm_q": 47.4779, "grad_norm_q_star": 676.889},
        ],
        6920.46, None,
    ),
    "coma": (
        COMAPolicy, {"model": COMA_MODEL},
        [
            {"total_loss": 0.980458, "policy_loss": -0.0259759, "value_loss": 0.98937, "entropy_loss": 0.888622},
            {"total_loss": 0.979423, "policy_loss": -0.0252878, "value_loss": 0.988338, "entropy_loss": 0.889007},
            {"total_loss": 0.978632, "policy_loss": -0.0245672, "value_loss": 0.98755, "entropy_loss": 0.889377},
        ],
        207.916, 207.944,
    ),
    "collaq": (CollaQPolicy, {"model": {"alone_obs_shape": 3}}, COLLAQ_ROWS, 449.694, 448.208),
    "collaq-double": (
        CollaQPolicy, {"model": {"alone_obs_shape": 3}, "learn": {"double_q": True}}, COLLAQ_ROWS, 449.694, 448.208,
    ),
    "qtran": (
        QTRANPolicy, {"model": {"embedding_size": 8}},
        [
            {"total_loss": 0.622268, "td_loss": 0.621719, "opt_loss": 0.0547259, "nopt_loss": 0.0167759,
             "grad_norm": 1.45323},
            {"total_loss": 0.604775, "td_loss": 0.60442, "opt_loss": 0.0352628, "nopt_loss": 0.0204033,
             "grad_norm": 1.45938},
            {"total_loss": 0.590983, "td_loss": 0.590738, "opt_loss": 0.0242811, "nopt_loss": 0.024284,
             "grad_norm": 1.47809},
        ],
        182.051, 180.064,
    ),
    "madqn-1": (
        MADQNPolicy, {"nstep": 1},
        [
            {"total_loss": 0.801297, "total_q": -0.0175567, "target_total_q": 0.120814, "grad_norm": 2.348,
             "cooperation_grad_norm": 2.34262, "cooperation_loss": 0.798738},
            {"total_loss": 0.772293, "total_q": -0.00349919, "target_total_q": 0.130953, "grad_norm": 2.36282,
             "cooperation_grad_norm": 2.36962, "cooperation_loss": 0.768875},
            {"total_loss": 0.761935, "total_q": 0.00810243, "target_total_q": 0.146253, "grad_norm": 2.42318,
             "cooperation_grad_norm": 2.43836, "cooperation_loss": 0.756119},
        ],
        240.838, 238.483,
    ),
    "madqn-2": (
        MADQNPolicy, {"nstep": 2},
        [
            {"total_loss": 1.92808, "total_q": -0.0175567, "target_total_q": 0.121321, "grad_norm": 3.62391,
             "cooperation_grad_norm": 3.61568, "cooperation_loss": 1.92274},
            {"total_loss": 1.86966, "total_q": -0.0034182, "target_total_q": 0.131745, "grad_norm": 3.649,
             "cooperation_grad_norm": 3.65837, "cooperation_loss": 1.8628},
            {"total_loss": 1.83123, "total_q": 0.00829326, "target_total_q": 0.147402, "grad_norm": 3.71224,
             "cooperation_grad_norm": 3.73489, "cooperation_loss": 1.82084},
        ],
        240.591, 238.307,
    ),
}  # fmt: skip


def fill(network: Any) -> None:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))


def total(network: Any) -> float:
    return sum(parameter.abs().sum().item() for parameter in network.parameters())


def policy_of(name: str, reference_numerics: bool = True) -> Any:
    cls, overrides, *_ = CASES[name]
    given = {
        "model": {} if name == "coma" else MODEL,
        "learn": {"target_update_theta": 0.5, "batch_size": 2},
        "collect": {"env_num": 2, "unroll_len": STEPS},
        "eval": {"env_num": 2},
        "reference_numerics": reference_numerics,
    }
    cfg = deep_merge_dicts(cls.default_config(), deep_merge_dicts(given, overrides))
    policy = cls(cfg, enable_field=["learn", "collect"])
    learn = policy.learn_mode
    for network in (learn.get_attribute("model"), learn.get_attribute("target_model")):
        fill(network)
    return policy


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
def test_first_three_learn_steps(name: str, columns: bool) -> None:
    _, overrides, rows, learner, target = CASES[name]
    policy = policy_of(name)
    segments = [transitions(name.split("-")[0], b) for b in range(2)]
    data: Any = [sequence(steps) for steps in segments]
    if overrides.get("nstep", 1) > 1:
        data = [sample for steps in segments for sample in policy.collect_mode.get_train_sample(steps)]
    if columns:
        data = TransitionBatch.from_rows(data)
    for expected in rows:
        result = policy.learn_mode.forward(copy.deepcopy(data))
        for key, value in expected.items():
            assert result[key] == pytest.approx(value, rel=1e-5), key
    assert total(policy.learn_mode.get_attribute("model")) == pytest.approx(learner, rel=1e-5)
    if target is not None:
        assert total(policy.learn_mode.get_attribute("target_model")) == pytest.approx(target, rel=1e-5)
