"""The direct call of the fused Adam kernel, against torch's own steps."""

import copy

import pytest
import torch
from torch import nn

from ding.torch_utils import Adam


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


def give_gradients(model: nn.Module, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for param in model.parameters():
        param.grad = torch.randn(param.shape, generator=generator)


def groups(model: nn.Sequential) -> list[dict]:
    return [{"params": list(model[0].parameters())}, {"params": list(model[2].parameters()), "lr": 0.5}]


def assert_same_state(ours, theirs) -> None:
    assert len(ours.state) == len(theirs.state)
    for a, b in zip(ours.state.values(), theirs.state.values()):
        assert a.keys() == b.keys()
        assert all(torch.equal(a[key], b[key]) and a[key].dtype == b[key].dtype for key in a)


class Pair:
    """The same network and gradients under our Adam and under torch's."""

    def __init__(self, **kwargs) -> None:
        self.ours, self.theirs = network(), network()
        self.adam = Adam(groups(self.ours), lr=0.05, **kwargs)
        self.reference = torch.optim.Adam(groups(self.theirs), lr=0.05, fused=True, **kwargs)
        self.steps = 0

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.steps += 1
            for model, optimizer in ((self.ours, self.adam), (self.theirs, self.reference)):
                give_gradients(model, self.steps)
                optimizer.step()
        self.check()

    def check(self) -> None:
        assert all(torch.equal(a, b) for a, b in zip(self.ours.parameters(), self.theirs.parameters()))
        assert_same_state(self.adam, self.reference)


@pytest.fixture
def kernel_calls(monkeypatch):
    """How often the kernel was called directly."""
    from ding.torch_utils import _fused_adam

    calls = []
    kernel = _fused_adam._fused_adam_kernel
    monkeypatch.setattr(
        _fused_adam, "_fused_adam_kernel", lambda *args, **kwargs: (calls.append(1), kernel(*args, **kwargs))
    )
    return calls


@pytest.mark.parametrize("kwargs", [{}, {"weight_decay": 0.1}, {"betas": (0.5, 0.9), "eps": 1e-3}])
def test_steps_are_those_of_torch_bit_for_bit(kwargs, kernel_calls) -> None:
    pair = Pair(**kwargs)
    pair.step(5)
    # The first step makes the state and is torch's; then one call for each group.
    assert len(kernel_calls) == 8


def test_changes_of_the_optimizer_are_seen(kernel_calls) -> None:
    pair = Pair()
    pair.step(2)
    for optimizer in (pair.adam, pair.reference):
        optimizer.param_groups[0]["lr"] = 0.3
    pair.step(2)
    for optimizer in (pair.adam, pair.reference):
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    pair.step(2)
    for optimizer in (pair.adam, pair.reference):
        state = next(iter(optimizer.state.values()))
        state["exp_avg"] = torch.ones_like(state["exp_avg"])
    pair.step(2)
    extra = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    for optimizer, param in zip((pair.adam, pair.reference), extra):
        optimizer.add_param_group({"params": [param]})
        param.grad = torch.ones(2)
    pair.step(3)
    assert torch.equal(*extra)
    for optimizer in (pair.adam, pair.reference):
        optimizer.state.clear()
    pair.step(2)
    assert len(kernel_calls) > 15


def test_a_parameter_without_a_gradient_is_left_alone_until_it_has_one() -> None:
    pair = Pair()
    for model in (pair.ours, pair.theirs):
        model[0].bias.requires_grad_(False)
    for step in range(6):
        for model, optimizer in ((pair.ours, pair.adam), (pair.theirs, pair.reference)):
            give_gradients(model, step)
            if step != 4:
                model[0].bias.grad = None
            if step == 2:
                model[2].weight.grad = None
            optimizer.step()
        pair.check()


@pytest.mark.parametrize("option", ["amsgrad", "maximize"])
def test_other_options_are_torchs(option, kernel_calls) -> None:
    pair = Pair()
    pair.step(1)
    for optimizer in (pair.adam, pair.reference):
        for group in optimizer.param_groups:
            group[option] = True
        for param, state in optimizer.state.items():
            if option == "amsgrad":
                state["max_exp_avg_sq"] = torch.zeros_like(param)
    pair.step(3)
    assert not kernel_calls


def test_a_tensor_as_learning_rate_is_torchs(kernel_calls) -> None:
    pair = Pair()
    for optimizer in (pair.adam, pair.reference):
        optimizer.param_groups[0]["lr"] = torch.tensor(0.02)
    pair.step(3)
    assert not kernel_calls


def test_step_hooks_run_once_in_each_step() -> None:
    model = network()
    optimizer = Adam(model.parameters())
    for step in range(3):
        give_gradients(model, step)
        optimizer.step()
    seen = []
    handles = [
        optimizer.register_step_pre_hook(lambda *args: seen.append("before")),
        optimizer.register_step_post_hook(lambda *args: seen.append("after")),
    ]
    optimizer.step()
    assert seen == ["before", "after"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 2


def test_learning_rate_schedulers_find_their_steps() -> None:
    model = network()
    optimizer = Adam(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for step in range(3):
        give_gradients(model, step)
        assert optimizer.step(lambda: 7) == 7
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.125
