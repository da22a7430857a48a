"""Noise schedules and DPM-Solver: the numbers of DI-engine."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.torch_utils.diffusion_SDE.dpm_solver_pytorch import (
    DPM_Solver,
    NoiseScheduleVP,
    expand_dims,
    interpolate_fn,
    model_wrapper,
)


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def close(found: torch.Tensor, expected: list[float], rtol: float = 2e-4) -> None:
    np.testing.assert_allclose(found.flatten()[: len(expected)], expected, rtol=rtol, atol=1e-6)


LINEAR = NoiseScheduleVP("linear")
DISCRETE = NoiseScheduleVP("discrete", betas=torch.linspace(1e-4, 0.02, 10))
X, T = wave((3, 2), 0.1), torch.tensor([0.3])


def test_schedules():
    t = torch.tensor([0.001, 0.1, 0.5, 1.0])
    close(LINEAR.marginal_log_mean_coeff(t), [-5.4975e-05, -0.05475, -1.26875, -5.025])
    close(LINEAR.marginal_alpha(t), [0.999945, 0.946722, 0.281183, 0.00657159])
    close(LINEAR.marginal_std(t), [0.0104867, 0.322053, 0.959654, 0.999978])
    close(LINEAR.marginal_lambda(t), [4.55759, 1.07829, -1.22757, -5.02498])
    close(LINEAR.inverse_lambda(LINEAR.marginal_lambda(t)), t.tolist())
    cosine, t = NoiseScheduleVP("cosine"), torch.tensor([0.001, 0.1, 0.5, 0.9946])
    close(cosine.marginal_log_mean_coeff(t), [-2.0642e-05, -0.014152, -0.352768, -4.77767])
    close(cosine.marginal_lambda(t), [5.04723, 1.77528, -0.0123134, -4.77763])
    close(cosine.inverse_lambda(cosine.marginal_lambda(t)), t.tolist())
    close(DISCRETE.log_alpha_array, [-5.00108e-05, -0.0012069, -0.00347313, -0.0068512, -0.0113435, -0.0169527])
    t = torch.tensor([0.05, 0.1, 0.25, 1.0])
    close(DISCRETE.marginal_log_mean_coeff(t), [0.000528436, -5.00108e-05, -0.00234002, -0.0506071])
    close(DISCRETE.inverse_lambda(DISCRETE.marginal_lambda(t[1:])), [0.1, 0.25, 1.0])
    same = NoiseScheduleVP(alphas_cumprod=torch.cumprod(1 - torch.linspace(1e-4, 0.02, 10), 0))
    close(same.marginal_lambda(t[1:]), DISCRETE.marginal_lambda(t[1:]).tolist())
    assert (LINEAR.T, LINEAR.total_N, cosine.T, DISCRETE.total_N) == (1, 1000, 0.9946, 10)
    with pytest.raises(ValueError, match="linaer"):
        NoiseScheduleVP("linaer")
    with pytest.raises(AssertionError, match="betas or alphas_cumprod"):
        NoiseScheduleVP()


def test_interpolation():
    keys, values = torch.tensor([[0.0, 1.0, 2.0]]), torch.tensor([[0.0, 2.0, 3.0]])
    x = torch.tensor([-1.0, 0.0, 0.5, 1.5, 3.0]).unsqueeze(1)
    assert interpolate_fn(x, keys, values)[:, 0].tolist() == [-2, 0, 1, 2.5, 4]
    assert expand_dims(torch.zeros(4), 3).shape == (4, 1, 1)


def times(x: torch.Tensor, t: torch.Tensor, c: Any = 0) -> torch.Tensor:
    return x * t.unsqueeze(1) + c


WRAPPED = {
    "noise": ({}, [0.02995, 0.215207, 0.299249]),
    "x_start": ({"model_type": "x_start"}, [0.104225, 0.748909]),
    "v": ({"model_type": "v"}, [0.0964216, 0.69284]),
    # DI-engine documents it, and refuses it: minus sigma times the noise.
    "score": ({"model_type": "score"}, [-0.0232489]),
    "classifier": (
        {
            "guidance_type": "classifier",
            "guidance_scale": 2.0,
            "classifier_fn": lambda x, t, condition: x.square().sum(1),
        },
        [-0.280316, -2.01422],
    ),
    "classifier-free": (
        {
            "guidance_type": "classifier-free",
            "guidance_scale": 2.0,
            "condition": torch.ones(3, 1),
            "unconditional_condition": torch.zeros(3, 1),
        },
        [2.02995, 2.21521],
    ),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_networks_of_other_kinds(name):
    options, expected = WRAPPED[name]
    if name == "score":
        expected = (-LINEAR.marginal_std(T) * times(X, T.expand(3))).flatten().tolist()
    close(model_wrapper(times, LINEAR, **options)(X, T), expected)
    close(model_wrapper(times, DISCRETE)(X, T), [19.9667, 143.471])
    with pytest.raises(ValueError, match="model_type='noises'"):
        model_wrapper(times, LINEAR, model_type="noises")


A = torch.tensor([[0.3, -0.2], [0.1, 0.4]])


def network(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ A) * (1 + t).unsqueeze(1)


TABLE = [
    ({"order": 1}, [-7.03655, 8.59675, 18.6502], [-7.03655, 8.59675, 18.6502]),
    ({"order": 1, "method": "multistep"}, [-7.03655, 8.59675, 18.6502], [-7.03655, 8.59675, 18.6502]),
    ({"order": 2}, [0.593154, -2.30756, -0.944996], [-6.0471, 6.48903, 15.8348]),
    ({"order": 2, "solver_type": "taylor"}, [-1.79928, -0.735389, 0.482931], [-4.61072, 3.10846, 10.7429]),
    ({"order": 3}, [1.10605, 30.1865, 32.8457], [-3.64032, 1.78081, 8.35326]),
    ({"order": 3, "solver_type": "taylor"}, [-1.99687, -0.301069, 1.59973], [-3.54051, 2.68482, 9.54727]),
    ({"order": 2, "method": "multistep"}, [-4.92322, 4.76969, 13.3764], [-3.91322, 3.2208, 11.4591]),
    (
        {"order": 2, "method": "multistep", "solver_type": "taylor"},
        [-5.25269, 5.28865, 14.2098],
        [-3.06459, 2.16344, 9.81772],
    ),
    ({"order": 3, "method": "multistep"}, [-5.02735, 5.05509, 13.7663], [-6.81575, 5.34923, 12.879]),
    ({"order": 2, "method": "singlestep_fixed"}, [3.75674, -16.4793, -12.695], [-6.83457, 8.15766, 18.3325]),
    ({"order": 3, "method": "singlestep_fixed"}, [10.122, 50.9434, 46.9921], [-3.12132, 1.72125, 10.0434]),
    ({"order": 2, "method": "adaptive"}, [-3.32905, 3.19935, 9.00125], [-3.63913, 3.48785, 9.66178]),
    ({"order": 3, "method": "adaptive"}, [-3.51103, 3.55302, 9.63212], [-3.47288, 3.36353, 9.35187]),
    ({"steps": 20}, [-3.5244, 3.87595, 10.1363], [-3.47369, 3.32725, 9.28733]),
    ({"steps": 6, "denoise": True}, [10.1424, 50.9841, 47.0326], [-4.2659, 1.72636, 9.31515]),
    ({"steps": 6, "t_start": 0.9, "t_end": 0.01}, [-0.624397, 7.91166, 10.652], [-2.1723, 2.37206, 5.76172]),
]


@pytest.mark.parametrize(("options", "by_noise", "by_data"), TABLE)
def test_samples(options, by_noise, by_data):
    for predict_x0, expected in ((False, by_noise), (True, by_data)):
        found = DPM_Solver(network, LINEAR, predict_x0=predict_x0).sample(X, **{"steps": 7, **options})
        close(found, expected)


def test_times_and_orders():
    solver = DPM_Solver(network, LINEAR)
    close(solver.get_time_steps("time_uniform", 1.0, 0.001, 4), [1, 0.75025, 0.5005, 0.25075, 0.001])
    close(solver.get_time_steps("logSNR", 1.0, 0.001, 4), [1, 0.722337, 0.304644, 0.0316897, 0.00100022], 1e-3)
    close(solver.get_time_steps("time_quadratic", 1.0, 0.001, 4), [1, 0.574421, 0.266061, 0.074921, 0.001])
    orders = solver.get_orders_for_singlestep_solver
    assert orders(15, 2) == [2] * 7 + [1]
    assert (orders(4, 2), orders(3, 1)) == ([2, 1, 1], [1, 1, 1])
    assert (orders(6, 3), orders(7, 3), orders(8, 3)) == ([3, 2, 1], [3, 3, 1], [3, 3, 2])


def test_limits_of_data():
    solver = DPM_Solver(lambda x, t: torch.zeros_like(x), LINEAR, thresholding=True, max_val=2.0)
    data = solver.data_prediction_fn(torch.tensor([[0.1, 40.0]]), torch.tensor([0.5]))
    assert data.abs().max() == 2


@pytest.mark.parametrize("options", [{"method": "single"}, {"order": 4}, {"method": "adaptive", "order": 1}])
def test_what_is_unknown_is_an_error(options):
    with pytest.raises(ValueError, match="is unknown"):
        DPM_Solver(network, LINEAR).sample(X, **options)


def test_a_model_that_gives_nan_does_not_hang():
    solver = DPM_Solver(lambda x, t: x * math.nan, LINEAR)
    with pytest.raises(FloatingPointError, match="NaN"):
        solver.sample(X, method="adaptive")
