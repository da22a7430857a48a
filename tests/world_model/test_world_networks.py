"""The networks of Dreamer's world model against DI-engine's numbers, and sequences against single steps."""

import numpy as np
import pytest
import torch
from torch import nn

from ding.world_model.model.networks import RSSM, ConvDecoder, GRUCell
from tests.world_model.golden import wave


def ramp(module: nn.Module, scale: float = 0.1) -> nn.Module:
    """Give every parameter evenly spaced values."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.linspace(-scale, scale, parameter.numel()).reshape(parameter.shape))
    return module


def check(found: torch.Tensor, expected: list[float]) -> None:
    """Compare the first numbers."""
    np.testing.assert_allclose(found.detach().flatten()[: len(expected)].numpy(), expected, rtol=1e-4)


def rssm(**kwargs: object) -> RSSM:
    sizes = {"stoch": 2, "deter": 4, "hidden": 5, "action_type": "continuous", "discrete": 3, "num_actions": 2}
    layers = {"act": nn.SiLU, "std_act": "sigmoid2", "cell": "gru_layer_norm", "embed": 6}
    return RSSM(**{**sizes, **layers, **kwargs})


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        (False, [0.123756, 0.523518, 0.663205, 0.496542, 0.108737, -0.399732, -0.725884, -0.714295]),
        (True, [0.139862, 0.55126, 0.693898, 0.511389, 0.098192, -0.388366, -0.698345, -0.684082]),
    ],
)
def test_the_cell_computes_what_that_of_di_engine_does(norm: bool, expected: list[float]) -> None:
    cell = ramp(GRUCell(3, 4, norm=norm))
    output, (state,) = cell(wave((2, 3), 0.1), [wave((2, 4), 0.2)])
    check(output, expected)
    assert state is output
    assert cell.state_size == 4


def test_a_step_is_that_of_di_engine() -> None:
    model = ramp(rssm())
    assert sum(parameter.numel() for parameter in model.parameters()) == 344
    action, embed = 2 * wave((2, 3, 2), 0.2)[:, 0], wave((2, 3, 6), 0.1)[:, 0]
    given = action.clone()
    post, prior = model.obs_step(model.initial(2), action, embed, sample=False)
    check(post["deter"], [-0.00321529, -0.00120984, 0.0013585, 0.00455858, -0.00391063, -0.00124119])
    check(post["logit"], [-0.114343, -0.0678355, -0.0213282, 0.025179, 0.0716862, 0.118193])
    check(prior["logit"], [-0.0988565, -0.058624, -0.0183915, 0.021841, 0.0620735, 0.102306])
    for state in (post, prior):
        assert state["stoch"].argmax(-1).unique().tolist() == [2]
    # DI-engine scales the caller's actions.
    assert torch.equal(action, given)
    normal = ramp(rssm(discrete=False))
    assert sum(parameter.numel() for parameter in normal.parameters()) == 300
    post, prior = normal.obs_step(normal.initial(2), action, embed, sample=False)
    check(post["mean"], [-0.111959, -0.0353606, -0.111951, -0.035358])
    check(post["std"], [1.11031, 1.12945, 1.11031, 1.12945])
    check(prior["mean"], [-0.0978999, -0.0308783])
    check(post["deter"], [-0.00321405, -0.00120978, 0.00135882, 0.00456083])
    assert model.get_feat(model.initial(2)).shape == (2, 10)
    assert normal.get_feat(normal.initial(2)).shape == (2, 6)


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws are modes."""
    one_hot = "ding.torch_utils.network.dreamer.OneHotDist"
    monkeypatch.setattr(f"{one_hot}.sample", lambda self, sample_shape=(), seed=None: self.mode())
    monkeypatch.setattr("torch.distributions.Normal.rsample", lambda self, sample_shape=(): self.mean)


@pytest.mark.usefixtures("modes")
@pytest.mark.parametrize("kind", [{}, {"discrete": 0}, {"temp_post": False}, {"shared": True}, {"layers_input": 2}])
def test_sequences_are_single_steps_and_forget_at_the_begin_of_an_episode(kind: dict[str, object]) -> None:
    torch.manual_seed(0)
    model = rssm(**kind)
    embed, action = torch.randn(2, 4, 6), 2 * torch.randn(2, 4, 2)
    is_first = torch.tensor([[1, 0, 0, 0], [0, 0, 1, 0]])
    posts, priors = model.observe(embed, action, is_first=is_first)
    for row, begin, end in ((0, 0, 4), (1, 0, 2), (1, 2, 4)):
        state = model.initial(1)
        for step in range(begin, end):
            one = action[row : row + 1, step] * (1 - is_first[row, step])
            state, prior = model.obs_step(state, one, embed[row : row + 1, step])
            for name in state:
                torch.testing.assert_close(posts[name][row, step], state[name][0])
                torch.testing.assert_close(priors[name][row, step], prior[name][0])
    imagined = model.imagine(action[:, 1:], {name: value[:, 0] for name, value in posts.items()})
    assert imagined["deter"].shape == (2, 3, 4)
    torch.testing.assert_close(imagined["deter"][0, 0], priors["deter"][0, 1])
    posts["deter"].sum().backward()
    assert any(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("discrete", [0, 3])
def test_divergences_have_gradients_on_one_side(discrete: int) -> None:
    torch.manual_seed(0)
    model = rssm(discrete=discrete)
    names = ["logit"] if discrete else ["mean", "std"]
    post, prior = ({k: torch.rand_like(v) + 0.5 for k, v in model.initial(3).items()} for _ in range(2))
    for state in (post, prior):
        for name in names:
            state[name].requires_grad_()
    expected = torch.distributions.kl_divergence(
        *(torch.distributions.Independent(one.base_dist, 1) for one in map(model.get_dist, (post, prior)))
    )
    loss, value, lhs, rhs = model.kl_loss(post, prior, False, 0.0, 0.1, 0.5)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(loss, 0.6 * expected.mean())
    lhs.backward(retain_graph=True)
    assert all(post[name].grad is not None and prior[name].grad is None for name in names)
    post[names[0]].grad = None
    rhs.backward()
    assert post[names[0]].grad is None
    assert prior[names[0]].grad is not None
    turned = model.kl_loss(prior, post, True, 0.0, 0.1, 0.5)[1]
    torch.testing.assert_close(turned, value)
    free = model.kl_loss(post, prior, False, 100.0, 0.1, 0.5)
    assert [one.item() for one in free[2:]] == [100, 100]


def test_actions_out_of_range_are_scaled_and_keep_a_gradient() -> None:
    model = rssm()
    action = torch.tensor([[3.0, 0.5], [-2.0, 1.0]], requires_grad=True)
    beyond = model.img_step(model.initial(2), action, sample=False)["deter"]
    inside = model.img_step(model.initial(2), action.detach().clamp(-1, 1), sample=False)["deter"]
    torch.testing.assert_close(beyond, inside)
    beyond.square().sum().backward()
    assert action.grad.abs().min().item() > 0


@pytest.mark.parametrize("std_act", ["softplus", "abs", "sigmoid", "sigmoid2"])
def test_deviations_are_positive(std_act: str) -> None:
    """``softplus`` fails in DI-engine."""
    model = rssm(discrete=0, std_act=std_act, mean_act="tanh5")
    assert model.img_step(model.initial(2), torch.zeros(2, 2))["std"].min().item() >= 0.1


def test_the_decoder_gives_the_images_of_di_engine() -> None:
    decoder = ramp(ConvDecoder(7, depth=4, act=nn.SiLU, shape=[3, 64, 64], kernels=[4] * 4))
    assert sum(parameter.numel() for parameter in decoder.parameters()) == 15099
    found = decoder(wave((1, 2, 7), 0.1))
    assert found.mode().shape == (1, 2, 3, 64, 64)
    check(found.mode(), [-0.096071, -0.0870436, -0.0870309])
    assert [decoder.calc_same_pad(k, 2, 1) for k in (3, 4, 5, 6)] == [(1, 1), (1, 0), (2, 1), (2, 0)]
    names = {name: list(value.shape) for name, value in ConvDecoder(7).named_parameters()}
    assert names["layers.0.weight"] == [256, 128, 3, 3]
    assert names["layers.9.weight"] == [32, 3, 3, 3]
    assert names["layers.9.bias"] == [3]


@pytest.mark.parametrize(("shape", "kernels"), [((1, 24, 32), [5, 4, 3]), ([3, 16, 16], [6, 4])])
def test_the_decoder_gives_images_of_any_size(shape: list[int], kernels: list[int]) -> None:
    """DI-engine's gives those of 64 times 64 pixels, from four kernels, and only takes a list as the shape."""
    decoder = ConvDecoder(7, 2, "SiLU", None, shape, kernels)
    assert decoder(torch.zeros(2, 3, 7)).mode().shape == (2, 3, *shape)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="divisible by 16"):
        ConvDecoder(7, shape=(3, 84, 84))
    with pytest.raises(ValueError, match="num_actions and embed"):
        RSSM(num_actions=2)
    with pytest.raises(ValueError, match="gru_layer_norm"):
        rssm(cell="lstm")
    with pytest.raises(ValueError, match="rec_depth=2"):
        rssm(rec_depth=2)
