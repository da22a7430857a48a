"""Acting over arrays gives what the modules give."""

import numpy as np
import pytest
import torch

from ding.model import ContinuousQAC, model_wrap

OBS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
CASES = {
    "base": ("regression", {}),
    "action_noise": (
        "regression",
        {"noise_kwargs": {"mu": 0.0, "sigma": 0.3}, "noise_range": {"min": -0.2, "max": 0.2}},
    ),
    "squashed_sample": ("reparameterization", {}),
    "squashed_deterministic_sample": ("reparameterization", {}),
}


@pytest.mark.parametrize("name", list(CASES))
def test_same_actions_from_the_same_seed(name):
    action_space, options = CASES[name]
    model = model_wrap(ContinuousQAC(4, 2, action_space, actor_head_layer_num=2), wrapper_name=name, **options)
    torch.manual_seed(0)
    arrays = model.array_forward(OBS, mode="compute_actor")
    torch.manual_seed(0)
    with torch.no_grad():
        expected = model.forward(torch.from_numpy(OBS), mode="compute_actor")
    assert list(arrays) == ["action"]
    assert arrays["action"].dtype == np.float32
    np.testing.assert_allclose(arrays["action"], expected["action"].numpy(), atol=1e-6)


def test_other_calls_have_no_array_form():
    model = ContinuousQAC(4, 2, "regression")
    noisy = model_wrap(model, wrapper_name="action_noise")
    assert noisy.array_forward(OBS, mode="compute_actor", sigma=0.1) is None
    assert noisy.array_forward(torch.from_numpy(OBS), mode="compute_actor") is None
    assert model_wrap(model, wrapper_name="squashed_sample").array_forward(OBS, mode="compute_actor") is None
    model.actor_head.register_forward_hook(lambda *_: None)
    assert noisy.array_forward(OBS, mode="compute_actor") is None
    hybrid = ContinuousQAC(4, {"action_type_shape": 3, "action_args_shape": 2}, "hybrid")
    assert model_wrap(hybrid, wrapper_name="base").array_forward(OBS, mode="compute_actor") is None
