"""Behaviour cloning: the numbers of its first learn steps, its options, acting with and without noise."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import EnvBatch, TransitionBatch
from ding.model import ContinuousBC, DiscreteBC
from ding.policy import BCCommandModePolicy, BehaviourCloningPolicy
from ding.policy.errors import PolicyConfigError
from ding.utils import deep_merge_dicts

CONTINUOUS = {"continuous": True, "loss_type": "mse_loss", "model": {"action_space": "regression"}}


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def make(cls: type = BehaviourCloningPolicy, **overrides: Any) -> Any:
    torch.manual_seed(0)
    base = {"model": {"obs_shape": 4, "action_shape": 2}, "learn": {"batch_size": 4}}
    return cls(deep_merge_dicts(deep_merge_dicts(cls.default_config(), base), overrides))


def samples(continuous: bool) -> list[dict[str, Any]]:
    actions = [0.9 * wave((2,), 0.4 * i) if continuous else torch.tensor(i % 2) for i in range(4)]
    return [{"obs": wave((4,), 0.3 * i), "action": action} for i, action in enumerate(actions)]


@pytest.mark.parametrize("as_columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize(
    ("overrides", "losses", "total"),
    [({}, (5.89304, 5.88966, 5.88324), 1696.87), (CONTINUOUS, (0.33401, 0.333979, 0.333921), 230.851)],
    ids=["discrete", "continuous"],
)
def test_first_learn_steps(overrides, losses, total, as_columns):
    policy = make(**overrides)
    model = policy.learn_mode.get_attribute("model")
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.linspace(-0.1, 0.1, p.numel()).reshape(p.shape))
    data: Any = samples(bool(overrides))
    if as_columns:
        data = TransitionBatch(TransitionBatch.from_rows(data).columns)
    for loss in losses:
        result = policy.learn_mode.forward(data)
        assert result["total_loss"] == pytest.approx(loss, rel=1e-5)
        assert set(result) >= set(policy.learn_mode.monitor_vars())
    assert sum(float(p.detach().abs().sum()) for p in model.parameters()) == pytest.approx(total, rel=1e-5)


def test_a_batch_of_one_and_the_options():
    result = make(learn={"ce_label_smooth": True, "show_accuracy": True}).learn_mode.forward(samples(False)[:1])
    assert result["accuracy"] in (0.0, 1.0)
    assert math.isfinite(result["total_loss"])
    adam = make(learn={"optimizer": "Adam", "weight_decay": None})
    assert math.isfinite(adam.learn_mode.forward(samples(False))["total_loss"])


class Echo(torch.nn.Module):
    """Predicts the observation."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(()))

    def forward(self, obs: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"action": obs + self.shift}


@pytest.mark.parametrize(
    ("seen", "tanh_mask", "loss"),
    [
        ([0.0, 0.5, 0.9, -0.9], False, 2.8 / 4),
        ([0.0, 0.5, 0.9, -0.9], True, 1.0 / 2),
        ([0.9, 0.9, 0.9, 0.9], True, (0.1 + 0.4 + 0.9 + 0.9) / 4),
    ],
)
def test_targets_beyond_the_limit_are_left_out_unless_they_are_most(seen, tanh_mask, loss):
    settings = {"continuous": True, "model": {"obs_shape": 4, "action_shape": 4}, "learn": {"tanh_mask": tanh_mask}}
    cfg = deep_merge_dicts(BehaviourCloningPolicy.default_config(), settings)
    policy = BehaviourCloningPolicy(cfg, model=Echo(), enable_field=["learn"])
    sample = {"obs": torch.tensor(seen), "action": torch.tensor([1.0, 0.5, 0.0, 0.0])}
    assert policy.learn_mode.forward([sample])["total_loss"] == pytest.approx(loss)


def test_recorded_updates_give_the_numbers_of_eager_ones():
    learn = {"optimizer": "Adam", "learning_rate": 1e-2, "show_accuracy": True}
    eager, recorded = (make(learn={**learn, "compile": setting}) for setting in (False, "record"))
    for _ in range(3):
        expected = eager.learn_mode.forward(samples(False))
        assert recorded.learn_mode.forward(samples(False)) == pytest.approx(expected, rel=1e-4)
    assert recorded.learn_mode.get_attribute("compiled_updates").graphs.num_runs == 3


def test_the_learning_rate_warms_up_and_decays_by_epochs():
    learn = {"lr_decay": True, "learning_rate": 1e-2, "warmup_lr": 1e-3, "warmup_epoch": 1, "decay_epoch": 2}
    policy = make(learn=learn)
    rates = []
    for _ in range(6):
        rates.append(policy.learn_mode.forward(samples(False))["cur_lr"])
        policy.learn_mode.get_attribute("lr_scheduler").step()
    assert rates == pytest.approx([1e-3, 1e-3, 1e-2, 1e-3, 1e-3, 1e-4])


def test_noise_of_continuous_actions():
    obs = EnvBatch(np.arange(64), np.zeros((64, 4), np.float32))
    plain = make(**CONTINUOUS)
    expected = plain.eval_mode.forward(obs).columns["action"]
    torch.testing.assert_close(plain.collect_mode.forward(obs, sigma=0.5).columns["action"], expected)
    noisy = make(**CONTINUOUS, collect={"noise": True, "noise_range": {"min": -0.1, "max": 0.1}})
    change = noisy.collect_mode.forward(obs, sigma=0.5).columns["action"] - expected
    assert 0.05 < float(change.abs().max()) <= 0.1 + 1e-6


def test_settings_of_the_command_twin():
    schedule = {"start": 1.0, "end": 0.1, "decay": 10, "type": "linear"}
    assert make(BCCommandModePolicy).command_mode.get_setting_collect({"envstep": 3}) == {"eps": 0.0}
    command = make(BCCommandModePolicy, other={"eps": schedule}).command_mode
    assert command.get_setting_collect({"envstep": 5}) == {"eps": pytest.approx(0.55)}
    assert make(BCCommandModePolicy, **CONTINUOUS).command_mode.get_setting_collect({"learner_step": 9}) == {
        "sigma": 0.2
    }
    command = make(BCCommandModePolicy, **CONTINUOUS, collect={"noise_sigma": schedule}).command_mode
    assert command.get_setting_collect({"learner_step": 10}) == {"sigma": pytest.approx(0.1)}


@pytest.mark.parametrize(
    ("match", "overrides"),
    [
        ("did you mean 'mse_loss'", {**CONTINUOUS, "loss_type": "mse_los"}),
        ("did you mean 'SGD'", {"learn": {"optimizer": "SGDD"}}),
        ("use 'regression'", {**CONTINUOUS, "model": {"action_space": "reparameterization"}}),
        ("clip_norm", {"learn": {"grad_clip_type": "clip_momentum"}}),
    ],
)
def test_wrong_settings(match, overrides):
    with pytest.raises(PolicyConfigError, match=f"(?i){match}"):
        make(**overrides)


def test_parameter_names():
    discrete = {name: tuple(p.shape) for name, p in DiscreteBC(4, 2).state_dict().items()}
    assert len(discrete) == 14
    assert discrete["encoder.init.weight"] == (128, 4)
    assert discrete["head.A.1.0.weight"] == (2, 64)
    continuous = ContinuousBC(4, 2, "regression").state_dict()
    assert sorted(name.removesuffix(".weight") for name in continuous if name.endswith("weight")) == [
        "actor.0",
        "actor.2.last",
        "actor.2.main.0",
    ]
    assert set(ContinuousBC(4, 2, "reparameterization")(torch.zeros(3, 4))) == {"logit"}
    assert DiscreteBC((3, 40, 40), 2, [8, 8, 8], strides=[2, 2, 2])(torch.zeros(2, 3, 40, 40))["logit"].shape == (2, 2)
    with pytest.raises(RuntimeError, match="strides are for images"):
        DiscreteBC(4, 2, strides=[1])
