"""Gradient guards and state dicts of the optimizers."""

import copy
import subprocess
import sys

import pytest
import torch

from ding.torch_utils import SGD, Adam, RMSprop, calculate_grad_norm, calculate_grad_norm_without_bias_two_norm
from ding.torch_utils.optimizer_helper import grad_ignore_norm, grad_ignore_value


def param_with_grad(values, grads):
    param = torch.nn.Parameter(torch.tensor(values, dtype=torch.float32))
    param.grad = torch.tensor(grads, dtype=torch.float32)
    return param


def trained(make, steps=5):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = make(model.parameters())
    for i in range(steps):
        optimizer.zero_grad()
        (model(torch.full((4, 3), float(i + 1))) ** 2).mean().backward()
        optimizer.step()
    return model, optimizer


def assert_same_parameters(left, right):
    for a, b in zip(left.parameters(), right.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_adam_is_torch_adam_and_fused():
    ours, optimizer = trained(lambda p: Adam(p, lr=0.05, weight_decay=0.1))
    theirs, _ = trained(lambda p: torch.optim.Adam(p, lr=0.05, weight_decay=0.1))
    assert_same_parameters(ours, theirs)
    assert optimizer.param_groups[0]["fused"] is True


def test_adamw_is_torch_adamw():
    ours, optimizer = trained(lambda p: Adam(p, lr=0.05, weight_decay=0.1, optim_type="adamw"))
    theirs, _ = trained(lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1))
    assert_same_parameters(ours, theirs)
    assert optimizer.param_groups[0]["weight_decay"] == 0.1


def test_rmsprop_is_torch_rmsprop():
    ours, _ = trained(lambda p: RMSprop(p, lr=0.05, momentum=0.5))
    theirs, _ = trained(lambda p: torch.optim.RMSprop(p, lr=0.05, momentum=0.5))
    assert_same_parameters(ours, theirs)


@pytest.mark.parametrize(("source", "target"), [(torch.optim.Adam, Adam), (Adam, torch.optim.Adam)])
def test_state_dicts_are_exchanged_with_torch(source, target):
    model, optimizer = trained(source)
    _, other = trained(target, steps=1)
    other.load_state_dict(optimizer.state_dict())
    for left, right in zip(optimizer.state.values(), other.state.values()):
        torch.testing.assert_close(left["exp_avg_sq"], right["exp_avg_sq"])
        assert float(right["step"]) == 5
    if target is Adam:
        assert other.param_groups[0]["fused"] is True
        # The state is usable, not only stored.
        other.step()


def test_double_parameters_and_named_groups_are_accepted():
    model = torch.nn.Linear(2, 1).double()
    optimizer = Adam([{"params": model.parameters(), "lr": 0.5}, {"params": param_with_grad([1.0], [1.0])}])
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 1e-3]
    optimizer.step()
    assert Adam(model.named_parameters()).param_groups[0]["params"] == list(model.parameters())


def test_clip_value_and_clip_norm():
    param = param_with_grad([0.0, 0.0], [3.0, -4.0])
    optimizer = Adam([param], grad_clip_type="clip_value", clip_value=0.5)
    optimizer.step()
    assert param.grad.tolist() == [0.5, -0.5]
    param = param_with_grad([0.0, 0.0], [3.0, -4.0])
    optimizer = RMSprop([param], grad_clip_type="clip_norm", clip_value=1.0)
    assert optimizer.get_grad() == pytest.approx(5.0)
    optimizer.step()
    torch.testing.assert_close(param.grad, torch.tensor([0.6, -0.8]))


@pytest.mark.parametrize(("optimizer_cls", "moment"), [(Adam, "exp_avg_sq"), (RMSprop, "square_avg")])
def test_momentum_clipping_starts_after_its_timestep(optimizer_cls, moment):
    param = param_with_grad([0.0, 0.0], [1.0, 1.0])
    optimizer = optimizer_cls([param], grad_clip_type="clip_momentum", clip_coef=2, clip_momentum_timestep=1)
    optimizer.step()
    assert param.grad.tolist() == [1.0, 1.0]
    bound = 2 * optimizer.state[param][moment].sqrt()
    param.grad = torch.tensor([-100.0, 0.001])
    optimizer.step()
    torch.testing.assert_close(param.grad, torch.tensor([-bound[0].item(), 0.001]))


def test_momentum_norm_clipping_scales_the_group():
    param = param_with_grad([0.0, 0.0], [1.0, 1.0])
    optimizer = Adam([param], grad_clip_type="clip_momentum_norm", clip_coef=3, clip_momentum_timestep=1)
    optimizer.step()
    bound = 3 * optimizer.state[param]["exp_avg_sq"].sqrt().norm()
    param.grad = torch.tensor([30.0, 40.0])
    optimizer.step()
    torch.testing.assert_close(param.grad, torch.tensor([0.6, 0.8]) * bound)


@pytest.mark.parametrize(
    ("type_", "kwargs", "first_ignored"),
    [
        ("ignore_value", {"ignore_value": 3.5}, True),
        ("ignore_value", {"ignore_value": 4.5}, False),
        ("ignore_norm", {"ignore_value": 4.9}, True),
        ("ignore_norm", {"ignore_value": 5.1}, False),
    ],
)
def test_ignoring_zeroes_every_gradient(type_, kwargs, first_ignored):
    large, small = param_with_grad([0.0, 0.0], [3.0, 4.0]), param_with_grad([1.0], [0.01])
    RMSprop([large, small], grad_ignore_type=type_, **kwargs).step()
    assert large.grad.tolist() == ([0, 0] if first_ignored else [3, 4])
    assert (small.grad.item() == 0) is first_ignored


@pytest.mark.parametrize("type_", ["ignore_momentum", "ignore_momentum_norm"])
def test_momentum_ignoring_works_for_matrices(type_):
    param = param_with_grad([[0.1, 0.1], [0.1, 0.1]], [[1.0, 1.0], [1.0, 1.0]])
    optimizer = Adam([param], grad_ignore_type=type_, ignore_coef=5, ignore_momentum_timestep=1)
    optimizer.step()
    param.grad = torch.full((2, 2), 0.01)
    optimizer.step()
    assert param.grad.sum() > 0
    param.grad = torch.full((2, 2), 50.0)
    optimizer.step()
    assert param.grad.abs().sum() == 0


def test_wrong_choices_are_named():
    param = param_with_grad([0.0], [0.0])
    with pytest.raises(ValueError, match=r"grad_clip_type='clip_nrm'.*Did you mean 'clip_norm'"):
        Adam([param], grad_clip_type="clip_nrm")
    with pytest.raises(ValueError, match="needs clip_value"):
        Adam([param], grad_clip_type="clip_norm")
    with pytest.raises(ValueError, match="needs ignore_value"):
        RMSprop([param], grad_ignore_type="ignore_value")
    with pytest.raises(ValueError, match=r"optim_type='adamm'.*'adam'"):
        Adam([param], optim_type="adamm")


def test_closure_gradients_are_clipped():
    param = torch.nn.Parameter(torch.zeros(1))
    optimizer = Adam([param], grad_clip_type="clip_value", clip_value=0.25)

    def closure():
        optimizer.zero_grad()
        loss = 4 * param.sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 0
    assert param.grad.item() == 0.25


def test_gradient_norms():
    model = torch.nn.Linear(2, 1)
    assert calculate_grad_norm(model) == 0
    model.weight.grad = torch.tensor([[3.0, 4.0]])
    model.bias.grad = torch.tensor([12.0])
    assert calculate_grad_norm(model) == pytest.approx(13)
    assert calculate_grad_norm(model, norm_type=1) == pytest.approx(19)
    assert calculate_grad_norm_without_bias_two_norm(model) == pytest.approx(5)


def network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


@pytest.mark.parametrize("kwargs", [{}, {"weight_decay": 0.1}, {"betas": (0.5, 0.9), "eps": 1e-3}, {"amsgrad": True}])
def test_steps_are_those_of_the_fused_kernel_bit_for_bit(kwargs):
    models = [network(), network()]
    groups = [[{"params": m[0].parameters()}, {"params": m[2].parameters(), "lr": 0.5}] for m in models]
    optimizers = [Adam(groups[0], lr=0.05, **kwargs), torch.optim.Adam(groups[1], lr=0.05, fused=True, **kwargs)]
    for step in range(15):
        for model, optimizer in zip(models, optimizers):
            generator = torch.Generator().manual_seed(step)
            for param in model.parameters():
                param.grad = torch.randn(param.shape, generator=generator)
            if step in (0, 3):  # a parameter without a gradient is left alone
                model[0].bias.grad = None
            optimizer.param_groups[0]["lr"] = 0.1 * (step + 1)
            if step == 5:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            if step == 7:
                next(iter(optimizer.state.values()))["exp_avg"] = torch.ones(8, 3)
            if step == 9:
                extra = torch.nn.Parameter(torch.ones(2))
                extra.grad = torch.ones(2)
                optimizer.add_param_group({"params": [extra]})
            if step == 12:
                optimizer.state.clear()
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(models[0].parameters(), models[1].parameters()))
    for left, right in zip(optimizers[0].state.values(), optimizers[1].state.values()):
        assert left.keys() == right.keys()
        assert all(torch.equal(left[key], right[key]) for key in left)


def test_no_parameters_is_an_error():
    with pytest.raises(ValueError, match="empty parameter list"):
        Adam([])


@pytest.mark.parametrize("cls", [Adam, RMSprop])
def test_step_hooks_run_once_in_each_step(cls):
    # Making one of torch's own classes patches the step of that class.
    torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
    torch.optim.RMSprop([torch.nn.Parameter(torch.zeros(1))])
    optimizer = cls([param_with_grad([0.0], [1.0])], lr=0.1)
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
    assert torch.is_grad_enabled()


def test_learning_rate_schedulers_find_their_steps():
    optimizer = Adam([param_with_grad([0.0], [1.0])], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for _ in range(3):
        assert optimizer.step(lambda: 7) == 7
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.125


def test_groups_added_later_are_stepped():
    first, second = (param_with_grad([0.0, 0.0], [1.0, 1.0]) for _ in range(2))
    optimizer = Adam([first], lr=0.1)
    optimizer.add_param_group({"params": [second], "lr": 0.5})
    optimizer.step()
    assert first[0].item() == pytest.approx(-0.1)
    assert second[0].item() == pytest.approx(-0.5)


WHOLE_LIFE = """
import sys
import numpy as np
import torch
from ding.torch_utils import Adam, RMSprop
from ding.torch_utils.network import as_array_function

layer = torch.nn.Linear(3, 2).eval()
assert type(as_array_function(layer)(np.ones((1, 3), np.float32))) is np.ndarray
for cls in (Adam, RMSprop):
    param = torch.nn.Parameter(torch.zeros(3))
    optimizer = cls([param], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        param.grad = torch.ones(3)
        optimizer.step()
    cls([param]).load_state_dict(optimizer.state_dict())
sys.exit("torch._dynamo" in sys.modules)
"""


def test_torchs_compiler_is_not_imported():
    assert subprocess.run([sys.executable, "-c", WHOLE_LIFE], timeout=120, check=False).returncode == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, while it compiles
def test_a_compiled_update_makes_the_same_step():
    models = [network(), network()]
    optimizers = [Adam(model.parameters(), lr=0.05) for model in models]

    def update(model, optimizer):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).square().mean().backward()
        optimizer.step()

    compiled = torch.compile(update, backend="eager")
    for _ in range(3):
        update(models[0], optimizers[0])
        compiled(models[1], optimizers[1])
    assert_same_parameters(*models)


@pytest.mark.parametrize("cls", [Adam, RMSprop])
def test_a_copy_of_a_model_and_its_optimizer_makes_the_same_steps(cls):
    model = network()
    optimizer = cls(model.parameters(), lr=0.1, grad_clip_type="clip_value", clip_value=0.2)
    pairs = [(model, optimizer)]
    for step in range(4):
        if step == 2:
            pairs.append(copy.deepcopy(pairs[0]))
        for one, its_optimizer in pairs:
            for param in one.parameters():
                param.grad = torch.full_like(param, step + 1.0)
            its_optimizer.step()
    assert_same_parameters(*(one for one, _ in pairs))
    assert all(param.grad.max() == 0.2 for one, _ in pairs for param in one.parameters())


@pytest.mark.parametrize("flushing", [False, True])
def test_moments_fade_to_zero_and_the_switch_for_denormals_stays_as_it_was(flushing):
    param = torch.nn.Parameter(torch.ones(3))
    optimizer = Adam([param], lr=0.1)
    denormal = torch.tensor(1e-40)
    torch.set_flush_denormal(flushing)
    try:
        for step in range(1500):
            param.grad = torch.full((3,), float(step == 0))
            optimizer.step()
        kept = float(denormal * 1.0) != 0.0
    finally:
        torch.set_flush_denormal(False)
    assert kept is not flushing
    assert optimizer.state[param]["exp_avg"].tolist() == [0.0] * 3


def test_gradient_descent_is_that_of_torch_and_clips():
    ours, theirs = (torch.nn.Parameter(torch.tensor([1.0, -2.0])) for _ in range(2))
    pair = (SGD([ours], 0.1, 0.9, 0.01), torch.optim.SGD([theirs], 0.1, 0.9, weight_decay=0.01))
    for _ in range(3):
        for param, optimizer in zip((ours, theirs), pair):
            optimizer.zero_grad()
            (param**2).sum().backward()
            optimizer.step()
        assert torch.equal(ours, theirs)
    clipped = SGD([ours], 1.0, grad_clip_type="clip_value", clip_value=0.5)
    before = ours.detach().clone()
    ours.grad = torch.tensor([3.0, -0.25])
    clipped.step()
    torch.testing.assert_close(before - ours.detach(), torch.tensor([0.5, -0.25]))
    with pytest.raises(ValueError, match="clip_momentum"):
        SGD([ours], grad_clip_type="clip_momentum")


@pytest.mark.parametrize(
    ("function", "limit", "ignored"),
    [
        (lambda params, limit: grad_ignore_norm(params, limit), 5, True),
        (lambda params, limit: grad_ignore_norm(params, limit), 6, False),
        (lambda params, limit: grad_ignore_norm(params, limit, float("inf")), 4, True),
        (grad_ignore_value, 4, True),
        (grad_ignore_value, 5, False),
    ],
)
def test_gradients_above_a_limit_are_ignored(function, limit, ignored):
    params = [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(1))]
    params[0].grad, params[1].grad = torch.tensor([3.0, 4.0]), torch.tensor([1.0])
    function(params, limit)
    assert [param.grad.tolist() for param in params] == ([[0, 0], [0]] if ignored else [[3, 4], [1]])
