"""The density of a squashed normal sample."""

import math

import pytest
import torch

from ding.rl_utils.squashed_normal import squashed_sample


def test_density_is_that_of_torch():
    mu, sigma = torch.tensor([[0.3, -1.0]]), torch.tensor([[0.5, 2.0]])
    torch.manual_seed(0)
    action, log_prob = squashed_sample(mu, sigma)
    torch.manual_seed(0)
    normal = torch.distributions.Normal(mu.double(), sigma.double())
    squashed = torch.distributions.TransformedDistribution(normal, torch.distributions.TanhTransform(cache_size=1))
    raw = mu.double() + sigma.double() * torch.randn(mu.shape)
    expected = squashed.log_prob(torch.tanh(raw)).sum(-1)
    assert action.tolist() == [pytest.approx(torch.tanh(raw)[0].tolist(), rel=1e-5)]
    assert log_prob.tolist() == pytest.approx(expected.tolist(), rel=1e-4)


@pytest.mark.parametrize("mean", [-60.0, 60.0])
def test_value_and_gradient_are_finite_at_the_border(mean):
    mu, sigma = torch.full((2, 1), mean, requires_grad=True), torch.full((2, 1), 1e-3)
    action, log_prob = squashed_sample(mu, sigma)
    assert action.abs().tolist() == [[1.0], [1.0]]
    log_prob.sum().backward()
    # log(1 - tanh(u)^2) tends to log 4 - 2 |u|.
    near = -math.log(1e-3) - 0.5 * math.log(2 * math.pi) - math.log(4) + 2 * abs(mean)
    assert log_prob.tolist() == pytest.approx([near, near], abs=10)
    assert mu.grad.flatten().tolist() == pytest.approx([math.copysign(2.0, mean)] * 2, rel=1e-5)


def test_reference_numerics_bound_the_density():
    _, log_prob = squashed_sample(torch.full((1, 1), 60.0), torch.ones(1, 1), reference_numerics=True)
    assert log_prob.item() < -math.log(1e-6) + 1
