"""Checkpoints of the original API load by the names of their parameters, and are saved with the same names."""

import re
from typing import Any

import numpy as np
import pytest
import torch

from ding.policy import C51Policy, PPOPolicy, R2D2Policy
from ding.utils import deep_merge_dicts, read_file

_ENCODER = "encoder.init W128x4 b128, encoder.main.0 W128x128 b128, encoder.main.2 W64x128 b64, "
# ``name Wshape bshape`` stands for ``name.weight`` and ``name.bias``, ``name [shape]`` for a parameter of that name.
LAYOUTS = {
    "c51": _ENCODER + "head.Q.0.0 W64x64 b64, head.Q.1.0 W102x64 b102",
    "r2d2": _ENCODER + "rnn.bias [1x256], rnn.norm.0 W256 b256, rnn.norm.1 W256 b256, rnn.wx.0 [64x256], "
    "rnn.wh.0 [64x256], head.A.0.0 W64x64 b64, head.A.1.0 W2x64 b2, head.V.0.0 W64x64 b64, head.V.1.0 W1x64 b1",
    "ppo": _ENCODER + "critic_head.main.0 W64x64 b64, critic_head.last W1x64 b1, actor_head.Q.0.0 W64x64 b64, "
    "actor_head.Q.1.0 W2x64 b2",
}
# A part that is registered twice is in the file twice.
ALIASES = {
    "ppo": {"actor.0": "encoder", "actor.1": "actor_head", "critic.0": "encoder", "critic.1": "critic_head"},
}
POLICIES: dict[str, Any] = {
    "c51": (C51Policy, {}),
    "r2d2": (R2D2Policy, {"collect": {"env_num": 1}, "eval": {"env_num": 1}}),
    "ppo": (PPOPolicy, {}),
}


def model_state(name: str, seed: int) -> dict[str, torch.Tensor]:
    """A network of the original API, drawn at random."""
    generator = torch.Generator().manual_seed(seed)
    own = {}
    for entry in LAYOUTS[name].split(", "):
        where, *parts = entry.split()
        for part in parts:
            kind, text = re.fullmatch(r"([Wb\[])([\dx]+)\]?", part).groups()
            key = where if kind == "[" else f"{where}.{'weight' if kind == 'W' else 'bias'}"
            own[key] = torch.randn([int(n) for n in text.split("x")], generator=generator)
    aliases = {
        alias + key.removeprefix(home): value
        for alias, home in ALIASES.get(name, {}).items()
        for key, value in own.items()
        if key.startswith(home + ".")
    }
    return {**own, **aliases}


def checkpoint(name: str) -> dict[str, Any]:
    """What the learner of the original API saves."""
    model = model_state(name, 1)
    numel = {key: value for key, value in model.items() if not key.startswith(tuple(ALIASES.get(name, {"-": 0})))}
    state = {
        index: {"step": torch.tensor(7.0), "exp_avg": value * 0.1, "exp_avg_sq": value.square()}
        for index, value in enumerate(numel.values())
    }
    group = {"lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "amsgrad": False}
    optimizer = {"state": state, "param_groups": [{**group, "params": list(state)}]}
    target = {} if name == "ppo" else {"target_model": model_state(name, 2)}
    return {"model": model, **target, "optimizer": optimizer, "last_iter": 70, "last_step": 4000}


def make(name: str) -> Any:
    cls, overrides = POLICIES[name]
    cfg = deep_merge_dicts(cls.default_config(), {"model": {"obs_shape": 4, "action_shape": 2}})
    return cls(deep_merge_dicts(cfg, overrides))


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_a_checkpoint_of_the_original_loads_and_is_saved_alike(name, tmp_path):
    path = str(tmp_path / "ckpt_best.pth.tar")
    torch.save(checkpoint(name), path)
    saved, policy = read_file(path), make(name)
    policy.learn_mode.load_state_dict({key: value for key, value in saved.items() if not key.startswith("last_")})
    state = policy.learn_mode.state_dict()
    for key in saved.keys() & {"model", "target_model"}:
        assert state[key].keys() == saved[key].keys()
        for parameter, value in saved[key].items():
            assert torch.equal(state[key][parameter], value), parameter
    assert state["optimizer"]["param_groups"][0]["lr"] == 0.01
    for index, moments in saved["optimizer"]["state"].items():
        assert torch.equal(state["optimizer"]["state"][index]["exp_avg"], moments["exp_avg"])


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_it_is_evaluated_with_its_network(name):
    saved, policy = checkpoint(name), make(name)
    obs = {0: torch.tensor(np.sin(np.arange(4)), dtype=torch.float32)}
    policy.eval_mode.load_state_dict(saved)
    policy.collect_mode.load_state_dict(saved)
    kept = policy.eval_mode.get_attribute("model").state_dict()
    assert all(torch.equal(kept[key], value) for key, value in saved["model"].items())
    assert policy.eval_mode.forward(obs)[0]["action"].shape == (1,)
