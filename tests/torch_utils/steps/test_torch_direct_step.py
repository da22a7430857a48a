"""Steps without what torch does around them: who observes them, and where torch's own step takes over."""

import copy

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ding.torch_utils import SGD, Adam, RMSprop


def network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def learn(model, optimizer, steps):
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.full((4, 3), 0.1 * step)).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("cls", [Adam, RMSprop, SGD])
def test_hooks_of_all_optimisers_run_in_each_step(cls):
    model, seen = network(), []
    optimizer = cls(model.parameters(), lr=0.1)
    handles = [
        register_optimizer_step_pre_hook(lambda *args: seen.append("before")),
        register_optimizer_step_post_hook(lambda *args: seen.append("after")),
    ]
    learn(model, optimizer, 2)
    for handle in handles:
        handle.remove()
    learn(model, optimizer, 1)
    assert seen == ["before", "after"] * 2


def test_a_profiler_finds_the_steps_that_it_watches():
    model = network()
    optimizer = Adam(model.parameters())
    learn(model, optimizer, 1)
    with torch.autograd.profiler.profile() as profile:
        learn(model, optimizer, 2)
    (found,) = [event for event in profile.key_averages() if event.key == "Optimizer.step#Adam.step"]
    assert found.count == 2


def test_parameters_that_a_loss_does_not_reach_stay_and_count_their_own_steps():
    first, second = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    optimizer = Adam([first, second], lr=0.1, weight_decay=0.1)
    for step in range(6):
        optimizer.zero_grad()
        (first.sum() if step % 3 else first.sum() + second.sum()).backward()
        before = second.detach().clone()
        optimizer.step()
        assert torch.equal(second, before) == bool(step % 3)
    assert [float(optimizer.state[param]["step"]) for param in (first, second)] == [6, 2]


def test_a_saved_state_counts_on_by_itself(tmp_path):
    models = [network(), network(), network()]
    first, second, third = (Adam(model.parameters(), lr=0.05) for model in models)
    learn(models[0], first, 3)
    for model, optimizer in ((models[1], second), (models[2], third)):
        model.load_state_dict(models[0].state_dict())
        torch.save(first.state_dict(), tmp_path / "state.pt")
        optimizer.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    copied = copy.deepcopy(second)
    learn(models[1], second, 2)
    counts = [[float(state["step"]) for state in one.state.values()] for one in (first, second, third, copied)]
    assert counts == [[3.0] * 4, [5.0] * 4, [3.0] * 4, [3.0] * 4]
    learn(models[0], first, 2)
    assert all(torch.equal(a, b) for a, b in zip(models[0].parameters(), models[1].parameters()))
