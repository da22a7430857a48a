"""The model of actions between two observations."""

import pytest
import torch

from ding.world_model import InverseDynamicsModel


def steps(discrete: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """An env whose action moves the first coordinate: two observations as one, and the action."""
    generator = torch.Generator().manual_seed(0)
    obs = torch.randn(64, 3, generator=generator)
    action = torch.randint(2, (64, 1), generator=generator) if discrete else torch.rand(64, 1, generator=generator)
    moved = obs.clone()
    moved[:, :1] += 2 * action.float() - 1
    return torch.cat([obs, moved], 1), action


@pytest.mark.parametrize("action_space", ["discrete", "regression"])
def test_it_finds_the_action(action_space):
    torch.manual_seed(0)
    obs, action = steps(action_space == "discrete")
    model = InverseDynamicsModel(3, 2 if action_space == "discrete" else 1, [32, 32], action_space)
    before = model.train({"obs": obs, "action": action}, n_epoch=1, learning_rate=0.01)
    model.train({"obs": obs, "action": action}, n_epoch=300, learning_rate=0.01, weight_decay=1e-4)
    after = model.train({"obs": obs, "action": action}, n_epoch=1, learning_rate=0.01)
    assert after < 0.3 * before
    found = model.predict_action(obs)["action"]
    if action_space == "discrete":
        assert torch.equal(found, action.squeeze(1))
    else:
        assert float((found - action).abs().mean()) < 0.2


def test_shapes_and_modes():
    model = InverseDynamicsModel(3, 2, [8], "reparameterization")
    output = model(torch.zeros(5, 6))
    assert output["action"].shape == output["logit"][0].shape == (5, 2)
    assert float(output["action"].detach().abs().max()) < 1
    assert model.eval().training is False
    assert model.train().training is True
    images = InverseDynamicsModel((1, 36, 36), 3, [8, 8, 8], "discrete")
    assert images.predict_action(torch.zeros(2, 2, 36, 36))["action"].shape == (2,)


def test_mistakes():
    with pytest.raises(ValueError, match="Did you mean 'discrete'"):
        InverseDynamicsModel(3, 2, action_space="discret")
    with pytest.raises(RuntimeError, match="one axis or three"):
        InverseDynamicsModel((3, 4), 2)
