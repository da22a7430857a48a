"""Diffusion of trajectories: networks and models give the numbers of DI-engine, but for its faults."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ding.model.template.diffusion import (
    GaussianDiffusion,
    GaussianInvDynDiffusion,
    PlanDiffuser,
    ValueDiffusion,
    default_sample_fn,
    get_guide_output,
    n_step_guided_p_sample,
)
from ding.torch_utils.network.diffusion import (
    DiffusionConv1d,
    DiffusionUNet1d,
    LayerNorm,
    LinearAttention,
    PreNorm,
    Residual,
    ResidualTemporalBlock,
    SinusoidalPosEmb,
    TemporalValue,
    apply_conditioning,
    cosine_beta_schedule,
    extract,
)
from ding.utils import MODEL_REGISTRY
from ding.utils.errors import InvalidArgumentError


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def filled(module: Any, scale: float = 0.3) -> Any:
    with torch.no_grad():
        for number, (_, parameter) in enumerate(sorted(module.named_parameters())):
            parameter.copy_(scale * wave(tuple(parameter.shape), number))
    return module


def close(found: torch.Tensor, expected: list[float]) -> None:
    np.testing.assert_allclose(found.detach().flatten()[: len(expected)], expected, rtol=2e-4, atol=1e-6)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.fixture
def no_noise(monkeypatch):
    """What is drawn is a wave."""

    def drawn(*shape: Any, **kwargs: Any) -> torch.Tensor:
        return wave(tuple(shape[0]) if isinstance(shape[0], (tuple, torch.Size)) else shape, 0.2)

    monkeypatch.setattr(torch, "randn", drawn)
    monkeypatch.setattr(torch, "randn_like", lambda x, **kwargs: wave(tuple(x.shape), 0.9))


def test_functions():
    assert extract(torch.tensor([1, 2, 3]), torch.tensor([2, 0]), (2, 4, 5)).tolist() == [[[3]], [[1]]]
    close(cosine_beta_schedule(5), [0.101294, 0.279544, 0.473635, 0.724052, 0.999])
    close(cosine_beta_schedule(20)[[0, 1, 10, 18, 19]], [0.00799272, 0.020075, 0.156997, 0.748476, 0.999])
    close(cosine_beta_schedule(1000)[[0, 1, 500, 998]], [4.12842e-05, 4.61418e-05, 0.00315569, 0.749999])
    close(SinusoidalPosEmb(6)(torch.tensor([0, 3]))[1], [0.14112, 0.0299955, 0.0003, -0.989992, 0.99955, 1.0])
    x = torch.zeros(1, 2, 3)
    assert apply_conditioning(x, {1: torch.ones(1, 2)}, 1) is x
    assert x.tolist() == [[[0, 0, 0], [0, 1, 1]]]


BLOCKS = {
    "conv": (DiffusionConv1d(3, 8, 5, 2, nn.Mish()), 3, [0.287585, 0.27746, 0.349795, 0.432124, 0.18919, -0.0518653]),
    "norm": (LayerNorm(3), 3, [0.208208, 0.52135, 0.36177, 0.250988, 0.768272, -0.277733]),
    "attention": (LinearAttention(8, 2, 4), 8, [-0.0266953, -0.0528641, -0.0541702, -0.0299992, 0.285352]),
    "residual": (
        Residual(PreNorm(8, LinearAttention(8, 2, 4))),
        8,
        [-0.383275, 0.268015, 0.552385, 0.33381, 0.135334, -0.51506],
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name, capsys):
    module, channels, expected = BLOCKS[name]
    close(filled(module, 0.5)(wave((2, channels, 4), 0.1)), expected)
    assert capsys.readouterr().out == ""


def test_blocks_with_time():
    x, t = wave((2, 3, 4), 0.1), wave((2, 6), 0.2)
    expected = [0.94614, 0.650061, 0.336362, 0.159616, -0.0115348, 0.14188, 0.605609, 0.787879]
    close(filled(ResidualTemporalBlock(3, 8, 6), 0.5)(x, t), expected)
    expected = [0.214513, 0.775059, 0.888056, 0.590358, 0.0817572, -0.497923]
    close(filled(ResidualTemporalBlock(8, 8, 6, mish=False), 0.5)(wave((2, 8, 4), 0.1), t), expected)
    assert DiffusionConv1d(3, 8, 5, 2)(x).shape == (2, 8, 4)


TIME = torch.tensor([0, 3])
UNETS = {
    "plain": ({}, {}, 11014, [-0.337047, -0.0912778, 0.192754, 0.384434, 0.397341, 0.228224, -0.330947]),
    "deep": (
        {"dim_mults": [1, 2, 4], "kernel_size": 5, "attention": True},
        {},
        121606,
        [0.0825635, 0.197196, 0.216967, 0.135172, -0.00733643],
    ),
    "returns": (
        {"returns_condition": True},
        {"returns": wave((2, 1), 0.5), "use_dropout": False},
        12350,
        [-0.333746, -0.0701598, 0.22221, 0.409006],
    ),
    "dropped": (
        {"returns_condition": True},
        {"returns": wave((2, 1), 0.5), "force_dropout": True},
        12350,
        [-0.279621, -0.0544027, 0.192526, 0.347205],
    ),
    "energy": ({"calc_energy": True}, {}, 11014, [0.00285966, 0.0244741, 0.0369223, 0.0336526]),
}


@pytest.mark.parametrize("name", UNETS)
def test_u_nets(name):
    options, arguments, parameters, expected = UNETS[name]
    network = filled(DiffusionUNet1d(6, **{"dim": 8, "dim_mults": [1, 2], "kernel_size": 3, **options}))
    assert count(network) == parameters
    close(network(wave((2, 4, 6), 0.1), None, TIME, **arguments), expected)
    if name != "energy":
        close(network.get_pred(wave((2, 4, 6), 0.1), None, TIME, **arguments), expected)


def test_a_u_net_names_what_it_cannot_take():
    network = DiffusionUNet1d(6, dim=8, dim_mults=[1, 2], returns_condition=True)
    with pytest.raises(InvalidArgumentError, match="multiples of 2, got 5"):
        network(torch.zeros(2, 5, 6), None, TIME, torch.zeros(2, 1))
    with pytest.raises(InvalidArgumentError, match="needs returns"):
        network(torch.zeros(2, 4, 6), None, TIME)


def test_values():
    network = filled(TemporalValue(4, 6, dim=8, dim_mults=[1, 4]))
    assert count(network) == 30121
    close(network(wave((2, 4, 6), 0.1), None, TIME), [-0.16922, -0.206031])
    network = filled(TemporalValue(32, 6, dim=8, dim_mults=[1, 2, 4, 8]))
    close(network(wave((2, 32, 6), 0.1), None, TIME), [-0.30618, -0.295629])
    # Embeddings of another size, and horizons that are no powers of two.
    assert TemporalValue(20, 6, dim=8, time_dim=5, dim_mults=[1, 4])(torch.zeros(2, 20, 6), None, TIME).shape == (2, 1)


SIZES = {"horizon": 4, "obs_dim": 4, "action_dim": 2, "n_timesteps": 5}
DIFFUSER = {
    "model": "DiffusionUNet1d",
    "model_cfg": {"transition_dim": 6, "dim": 8, "dim_mults": [1, 2], "kernel_size": 3},
    **SIZES,
}
VALUE = {
    "model": "TemporalValue",
    "model_cfg": {"horizon": 4, "transition_dim": 6, "dim": 8, "dim_mults": [1, 4]},
    **SIZES,
}
X, T, COND = wave((2, 4, 6), 0.1), torch.tensor([1, 4]), {0: wave((2, 4), 0.3)}


def test_the_noise_of_each_step():
    model = GaussianDiffusion(**DIFFUSER, action_weight=10, loss_discount=0.9, loss_weights={1: 3.0})
    close(model.posterior_variance, [0, 0.0803245, 0.253291, 0.526835, 0.905134])
    close(model.posterior_log_variance_clipped, [-46.0517, -2.52168, -1.37322, -0.640868, -0.0996728])
    close(model.posterior_mean_coef1, [1, 0.751749, 0.578157, 0.466573, 0.306391])
    close(model.posterior_mean_coef2, [0, 0.243894, 0.387988, 0.382224, 0.0286513])
    close(model.loss_weights, [10, 10, 1.16313, 3.48939, 1.16313, 1.16313, 1.04682, 1.04682, 1.04682, 3.14045])
    assert "loss_weights" in dict(model.named_buffers())
    model = filled(GaussianDiffusion(**DIFFUSER, action_weight=10))
    noise = wave((2, 4, 6), 0.7)
    close(model.q_sample(X, T, noise), [0.462827, 1.16232, 1.31516, 0.849459])
    mean, variance, _ = model.p_mean_variance(X, COND, T)
    close(mean, [0.304728, 0.90106, 1.07631, 0.746469, 0.0645785, -0.650309])
    close(variance, [0.0803245, 0.905134])
    close(model.predict_start_from_noise(X, T, noise), [-0.351281, 0.164367, 0.60271])


def test_losses(no_noise):
    model = filled(GaussianDiffusion(**DIFFUSER, action_weight=10))
    model.reference_numerics = True
    loss, first = model.p_losses(X, COND, T)
    assert (loss.item(), first.item()) == pytest.approx((1.39102, 0.0783632), rel=1e-4)
    # The corrected loss compares the noise of a given observation as any other.
    model.reference_numerics = False
    other, same = model.p_losses(X, COND, T)
    assert other.item() != pytest.approx(1.39102, rel=1e-3)
    assert same.item() == first.item()
    model = filled(GaussianDiffusion(**DIFFUSER, action_weight=10, predict_epsilon=False))
    loss, first = model.p_losses(X, COND, T)
    assert (loss.item(), first.item()) == pytest.approx((1.11869, 0.0568644), rel=1e-4)
    value = filled(ValueDiffusion(**VALUE))
    for target in (wave((2, 1), 0.4), wave((2,), 0.4)):
        loss, numbers = value.p_losses(X, COND, target, T)
        assert loss.item() == pytest.approx(0.76041, rel=1e-4)
    assert {key: one.item() for key, one in numbers.items()} == pytest.approx(
        {"mean_pred": -0.195165, "max_pred": -0.194043, "min_pred": -0.196288}, rel=1e-4
    )
    close(value(X, COND, T), [-0.196297, -0.194223])


def test_sampling(no_noise):
    model = filled(GaussianDiffusion(**DIFFUSER, predict_epsilon=False, clip_denoised=True))
    sample = model(COND)
    assert (sample.trajectories.shape, sample.values.tolist(), sample.chains) == ((2, 1, 4, 6), [[0.0], [0.0]], None)
    close(sample.trajectories, [-0.353449, -0.124355, 0.29552, 0.841471, 0.991665, 0.675463, -0.329134])
    chains = model.conditional_sample(COND, return_chain=True).chains
    assert chains.shape == (2, 6, 4, 6)
    assert torch.equal(chains[:, -1:], sample.trajectories)


def test_plans(no_noise):
    diffuser = {**DIFFUSER, "predict_epsilon": False}
    options = {"n_guide_steps": 2, "scale": 0.1, "t_stopgrad": 2}
    model = filled(PlanDiffuser("GaussianDiffusion", diffuser, "ValueDiffusion", VALUE, **options))
    assert len(model.state_dict()) == 208
    conditions = {0: wave((2, 4), 0.3)}
    close(model.get_eval(conditions, 3), [-0.350109, -0.126159, -0.320501, 0.024426])
    # The caller's conditions stay.
    assert conditions[0].shape == (2, 4)
    close(get_guide_output(model.value, X, COND, T)[0], [-0.213096, -0.20384])
    x, values = n_step_guided_p_sample(model.diffuser, X, COND, T, model.value, **options)
    close(x, [-0.0131121, 0.370878, 0.40532, 0.517301])
    close(values, [-0.213136, -0.203352])
    close(default_sample_fn(model.diffuser, X, COND, T)[0], [-0.11823, 0.240828, 0.482959])
    assert all(parameter.grad is None for parameter in model.parameters())
    model = filled(PlanDiffuser("GaussianDiffusion", {**diffuser, "clip_denoised": True}, None, {}))
    plans = model.get_eval({0: wave((2, 4), 0.3), 3: wave((2, 4), 0.5)})
    assert plans.shape == (2, 4, 4)
    close(plans, [0.29552, 0.841471, 0.991665, 0.675463, 0.252829, 0.433226])
    assert model.get_eval(COND, 2).shape == (2, 2, 4, 4)


def test_plans_are_sorted_by_value():
    torch.manual_seed(0)
    model = GaussianDiffusion(**DIFFUSER)

    def first_number(model, x, cond, t):
        return x, x[:, 1, 0]

    sample = model.conditional_sample({0: torch.zeros(6, 4)}, sample_fn=first_number, plan_size=3)
    assert sample.values.shape == (2, 3)
    assert (sample.values[:, :-1] >= sample.values[:, 1:]).all()
    assert torch.equal(sample.trajectories[:, :, 1, 0], sample.values)


def test_states_and_actions_between(no_noise):
    network = {**DIFFUSER["model_cfg"], "transition_dim": 4, "returns_condition": True, "condition_dropout": 0.0}
    model = GaussianInvDynDiffusion("DiffusionUNet1d", network, **SIZES, hidden_dim=7, returns_condition=True)
    filled(model)
    assert MODEL_REGISTRY["dd"] is GaussianInvDynDiffusion
    assert count(model) == 12403
    x, returns = wave((2, 4, 4), 0.1), wave((2, 1), 0.5)
    assert model.p_losses(x, COND, T, returns).item() == pytest.approx(0.523502, rel=1e-4)
    close(model.p_mean_variance(x, COND, T, returns)[0], [0.311239, 0.87585, 1.02973, 0.698879])
    close(model.inv_model(wave((2, 8), 0.1)), [-0.243496, -0.458679, -0.146335, -0.437019])
    states, chain = model(COND, returns, return_diffusion=True)
    assert torch.equal(states[:, 0], COND[0])
    assert chain.shape == (2, 6, 4, 4)


@pytest.mark.parametrize(
    ("diffuser", "error", "match"),
    [
        ({"obs_dim": 5}, InvalidArgumentError, r"diffuser_model_cfg.model_cfg.transition_dim is 6, .* = 7"),
        ({"model": "TemporalUnet"}, KeyError, "TemporalUnet.*DiffusionUNet1d"),
    ],
)
def test_what_does_not_fit_is_named(diffuser, error, match):
    with pytest.raises(error, match=match):
        PlanDiffuser("GaussianDiffusion", {**DIFFUSER, **diffuser}, None, {})
    with pytest.raises(InvalidArgumentError, match=r"value_model_cfg.model_cfg.horizon is 4, .* 8 steps"):
        PlanDiffuser("GaussianDiffusion", DIFFUSER, "ValueDiffusion", {**VALUE, "horizon": 8})
