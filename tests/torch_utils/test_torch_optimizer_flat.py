"""Steps of RMSprop on parameters that lie side by side: the bits of torch, whatever happens in between."""

import copy

import pytest
import torch
from torch import nn

from ding.torch_utils import RMSprop
from ding.torch_utils.graph.flat_parameters import flatten_parameters, runs


def network(flat: bool = True) -> nn.Module:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 2))
    if flat:
        flatten_parameters(made.parameters())
    return made


def train(made: nn.Module, optimizer: torch.optim.Optimizer, steps: int, limit: float | None = None) -> None:
    torch.manual_seed(1)
    for _ in range(steps):
        optimizer.zero_grad()
        made(torch.randn(4, 3)).square().sum().backward()
        if isinstance(optimizer, RMSprop):
            optimizer.step(max_grad_norm=limit)
            continue
        if limit is not None:
            nn.utils.clip_grad_norm_(made.parameters(), limit)
        optimizer.step()


def weights(made: nn.Module) -> torch.Tensor:
    return torch.cat([param.detach().flatten() for param in made.parameters()])


@pytest.mark.parametrize("limit", [None, 1e6])
def test_the_bits_of_torch(limit: float | None) -> None:
    ours, theirs = network(), network(flat=False)
    options = {"lr": 0.01, "alpha": 0.9, "eps": 1e-5, "weight_decay": 1e-3}
    optimizer = RMSprop(ours.parameters(), **options)
    train(ours, optimizer, 5, limit)
    train(theirs, torch.optim.RMSprop(theirs.parameters(), **options), 5, limit)
    assert torch.equal(weights(ours), weights(theirs))
    # It was one step on all of them.
    assert len(runs(optimizer.state[param]["square_avg"] for param in ours.parameters())) == 1
    assert {float(state["step"]) for state in optimizer.state_dict()["state"].values()} == {5.0}


def test_a_norm_that_limits() -> None:
    ours, theirs = network(), network(flat=False)
    optimizer = RMSprop(ours.parameters(), lr=0.01)
    train(ours, optimizer, 3, 0.5)
    train(theirs, torch.optim.RMSprop(theirs.parameters(), lr=0.01), 3, 0.5)
    assert torch.allclose(weights(ours), weights(theirs), rtol=1e-5)
    assert float(optimizer.grad_norm) > 0.5
    assert optimizer.get_grad() == pytest.approx(0.5, rel=1e-4)


def test_a_loaded_state_goes_on() -> None:
    ours = network()
    optimizer = RMSprop(ours.parameters(), lr=0.01)
    train(ours, optimizer, 2)
    before, state = copy.deepcopy(ours.state_dict()), copy.deepcopy(optimizer.state_dict())
    train(ours, optimizer, 2)
    after = weights(ours)
    ours.load_state_dict(before)
    optimizer.load_state_dict(state)
    train(ours, optimizer, 2)
    assert torch.equal(weights(ours), after)


def test_momentum_that_begins_later() -> None:
    ours, theirs = network(), network(flat=False)
    optimizer, reference = RMSprop(ours.parameters(), lr=0.01), torch.optim.RMSprop(theirs.parameters(), lr=0.01)
    for made, one in ((ours, optimizer), (theirs, reference)):
        train(made, one, 2)
        one.param_groups[0]["momentum"] = 0.5
        for param in made.parameters():
            one.state[param]["momentum_buffer"] = torch.zeros_like(param)
        train(made, one, 2)
    assert torch.equal(weights(ours), weights(theirs))


def test_parameters_that_move_or_have_no_gradient() -> None:
    ours, theirs = network(), network(flat=False)
    optimizer, reference = RMSprop(ours.parameters(), lr=0.01), torch.optim.RMSprop(theirs.parameters(), lr=0.01)
    train(ours, optimizer, 2)
    train(theirs, reference, 2)
    for param in ours.parameters():
        param.data = param.data.clone()
    train(ours, optimizer, 1)
    train(theirs, reference, 1)
    ours[0].requires_grad_(False)
    theirs[0].requires_grad_(False)
    train(ours, optimizer, 1)
    train(theirs, reference, 1)
    assert torch.equal(weights(ours), weights(theirs))
