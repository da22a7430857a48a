"""Checkpoints of DI-engine 0.5 load by the names of their parameters, and are saved with the same names.

``reference_states.json`` says what is in them, in a line for each policy: its config, the names and shapes of the
parameters of each network (``=name``: the same parameter again), the networks that are like ``model``, and the number
of parameters in each group of an optimiser. DI-engine 0.5.3 was called to find them.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ding.policy
from ding.policy import PolicyWeightsError
from ding.utils import deep_merge_dicts, read_file

STATES: dict[str, Any] = json.loads(Path(__file__).with_name("reference_states.json").read_text(encoding="utf-8"))
# Of these the moments of the optimiser are looked at, too.
WITH_MOMENTS = ("c51", "r2d2", "ppo")
# Of two networks under two names each, DI-engine runs one: what it runs is loaded, and the optimisers start anew.
PDQN_UNUSED = "dis_encoder."
# The perturbation of DI-engine's BCQ has one output for all dimensions of an action; each dimension gets it.
BCQ_SINGLE = ("actor.4.weight", "actor.4.bias")


def network(layout: dict[str, str], seed: int) -> dict[str, torch.Tensor]:
    """A network drawn at random. A shape is ``64x4``, behind its dtype where that is not float32, or ``=name``."""
    generator = torch.Generator().manual_seed(seed)
    drawn = {}
    for name, text in layout.items():
        if text.startswith("="):
            drawn[name] = drawn[text[1:]]
            continue
        dtype, _, shape = text.rpartition(" ") if text and not text[0].isdigit() else ("", "", text)
        sizes = [int(size) for size in shape.split("x") if size]
        value = torch.randn(sizes, generator=generator)
        drawn[name] = value.to(getattr(torch, dtype)) if dtype else value
    return drawn


def optimizer(sizes: list[int], parameters: list[torch.Tensor]) -> dict[str, Any]:
    """The state of an Adam whose groups have so many parameters; with moments where the parameters are given."""
    state = {
        index: {"step": torch.tensor(7.0), "exp_avg": value * 0.1, "exp_avg_sq": value.square()}
        for index, value in enumerate(parameters)
    }
    groups, first = [], 0
    for size in sizes:
        group = {"lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "amsgrad": False}
        groups.append({**group, "params": list(range(first, first + size))})
        first += size
    return {"state": state, "param_groups": groups}


def checkpoint(case: str) -> dict[str, Any]:
    """What the learner of DI-engine saves."""
    found = STATES[case]
    networks = {name: network(layout, 1) for name, layout in found["networks"].items()}
    layout = found["networks"]["model"]
    own = [value for name, value in networks["model"].items() if not layout[name].startswith("=")]
    parameters = own if case in WITH_MOMENTS else []
    targets = {name: network(layout, 2) for name in found["same as model"]}
    optimizers = {name: optimizer(sizes, parameters) for name, sizes in found["optimizers"].items()}
    return {**networks, **targets, **optimizers, "last_iter": 70, "last_step": 4000}


def make(case: str) -> Any:
    cls = getattr(ding.policy, STATES[case]["policy"])
    return cls(deep_merge_dicts(cls.default_config(), {"cuda": False, **STATES[case]["cfg"]}))


@pytest.mark.parametrize("case", STATES)
def test_a_checkpoint_of_the_original_loads_and_is_saved_alike(case, tmp_path) -> None:
    path = str(tmp_path / "ckpt_best.pth.tar")
    torch.save(checkpoint(case), path)
    saved, policy = read_file(path), make(case)
    policy.learn_mode.load_state_dict({key: value for key, value in saved.items() if not key.startswith("last_")})
    policy.eval_mode.load_state_dict(saved)
    state = policy.learn_mode.state_dict()
    for key in {*STATES[case]["networks"], *STATES[case]["same as model"]}:
        assert state[key].keys() == saved[key].keys()
        if case == "bcq":
            saved[key].update({name: saved[key][name].expand(2, *saved[key][name].shape[1:]) for name in BCQ_SINGLE})
        unequal = {name for name, value in saved[key].items() if not torch.equal(state[key][name], value)}
        assert {name for name in unequal if not (case == "pdqn" and name.startswith(PDQN_UNUSED))} == set()
    for key in STATES[case]["optimizers"] if case != "pdqn" else ():
        assert state[key]["param_groups"][0]["lr"] == 0.01


@pytest.mark.parametrize("case", WITH_MOMENTS)
def test_the_optimiser_goes_on_with_its_moments(case) -> None:
    saved, policy = checkpoint(case), make(case)
    policy.learn_mode.load_state_dict(saved)
    state = policy.learn_mode.state_dict()["optimizer"]["state"]
    for index, moments in saved["optimizer"]["state"].items():
        assert torch.equal(state[index]["exp_avg"], moments["exp_avg"])


@pytest.mark.parametrize("case", WITH_MOMENTS)
def test_it_is_evaluated_with_its_network(case) -> None:
    saved, policy = checkpoint(case), make(case)
    obs = {0: torch.tensor(np.sin(np.arange(4)), dtype=torch.float32)}
    policy.eval_mode.load_state_dict(saved)
    policy.collect_mode.load_state_dict(saved)
    kept = policy.eval_mode.get_attribute("model").state_dict()
    assert all(torch.equal(kept[key], value) for key, value in saved["model"].items())
    assert policy.eval_mode.forward(obs)[0]["action"].shape == (1,)


def test_an_optimiser_of_other_parameters_starts_anew(caplog) -> None:
    policy = make("pdqn")
    policy.learn_mode.load_state_dict(checkpoint("pdqn"))
    assert "starts anew" in caplog.text
    assert policy.learn_mode.state_dict()["dis_optimizer"]["state"] == {}


def test_what_does_not_fit_is_reported_by_name_and_nothing_is_changed() -> None:
    saved, policy = checkpoint("dqn"), make("dqn")
    before = {name: value.clone() for name, value in policy.learn_mode.state_dict()["model"].items()}
    model = saved["model"]
    model["encoder.first.weight"] = model.pop("encoder.init.weight")
    model["encoder.init.bias"] = torch.zeros(3)
    with pytest.raises(PolicyWeightsError) as caught:
        policy.learn_mode.load_state_dict(saved)
    assert str(caught.value) == (
        "the state does not fit DQNPolicy: model: 1 not there (encoder.init.weight), "
        "1 unknown (encoder.first.weight), "
        "1 of another shape (encoder.init.bias is [3] there and [128] here)"
    )
    after = policy.learn_mode.state_dict()["model"]
    assert all(torch.equal(after[name], value) for name, value in before.items())
    # Scripts may catch what torch raises there.
    with pytest.raises(RuntimeError, match="1 of another shape"):
        policy.eval_mode.load_state_dict(saved)
