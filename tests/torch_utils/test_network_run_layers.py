"""``run_layers`` gives the numbers of the plain call, bit for bit, whatever sits among the layers."""

import copy

import pytest
import torch
from torch import nn

from ding.torch_utils.network import MLP, fc_block, noise_block
from ding.torch_utils.network.run_layers import run_layers


def plain(layers, x):
    for layer in layers:
        x = layer(x)
    return x


def make_net():
    torch.manual_seed(0)
    return nn.Sequential(
        MLP(4, 16, 16, 2, activation=nn.ReLU()), nn.Tanh(), fc_block(16, 16, nn.Sigmoid(), "LN"), nn.Linear(16, 2)
    )


@pytest.mark.parametrize("batch", [1, 8, 64])
def test_bitwise_equal_without_gradients(batch):
    net, x = make_net(), torch.randn(batch, 4)
    with torch.no_grad():
        assert torch.equal(run_layers(net, x), net(x))


def test_bitwise_equal_gradients():
    net, x = make_net(), torch.randn(8, 4)
    twin = copy.deepcopy(net)
    net(x).square().sum().backward()
    run_layers(twin, x).square().sum().backward()
    for one, other in zip(net.parameters(), twin.parameters()):
        assert torch.equal(one.grad, other.grad)


def test_input_is_not_overwritten():
    x = torch.tensor([[-1.0, 2.0]])
    with torch.no_grad():
        assert run_layers([nn.ReLU()], x).tolist() == [[0.0, 2.0]]
        assert run_layers([nn.Identity(), nn.Sequential(), nn.Tanh()], x).shape == (1, 2)
    assert x.tolist() == [[-1.0, 2.0]]


def test_inplace_relu_keeps_its_meaning():
    x = torch.tensor([[-1.0, 2.0]])
    run_layers([nn.ReLU(inplace=True)], x)
    assert x.tolist() == [[0.0, 2.0]]


def test_hooks_run_and_see_untouched_outputs():
    net, x = make_net(), torch.randn(3, 4)
    first = net[0][0]
    seen = []
    handle = first.register_forward_hook(lambda module, args, output: seen.append(output))
    with torch.no_grad():
        out = run_layers(net, x)
    assert torch.equal(seen[0], nn.functional.linear(x, first.weight, first.bias))
    handle.remove()
    with torch.no_grad():
        assert torch.equal(out, run_layers(net, x))
    assert len(seen) == 1


def test_hooks_of_containers_and_of_all_modules_run():
    net, x = make_net(), torch.randn(3, 4)
    calls = []
    with net[0].register_forward_pre_hook(lambda module, args: calls.append("pre")):
        run_layers(net, x)
    assert calls == ["pre"]
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: calls.append(type(module)))
    try:
        run_layers(net, x)
    finally:
        handle.remove()
    assert calls.count(nn.Linear) == 4


def test_replaced_forward_is_used():
    net, x = make_net(), torch.randn(3, 4)
    net[3].forward = lambda inputs: torch.zeros(inputs.shape[0], 2)
    assert torch.equal(run_layers(net, x), torch.zeros(3, 2))


def test_subclasses_and_parametrised_layers_are_called():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    torch.manual_seed(0)
    layers = [Doubled(4, 4), nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), noise_block(3, 2, nn.ReLU())]
    x = torch.randn(5, 4)
    layers[2][0].enable_noise = True
    assert torch.equal(run_layers(layers, x), plain(layers, x))


def test_dropout_in_training_draws():
    layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.5))
    x = torch.randn(8, 64)
    torch.manual_seed(1)
    expected = layers(x)
    torch.manual_seed(1)
    assert torch.equal(run_layers(layers, x), expected)
    assert (expected == 0).float().mean() > 0.5


def test_follows_load_precision_reassignment_and_copy():
    net, x = make_net(), torch.randn(3, 4)
    other = make_net()
    with torch.no_grad():
        run_layers(net, x)
        for parameter in other.parameters():
            parameter.add_(0.5)
        net.load_state_dict(other.state_dict())
        assert torch.equal(run_layers(net, x), other(x))
        net[3].weight = nn.Parameter(torch.zeros(2, 16))
        assert torch.equal(run_layers(net, x), net[3].bias.expand(3, 2))
        twin = copy.deepcopy(other).double()
        assert run_layers(twin, x.double()).dtype == torch.float64
        assert torch.equal(run_layers(twin, x.double()), twin(x.double()))
        half = copy.deepcopy(other).bfloat16()
        assert torch.equal(run_layers(half, x.bfloat16()), half(x.bfloat16()))
