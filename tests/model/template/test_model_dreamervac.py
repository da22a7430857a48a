"""The policy and the value of Dreamer against DI-engine's numbers."""

import numpy as np
import pytest
import torch

from ding.model.template.vac import DREAMERVAC
from ding.utils import MODEL_REGISTRY
from tests.world_model.golden import wave

SIZES = {"dyn_stoch": 2, "dyn_deter": 4, "dyn_discrete": 3, "units": 8}


def test_the_model_is_that_of_di_engine() -> None:
    model = MODEL_REGISTRY.build("dreamervac", 2, **SIZES, reference_numerics=True)
    assert isinstance(model, DREAMERVAC)
    names = {name: list(value.shape) for name, value in model.named_parameters()}
    assert sum(parameter.numel() for parameter in model.parameters()) == 2699
    assert names == {
        "actor._pre_layers.0.weight": [8, 10], "actor._pre_layers.1.weight": [8], "actor._pre_layers.1.bias": [8],
        "actor._pre_layers.3.weight": [8, 8], "actor._pre_layers.4.weight": [8], "actor._pre_layers.4.bias": [8],
        "actor._dist_layer.weight": [4, 8], "actor._dist_layer.bias": [4],
        "critic.mlp.0.weight": [8, 10], "critic.mlp.0.bias": [8], "critic.mlp.1.weight": [8], "critic.mlp.1.bias": [8],
        "critic.mlp.3.weight": [8, 8], "critic.mlp.3.bias": [8], "critic.mlp.4.weight": [8], "critic.mlp.4.bias": [8],
        "critic.mean_layer.weight": [255, 8], "critic.mean_layer.bias": [255],
    }  # fmt: skip
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))
    features = wave((2, 10), 0.1)
    action = model(features, "compute_actor").mode().detach().numpy()
    np.testing.assert_allclose(action, [[-0.0987056, -0.030386], [-0.104327, -0.0321951]], rtol=1e-4)
    value = model(features, "compute_critic").mode().detach().numpy()
    np.testing.assert_allclose(value, [[0.0440396]] * 2, rtol=1e-4)


def test_values_begin_at_zero_and_reach_far() -> None:
    """In DI-engine all values beyond 1.72 are learned as 1.72."""
    model = DREAMERVAC((3,), **{**SIZES, "dyn_discrete": 0}, actor_dist="onehot")
    features = wave((5, 6))
    assert model.actor(features).sample().sum(-1).tolist() == pytest.approx([1] * 5)
    assert model.critic(features).mode().abs().max().item() < 1e-4
    optimizer = torch.optim.Adam(model.critic.parameters(), 0.05)
    for _ in range(150):
        loss = -model.critic(features).log_prob(torch.full((5, 1), 1000.0)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert model.critic(features).mode().min().item() == pytest.approx(1000, rel=0.1)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="action_shape must have one axis"):
        DREAMERVAC([2, 3], **SIZES)
    with pytest.raises(ValueError, match="compute_actor"):
        DREAMERVAC(2, **SIZES)(wave((2, 10)), "compute_actors")
