"""``policy.collect.compile`` and ``policy.eval.compile``: networks that act by graphs give what they give without."""

import logging
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import EnvBatch
from ding.policy import C51Policy, DQNPolicy, PPOPolicy, QRDQNPolicy, R2D2Policy, SACPolicy
from ding.utils import deep_merge_dicts, set_pkg_seed

ENVS = 5
VALUES = {"obs_shape": 4, "action_shape": 3, "encoder_hidden_size_list": [8, 8, 8]}
DEEP = {**VALUES, "encoder_hidden_size_list": [8, 8, 8, 8]}
ACTOR = {"obs_shape": 4, "action_shape": 2, "actor_head_hidden_size": 8, "critic_head_hidden_size": 8}
CASES: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "c51": (C51Policy, {"model": {**VALUES, "n_atom": 5}}, {"eps": 0.5}),
    "qrdqn": (QRDQNPolicy, {"model": {**VALUES, "num_quantiles": 4}}, {"eps": 0.5}),
    "dueling": (DQNPolicy, {"model": {**VALUES, "dueling": True}}, {"eps": 0.5}),
    "ppo": (
        PPOPolicy,
        {"action_space": "continuous", "model": {**DEEP, "action_space": "continuous"}},
        {},
    ),
    "sac": (
        SACPolicy,
        {"model": {**ACTOR, "actor_head_layer_num": 3}},
        {},
    ),
}  # fmt: skip


def make(case: str, compiled: Any, **more: Any) -> Any:
    cls, cfg, _ = CASES[case]
    set_pkg_seed(0, use_cuda=False)
    sections = {"learn": {"compile": compiled}, "collect": {"unroll_len": 1}}
    cfg = deep_merge_dicts(deep_merge_dicts(cls.default_config(), sections), cfg)
    return cls(deep_merge_dicts(cfg, more), enable_field=["collect", "eval"])


def act(policy: Any, mode: str, count: int, kwargs: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """What the mode gives for the first ``count`` of the environments."""
    rng = np.random.default_rng(seed)
    # Tensors, so that no network runs over arrays.
    obs = torch.from_numpy(rng.normal(size=(ENVS, 4)).astype(np.float32))[:count]
    set_pkg_seed(seed, use_cuda=False)
    forward = getattr(policy, f"{mode}_mode").forward
    return forward(EnvBatch(np.arange(count), obs), **(kwargs if mode == "collect" else {})).columns


def leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [leaf for part in parts for leaf in leaves(part)]


def graphs(policy: Any, mode: str) -> Any:
    *_, inner = getattr(policy, f"{mode}_mode").get_attribute(f"{mode}_model").chain()
    return inner.graphs


@pytest.mark.parametrize("mode", ["collect", "eval"])
@pytest.mark.parametrize("case", CASES)
def test_recorded_networks_act_as_eager_ones_and_padding_changes_no_bit(case, mode):
    kwargs = CASES[case][2]
    eager, compiled = make(case, False), make(case, "record")
    whole = act(compiled, mode, ENVS, kwargs)
    for count in (3, 1, ENVS, 2):
        expected, found = act(eager, mode, count, kwargs), act(compiled, mode, count, kwargs)
        assert expected.keys() == found.keys()
        for one, other in zip(leaves(expected), leaves(found), strict=True):
            torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-6)
        if mode == "eval":
            for one, other in zip(leaves(whole), leaves(found), strict=True):
                assert torch.equal(one[:count], other)
    assert (graphs(compiled, mode).num_compiled, graphs(compiled, mode).num_runs) == (1, 5)


def test_a_number_of_envs_that_grows_or_is_known_beforehand_compiles_little():
    policy, known = make("c51", "record"), make("c51", "record", eval={"env_num": ENVS})
    for count in (1, 2, 3, 4, 5, 1):
        for one in (policy, known):
            act(one, "eval", count, {})
    assert (graphs(policy, "eval").num_compiled, graphs(known, "eval").num_compiled) == (4, 1)


def test_new_weights_are_read_without_another_graph():
    eager, compiled = make("c51", False), make("c51", "record")
    act(compiled, "eval", ENVS, {})
    state = {name: value + 0.1 for name, value in eager.eval_mode.state_dict()["model"].items()}
    for policy in (eager, compiled):
        policy.eval_mode.load_state_dict({"model": state})
    expected, found = act(eager, "eval", ENVS, {}), act(compiled, "eval", ENVS, {})
    torch.testing.assert_close(found["logit"], expected["logit"], rtol=1e-5, atol=1e-6)
    assert graphs(compiled, "eval").num_compiled == 1


def test_networks_that_have_one_go_on_over_arrays():
    policy = make("dueling", "record")
    obs = np.zeros((ENVS, 4), np.float32)
    policy.eval_mode.forward(EnvBatch(np.arange(ENVS), obs))
    assert (graphs(policy, "eval").num_compiled, graphs(policy, "eval").enabled) == (0, True)


def test_each_mode_has_its_setting():
    policy = make("c51", "record", collect={"compile": False})
    collecting = policy.collect_mode.get_attribute("collect_model")
    assert not any(hasattr(wrapper, "graphs") for wrapper in collecting.chain())
    assert graphs(policy, "eval").enabled


@pytest.mark.parametrize(
    ("reason", "cls", "model", "obs"),
    [
        ("convolutions are faster so", DQNPolicy, {"obs_shape": [1, 84, 84]}, np.zeros((2, 1, 84, 84), np.float32)),
        ("torch is as fast with the 12 operations", SACPolicy, ACTOR, torch.zeros(2, 4)),
        ("not a single tensor", R2D2Policy, {"obs_shape": 4}, np.zeros((2, 4), np.float32)),
    ],
)
def test_other_networks_act_eagerly_with_a_line_that_says_why(reason, cls, model, obs, caplog):
    if cls is not SACPolicy:
        model = {**model, "action_shape": 2, "encoder_hidden_size_list": [4, 4, 4]}
    more = {"model": model, "learn": {"compile": "record"}, "eval": {"env_num": 2}}
    policy = cls(deep_merge_dicts(cls.default_config(), more), enable_field=["eval"])
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            policy.eval_mode.forward(EnvBatch(np.arange(2), obs))
    assert caplog.text.count("policy.eval.compile") == caplog.text.count(reason) == 1


def test_a_network_that_is_called_with_more_than_plain_values_acts_eagerly(caplog):
    policy = make("c51", "record")
    act(policy, "eval", 2, {})
    *_, inner = policy.eval_mode.get_attribute("eval_model").chain()
    # The network does not know the argument either; that it was asked shows that nothing else failed.
    with torch.no_grad(), caplog.at_level(logging.WARNING), pytest.raises(TypeError, match="scale"):
        inner.forward(torch.zeros(2, 4), scale=[1.0])
    assert "not a single tensor and plain values" in caplog.text
    assert not graphs(policy, "eval").enabled


# Raised by torch when its compiler is imported.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
@pytest.mark.slow
@pytest.mark.parametrize("case", ["c51", "ppo", "sac"])
def test_compiled_networks_act_as_eager_ones_and_padding_changes_no_bit(case, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    eager, compiled = make(case, False), make(case, True)
    whole = act(compiled, "eval", ENVS, {})
    for count in (ENVS, 3, 1):
        found = act(compiled, "eval", count, {})
        for one, other in zip(leaves(act(eager, "eval", count, {})), leaves(found), strict=True):
            torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-6)
        assert all(torch.equal(one[:count], other) for one, other in zip(leaves(whole), leaves(found), strict=True))
    assert (graphs(compiled, "eval").num_compiled, graphs(compiled, "eval").num_runs) == (1, 4)
