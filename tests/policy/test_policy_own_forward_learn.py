"""Policies with a ``_forward_learn`` in the manner of DI-engine learn here, and learn what the shipped ones do."""

import copy
from typing import Any

import pytest
import torch
from easydict import EasyDict

from ding.data import TransitionBatch, is_batched
from ding.entry import serial_pipeline, serial_pipeline_onpolicy
from ding.policy import DummyCommandModePolicy, EpsCommandModePolicy
from ding.utils import POLICY_REGISTRY, deep_merge_dicts, set_pkg_seed
from tests.policy import own_policies as own
from tests.policy.test_policy_conformance import R2D2, _collect_columns, _finished, _make
from tests.policy.test_policy_joint_q import CASES as JOINT
from tests.policy.test_policy_joint_q import collect, policy_of, samples_of

TWIN = {"model": {"twin_critic": True}}
# Policy, settings, arguments of collecting; and whether an update is, but for rounding, that of the shipped policy.
OWN: dict[str, tuple[type, dict[str, Any], dict[str, Any], bool]] = {
    "dqn": (own.OwnDQN, {}, {"eps": 0.4}, True),
    "dqn-nstep": (own.OwnDQN, {"nstep": 3}, {"eps": 0.4}, True),
    "c51": (own.OwnC51, {"nstep": 3}, {"eps": 0.4}, True),
    "rainbow": (own.OwnRainbow, {"priority": False, "priority_IS_weight": False}, {"eps": 0.4}, False),
    "qrdqn": (own.OwnQRDQN, {"nstep": 3}, {"eps": 0.4}, True),
    "iqn": (own.OwnIQN, {}, {"eps": 0.4}, True),
    "r2d2": (own.OwnR2D2, {**R2D2, "learn": {"batch_size": 6}}, {"eps": 0.4}, True),
    "ppo": (own.OwnPPO, {"learn": {"epoch_per_collect": 2, "batch_size": 7}}, {}, True),
    "ppo-stored-adv": (own.OwnPPO, {"recompute_adv": False, "learn": {"epoch_per_collect": 1}}, {}, True),
    "ppo-offpolicy": (own.OwnPPOOff, {}, {}, True),
    "a2c": (own.OwnA2C, {"learn": {"grad_norm": 0.5}}, {}, True),
    "pg": (own.OwnPG, {}, {}, True),
    "impala": (own.OwnIMPALA, {"unroll_len": 4}, {}, True),
    "ddpg": (own.OwnDDPG, {"learn": {"actor_update_freq": 2}}, {}, True),
    "td3": (own.OwnTD3, {}, {}, True),
    "sac": (own.OwnSAC, TWIN, {}, True),
    "sac-single": (own.OwnSAC, {"model": {"twin_critic": False}, "learn": {"log_space": False}}, {}, True),
    "sac-fixed": (own.OwnSAC, {**TWIN, "learn": {"auto_alpha": False}}, {}, True),
    "discrete-sac": (own.OwnDiscreteSAC, {}, {"eps": 0.4}, True),
}


def _policy(case: str, shipped: bool = False, **more: Any) -> Any:
    cls, settings, _, _ = OWN[case]
    base = next(one for one in cls.__mro__ if one.__module__.startswith("ding."))
    return _make(base if shipped else cls, deep_merge_dicts(settings, more))


def _samples(policy: Any, case: str) -> list[dict[str, Any]]:
    set_pkg_seed(1, use_cuda=False)
    pieces = _finished(_collect_columns(policy, OWN[case][2]), type(policy))
    found = TransitionBatch.concat([policy.collect_mode.get_train_sample(piece) for piece in pieces])
    # A recurrent network keeps states for as many sequences as a batch has.
    return [dict(row) for row in found][: 6 if case == "r2d2" else None]


def _updated(policy: Any, samples: list[dict[str, Any]], updates: int) -> list[Any]:
    set_pkg_seed(2, use_cuda=False)
    results = [policy.learn_mode.forward(copy.deepcopy(samples)) for _ in range(updates)]
    return [one for result in results for one in (result if isinstance(result, list) else [result])]


def _weights(policy: Any) -> dict[str, torch.Tensor]:
    state = policy.learn_mode.state_dict()
    return {f"{key}.{name}": x for key in state if "model" in key for name, x in state[key].items()}


@pytest.mark.parametrize("case", OWN)
def test_it_learns(case: str) -> None:
    policy = _policy(case)
    assert not is_batched(policy.learn_mode.forward)
    samples = _samples(policy, case)
    before = copy.deepcopy(_weights(policy))
    results = _updated(policy, samples, 4)
    assert all(result for result in results)
    after = _weights(policy)
    assert all(torch.isfinite(value).all() for value in after.values())
    assert any(not torch.equal(before[key], after[key]) for key in after)
    # The state of a run goes on in another object.
    other = _policy(case)
    other.learn_mode.load_state_dict(policy.learn_mode.state_dict())
    assert _updated(other, samples, 1)


@pytest.mark.parametrize("case", [case for case, (*_, same) in OWN.items() if same])
def test_it_learns_what_the_shipped_policy_learns(case: str) -> None:
    written, shipped = (_policy(case, shipped=flag, reference_numerics=True) for flag in (False, True))
    samples = _samples(shipped, case)
    _updated(written, samples, 2)
    _updated(shipped, samples, 2)
    expected = _weights(shipped)
    for name, value in _weights(written).items():
        # Adam makes steps of one size: of a gradient near zero rounding may choose the direction.
        apart = ~torch.isclose(value, expected[name], rtol=1e-4, atol=2e-5)
        assert apart.float().mean() < 0.05, name


@pytest.mark.parametrize("double_q", [False, True])
def test_qmix(double_q: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = policy_of("qmix", learn={"double_q": double_q, "batch_size": 6})
    samples = samples_of(shipped, collect(shipped, "qmix", False))
    monkeypatch.setitem(JOINT, "qmix", (own.OwnQMIX, *JOINT["qmix"][1:]))
    written = policy_of("qmix", learn={"double_q": double_q, "batch_size": 6})
    for _ in range(2):
        result = written.learn_mode.forward(copy.deepcopy(samples))
        expected = shipped.learn_mode.forward(copy.deepcopy(samples))
    if double_q:  # without it, its targets begin before the first step, as those of DI-engine do
        assert result["total_loss"] == pytest.approx(expected["total_loss"], rel=1e-3)


def _config(kind: str, **policy: Any) -> tuple[EasyDict, EasyDict]:
    main = {
        "exp_name": "e",
        "env": {"env_id": "CartPole-v1", "collector_env_num": 2, "evaluator_env_num": 1, "n_evaluator_episode": 1},
        "policy": deep_merge_dicts({"model": {"obs_shape": 4, "action_shape": 2}}, policy),
    }
    main["env"]["stop_value"] = 1e9
    create = {"env": {"type": "cartpole"}, "env_manager": {"type": "base"}, "policy": {"type": kind}}
    return EasyDict(main), EasyDict(create)


RUNS = {
    "dqn": (EpsCommandModePolicy, serial_pipeline, {"batch_size": 8}),
    "ppo": (
        DummyCommandModePolicy,
        serial_pipeline_onpolicy,
        {"batch_size": 8, "epoch_per_collect": 2, "lr_scheduler": {"epoch_num": 8, "min_lr_lambda": 0.5}},
    ),
}


@pytest.mark.parametrize("case", RUNS)
def test_a_run(case: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands, pipeline, learn = RUNS[case]
    cls = OWN[case][0]
    monkeypatch.setitem(POLICY_REGISTRY, "own", cls)
    monkeypatch.setitem(POLICY_REGISTRY, "own_command", type("OwnCommand", (cls, commands), {}))
    policy = pipeline(_config("own", learn=learn, collect={"n_sample": 16}), seed=0, max_env_step=64)
    assert isinstance(policy, cls)
    if case == "ppo":  # one step of the schedule for each of the four calls of learning, although it makes one itself
        assert policy.learn_mode.state_dict()["optimizer"]["param_groups"][0]["lr"] == pytest.approx(3e-4 * 0.75)
