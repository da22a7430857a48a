"""Networks and distributions of Dreamer against DI-engine's numbers, and what it has that DI-engine's fail at."""

import numpy as np
import pytest
import torch
from torch import distributions as td
from torch import nn

from ding.torch_utils.network.dreamer import (
    ActionHead,
    Bernoulli,
    ContDist,
    Conv2dSame,
    DenseHead,
    DreamerLayerNorm,
    OneHotDist,
    SafeTruncatedNormal,
    SampleDist,
    SymlogDist,
    TanhBijector,
    TwoHotDistSymlog,
    UnnormalizedHuber,
    static_scan,
    uniform_weight_init,
    weight_init,
)
from tests.world_model.golden import wave

X = wave((2, 3, 6), 0.1)


def ramp(module: nn.Module, scale: float = 0.1) -> nn.Module:
    """Give every parameter evenly spaced values."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.linspace(-scale, scale, parameter.numel()).reshape(parameter.shape))
    return module


def check(found: torch.Tensor, expected: list[float], rtol: float = 1e-4) -> None:
    """Compare the first numbers."""
    np.testing.assert_allclose(found.detach().flatten()[: len(expected)].numpy(), expected, rtol=rtol, atol=1e-7)


def one_hot(classes: list[list[int]], num: int) -> torch.Tensor:
    return nn.functional.one_hot(torch.tensor(classes), num).float()


def test_convolutions_keep_the_size_over_the_stride() -> None:
    conv = ramp(Conv2dSame(2, 3, 4, stride=2, bias=False))
    found = conv(wave((1, 2, 5, 5), 0.1))
    assert found.shape == (1, 3, 3, 3)
    check(found, [-0.11679, -0.247928, -0.121791, -0.0182788, 0.179437, 0.150396, 0.0292908, 0.127932])
    assert [conv.calc_same_pad(*one) for one in [(5, 4, 2, 1), (64, 4, 2, 1), (7, 3, 1, 1)]] == [3, 2, 2]
    expected = [
        0.796431, 1.16427, 0.820922, 0.55325, 0.605673, -1.27365, -1.40676, -1.40285, -1.4021, 0.10938, 0.585837,
        0.8496,
    ]  # fmt: skip
    check(DreamerLayerNorm(3)(wave((1, 3, 2, 2), 0.2)), expected)


def dense(dist: str, shape: int | list[int] = 2, **kwargs: float) -> DenseHead:
    return ramp(DenseHead(6, shape, 2, 4, dist=dist, **kwargs))


def test_dense_heads_predict_as_those_of_di_engine() -> None:
    normal = dense("normal")(X)
    check(normal.mode(), [-0.104005, 0.114687, -0.104005, 0.114687, -0.104001, 0.114683])
    check(normal.log_prob(wave((2, 3, 2), 0.4)), [-2.2611, -2.53578, -2.16088, -2.68201, -1.89536, -2.70628])
    check(normal.entropy(), [2.83788] * 6)
    huber = dense("huber")(X)
    check(huber.log_prob(wave((2, 3, 2), 0.4)), [-0.381198, -0.581172, -0.283196, -0.7157, -0.0565144, -0.73195])
    binary = dense("binary", [])(X)
    check(binary.mean, [0.47813, 0.47813, 0.478129, 0.47813, 0.47813, 0.478129])
    check(binary.log_prob((wave((2, 3, 1), 0.4) > 0).float()), [-0.737874] * 4 + [-0.650336] * 2)
    check(binary.entropy(), [0.69219])
    check(binary.mode(), [0.0] * 6)
    twohot = dense("twohot_symlog", 255, low=-1.0, high=1.0)(X)
    check(twohot.mode(), [0.039811, 0.039811, 0.0398086, 0.039811, 0.039811, 0.0398086], rtol=2e-4)
    numbers = torch.tensor([0, 0.5, 1, 2, -1, -0.3]).reshape(2, 3, 1)
    check(twohot.log_prob(numbers), [-5.54353, -5.49638, -5.46292, -5.42723, -5.62415, -5.57405])


def test_dense_heads_of_several_axes_and_of_a_learned_deviation() -> None:
    """DI-engine's do not reshape their output, and take the deviation as it comes, negative or not."""
    head = DenseHead(6, [2, 3], 1, 4, std="learned")
    found = head(X)
    assert found.mode().shape == (2, 3, 2, 3)
    assert found.log_prob(torch.zeros(2, 3, 2, 3)).shape == (2, 3)
    assert bool((found.stddev > 0.1).all())
    assert DenseHead(6, 2, 1, 4, dist="symlog")(X).log_prob(torch.zeros(2, 3, 2)).shape == (2, 3)
    with pytest.raises(ValueError, match="shape must be 255"):
        DenseHead(6, 2, 1, 4, dist="twohot_symlog")
    with pytest.raises(ValueError, match="Did you mean 'LeakyReLU'"):
        DenseHead(6, 2, 1, 4, act="LeakyRelu")
    with pytest.raises(ValueError, match="twohot_symlog"):
        DenseHead(6, 2, 1, 4, dist="twohot")


def action(dist: str) -> ActionHead:
    return ramp(ActionHead(6, 2, 2, 4, "SiLU", "LayerNorm", dist, init_std=1.0))


def test_action_heads_act_as_those_of_di_engine() -> None:
    head = action("normal")
    names = {name: list(value.shape) for name, value in head.named_parameters()}
    assert names == {
        "_pre_layers.0.weight": [4, 6], "_pre_layers.1.weight": [4], "_pre_layers.1.bias": [4],
        "_pre_layers.3.weight": [4, 4], "_pre_layers.4.weight": [4], "_pre_layers.4.bias": [4],
        "_dist_layer.weight": [4, 4], "_dist_layer.bias": [4],
    }  # fmt: skip
    normal = head(X)
    check(normal.mode(), [-0.101293, -0.0323356, -0.0958198, -0.0305803, -0.0952153, -0.0303868])
    check(normal.stddev, [0.89616, 0.902358, 0.895975, 0.901853])
    half = 0.5 * wave((2, 3, 2), 0.4)
    check(normal.log_prob(half), [-1.82031, -1.90311, -1.68779, -1.81336, -1.65933, -1.97263])
    check(normal.entropy(), [2.6255, 2.62473, 2.62465])
    truncated = action("trunc_normal")(X)
    check(truncated.stddev, [1.10924, 1.12655, 1.10873, 1.12511])
    check(truncated.log_prob(half), [-2.18631, -2.24007, -2.09939, -2.18233, -2.08125, -2.28434])
    check(truncated.entropy(), [3.06071, 3.05898, 3.05878])
    onehot = action("onehot")(X)
    check(onehot.probs, [0.449285, 0.550715, 0.451264, 0.548736, 0.451483, 0.548517])
    taken = one_hot([[0, 1, 0], [1, 1, 0]], 2)
    check(onehot.log_prob(taken), [-0.800098, -0.600138, -0.795218, -0.596539, -0.600039, -0.795214])
    check(onehot.entropy(), [0.687994, 0.688389, 0.688432])


@pytest.mark.parametrize(
    "dist", ["normal", "normal_1", "trunc_normal", "tanh_normal", "tanh_normal_5", "onehot", "onehot_gumbel"]
)
def test_every_policy_draws_actions_with_gradients(dist: str) -> None:
    """Four of them fail in DI-engine, as its default act and norm do."""
    torch.manual_seed(0)
    head = ActionHead(6, 3, 1, 4, dist=dist)
    found = head(X)
    actions = found.sample((50,))
    assert actions.shape == (50, 2, 3, 3)
    assert found.mode().shape == (2, 3, 3)
    assert found.log_prob(actions.detach().clamp(-0.999, 0.999)).shape == (50, 2, 3)
    assert bool(torch.isfinite(found.entropy()).all())
    if dist.startswith("onehot"):
        torch.testing.assert_close(actions.sum(-1), torch.ones(50, 2, 3))
    elif dist.startswith("t"):  # DI-engine's do not end
        assert float(actions.detach().abs().max()) < 1
    (actions * wave((3,))).sum().backward()
    gradient = dict(head.named_parameters())["_dist_layer.weight"].grad
    assert gradient.abs().sum().item() > 0


def test_policies_name_what_they_know() -> None:
    with pytest.raises(ValueError, match="tanh_normal"):
        ActionHead(6, 2, 1, 4, dist="tanh")
    with pytest.raises(ValueError, match="norm must name a layer"):
        ActionHead(6, 2, 1, 4, norm="LN")


def test_distributions_have_the_numbers_of_di_engine() -> None:
    twohot = TwoHotDistSymlog(torch.linspace(-1, 1, 255).reshape(1, 255))
    check(twohot.mean(), [547.424])
    found = [twohot.log_prob(torch.tensor([[one]])).item() for one in (0.5, 25, 1e10)]
    np.testing.assert_allclose(found, [-5.68366, -5.54103, -4.70393], rtol=1e-5)
    symlog = SymlogDist(wave((1, 2, 3, 2, 2), 0.1))
    check(symlog.mode(), [0.104987, 1.04901, 1.71148, 1.24453, 0.270295, -0.556626])
    check(symlog.log_prob(wave((1, 2, 3, 2, 2), 0.3)), [-0.606759, -0.597442])
    absolute = SymlogDist(wave((1, 2, 3, 2, 2), 0.1), "abs", "mean")
    check(absolute.log_prob(wave((1, 2, 3, 2, 2), 0.3)), [-0.206024, -0.200094])
    with pytest.raises(ValueError, match="must have the shape"):
        symlog.log_prob(torch.zeros(2, 3, 2, 2))
    check(OneHotDist(wave((2, 3), 0.1), unimix_ratio=0.01).probs, [0.189838, 0.349174, 0.460989, 0.537843, 0.30584])
    check(OneHotDist(wave((2, 3), 0.1)).probs, [0.188388, 0.349334, 0.462278])
    check(UnnormalizedHuber(wave((3,)), 1).log_prob(wave((3,), 1.0)), [-0.306933, -0.0586405, -0.0469439])
    bernoulli = Bernoulli(td.Independent(td.Bernoulli(logits=wave((2, 3))), 1))
    expected = [-0.693147, -0.422042, -0.317196, -0.351928, -0.539615, -0.883842]
    check(bernoulli.log_prob(torch.ones(2, 3)), expected)
    check(bernoulli.entropy(), [1.92204, 1.96533])
    check(bernoulli.mode(), [0, 1, 1, 1, 1, 0])


def test_samples_have_gradients_where_draws_have_none() -> None:
    logits = wave((2, 3), 0.1).requires_grad_()
    onehot = OneHotDist(logits, unimix_ratio=0.01)
    with pytest.raises(ValueError, match="seed=1"):
        onehot.sample(seed=1)
    binary = Bernoulli(td.Bernoulli(logits=logits))
    drawn = binary.sample()
    assert set(drawn.detach().flatten().tolist()) <= {0.0, 1.0}
    for value in (onehot.sample(), onehot.mode(), drawn, binary.mode()):
        (gradient,) = torch.autograd.grad((value * wave((2, 3), 0.1)).sum(), logits, retain_graph=True)
        assert float(gradient.abs().min()) > 0
    truncated = SafeTruncatedNormal(torch.full((100,), 0.9, requires_grad=True), 5.0, -1, 1)
    assert float(truncated.sample().detach().abs().max()) <= 1 - 1e-6
    assert float(ContDist(truncated).sample().detach().abs().max()) <= 1 - 1e-6


def test_estimates_from_samples() -> None:
    torch.manual_seed(0)
    normal = td.Independent(td.Normal(torch.tensor([[1.0, -2.0]]), 0.1), 1)
    found = SampleDist(normal, samples=500)
    torch.testing.assert_close(found.mean(), normal.mean, atol=0.05, rtol=0)
    torch.testing.assert_close(found.mode(), normal.mean, atol=0.05, rtol=0)
    torch.testing.assert_close(found.entropy(), normal.entropy(), atol=0.2, rtol=0)
    bijector = TanhBijector()
    assert bool(torch.isfinite(bijector.inv(torch.tensor([-1.0, 1.0]))).all())


def test_a_scan_stacks_what_each_step_returns() -> None:
    (found,) = static_scan(lambda last, x: {"s": last["s"] + x}, [wave((3, 1))], {"s": torch.zeros(1)})
    torch.testing.assert_close(found["s"], wave((3, 1)).cumsum(0))
    pair = static_scan(
        lambda last, x, y: ({"s": last[0]["s"] + x}, last[1] * y),
        [torch.tensor([[1.0], [2.0], [3.0]]), torch.full((3, 1), 2.0)],
        ({"s": torch.zeros(1)}, torch.ones(1)),
    )
    assert pair[0]["s"].flatten().tolist() == [1, 3, 6]
    assert pair[1].flatten().tolist() == [2, 4, 8]
    with pytest.raises(ValueError, match="at least one row"):
        static_scan(lambda last, x: last, [torch.zeros(0, 1)], {"s": torch.zeros(1)})


def test_initial_weights() -> None:
    torch.manual_seed(0)
    linear, conv = nn.Linear(200, 300), nn.ConvTranspose2d(20, 30, 4)
    for layer, fans in ((linear, 500), (conv, 50 * 16)):
        layer.apply(weight_init)
        assert layer.weight.std().item() == pytest.approx((2 / fans) ** 0.5 / 0.87962566, rel=0.03)
        assert layer.bias.abs().sum().item() == 0
    linear.apply(uniform_weight_init(1.0))
    assert linear.weight.abs().max().item() == pytest.approx((6 / 500) ** 0.5, rel=0.01)
    linear.apply(uniform_weight_init(0.0))
    assert linear.weight.abs().sum().item() == 0
