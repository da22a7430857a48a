"""Encoders and heads by themselves: parameter layout of the reference, options, errors."""

import math

import pytest
import torch
from torch import nn

from ding.model.common import (
    AttentionPolicyHead,
    BranchingHead,
    ConvEncoder,
    DiscreteHead,
    DuelingHead,
    EnsembleHead,
    FCEncoder,
    GaussianFourierProjectionTimeEncoder,
    IMPALAConvEncoder,
    MultiHead,
    PopArtVHead,
    RegressionHead,
    ReparameterizationHead,
    StochasticDuelingHead,
    head_cls_map,
    independent_normal_dist,
)


def linear(name, *shape):
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def popart(name):
    return {**linear(name, 1, 8), f"{name}.mu": (1,), f"{name}.sigma": (1,), f"{name}.v": (1,)}


LAYOUTS = {
    "fc": (
        lambda: FCEncoder(4, [128, 128, 64]),
        {**linear("init", 128, 4), **linear("main.0", 128, 128), **linear("main.2", 64, 128)},
    ),
    "fc res": (
        lambda: FCEncoder(4, [8, 8], res_block=True),
        {
            **linear("init", 8, 4),
            **linear("main.0.fc1.0", 8, 8),
            **linear("main.0.fc2.0", 8, 8),
            **linear("main.1.fc1.0", 8, 8),
            **linear("main.1.fc2.0", 8, 8),
        },
    ),
    "fc one res": (
        lambda: FCEncoder(4, [8], res_block=True),
        {**linear("init", 8, 4), **linear("main.fc1.0", 8, 8), **linear("main.fc2.0", 8, 8)},
    ),
    "regression": (
        lambda: RegressionHead(8, 2),
        {**linear("main.0", 8, 8), **linear("main.2", 8, 8), **linear("last", 2, 8)},
    ),
    "regression norm": (
        lambda: RegressionHead(8, 2, layer_num=1, norm_type="LN"),
        {**linear("main.0", 8, 8), **linear("main.1", 8), **linear("last", 2, 8)},
    ),
    "conditioned": (
        lambda: ReparameterizationHead(8, 2, sigma_type="conditioned"),
        {
            **linear("main.0", 8, 8),
            **linear("main.2", 8, 8),
            **linear("mu", 2, 8),
            **linear("log_sigma_layer", 2, 8),
        },
    ),
    "happo": (
        lambda: ReparameterizationHead(8, 2, sigma_type="happo"),
        {"log_sigma_param": (1, 2), **linear("main.0", 8, 8), **linear("main.2", 8, 8), **linear("mu", 2, 8)},
    ),
    "fixed": (
        lambda: ReparameterizationHead(8, 2, sigma_type="fixed"),
        {**linear("main.0", 8, 8), **linear("main.2", 8, 8), **linear("mu", 2, 8)},
    ),
    "stochastic dueling": (
        lambda: StochasticDuelingHead(8, 2),
        {**linear("A.0.0", 8, 10), **linear("A.1.0", 1, 8), **linear("V.0.0", 8, 8), **linear("V.1.0", 1, 8)},
    ),
    "ensemble": (
        lambda: EnsembleHead(8, 1, 16, 1, 3),
        {
            "pred.0.0.weight": (48, 8, 1),
            "pred.0.0.bias": (48,),
            "pred.1.0.weight": (3, 16, 1),
            "pred.1.0.bias": (3,),
        },
    ),
    "popart": (lambda: PopArtVHead(8, 1), {**popart("popart"), **linear("Q.0.0", 8, 8), **popart("Q.1")}),
    "discrete": (
        lambda: DiscreteHead(8, 2, layer_num=2, norm_type="LN", dropout=0.1),
        {
            **linear("Q.0.0", 8, 8),
            **linear("Q.0.1", 8),
            **linear("Q.0.4", 8, 8),
            **linear("Q.0.5", 8),
            **linear("Q.1.0", 2, 8),
        },
    ),
    "discrete flat": (lambda: DiscreteHead(8, 2, layer_num=0), linear("Q.1.0", 2, 8)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_state_dict_has_the_layout_of_the_reference(name):
    build, expected = LAYOUTS[name]
    module = build()
    assert {key: tuple(value.shape) for key, value in module.state_dict().items()} == expected
    module.load_state_dict({key: torch.ones(shape) for key, shape in expected.items()}, strict=True)


def test_impala_layout_and_output():
    encoder = IMPALAConvEncoder([4, 84, 84], channels=[16, 32, 32], outsize=32)
    keys = [key.removesuffix(".weight") for key in encoder.state_dict() if key.endswith("weight")]
    blocks = ["firstconv", "blocks.0.conv0", "blocks.0.conv1", "blocks.1.conv0", "blocks.1.conv1"]
    assert keys == [*(f"stacks.{i}.{block}" for i in range(3) for block in blocks), "dense"]
    assert encoder.dense.weight.shape == (32, 3872)
    assert encoder.stacks[1].firstconv.weight.shape == (32, 16, 3, 3)
    x = torch.randint(0, 256, (2, 4, 84, 84)).float()
    out = encoder(x)
    assert out.shape == (2, 32)
    assert (out >= 0).all()
    assert torch.allclose(encoder.dense.weight.norm(dim=1), torch.full((32,), 1.4))


class TestFCEncoder:
    def test_last_layer_is_activated(self):
        encoder = FCEncoder(4, [8, 8])
        x = torch.randn(64, 4)
        expected = torch.relu(encoder.main[0](torch.relu(encoder.init(x))))
        assert torch.equal(encoder(x), expected)

    def test_norm_type_is_applied(self):
        encoder = FCEncoder(4, [8, 6], norm_type="LN")
        x = torch.randn(64, 4)
        hidden = torch.relu(encoder.init_norm(encoder.init(x)))
        assert torch.equal(encoder(x), torch.relu(encoder.main[1](encoder.main[0](hidden))))
        assert encoder.main[1].weight.shape == (6,)

    def test_norm_of_residual_blocks(self):
        encoder = FCEncoder(4, [8, 8], res_block=True, norm_type="LN")
        assert encoder.init_norm is None
        assert isinstance(encoder.main[0].fc1[1], nn.LayerNorm)
        x = torch.randn(5, 4)
        assert torch.equal(encoder(x), encoder.main(torch.relu(encoder.init(x))))

    def test_dropout(self):
        encoder = FCEncoder(4, [64, 64], dropout=0.5)
        x = torch.randn(16, 4)
        assert not torch.equal(encoder(x), encoder(x))
        encoder.eval()
        assert torch.equal(encoder(x), encoder(x))

    def test_errors(self):
        with pytest.raises(ValueError, match="equal widths"):
            FCEncoder(4, [8, 16], res_block=True)
        with pytest.raises(ValueError, match="at least one width"):
            FCEncoder(4, [])
        with pytest.raises(ValueError, match="vector"):
            FCEncoder([3, 4, 4], [8])


class TestConvEncoder:
    def test_no_activation_at_the_end(self):
        torch.manual_seed(0)
        encoder = ConvEncoder([1, 36, 36], [4, 4, 4, 16])
        x = torch.randn(8, 1, 36, 36)
        hidden = x
        for index in (0, 2, 4):
            hidden = torch.relu(encoder.main[index](hidden))
        out = encoder(x)
        assert torch.equal(out, encoder.mid(hidden.flatten(1)))
        assert (out < 0).any()

    def test_own_kernels_and_padding(self):
        encoder = ConvEncoder([3, 10, 12], [4, 6, 8], kernel_size=[3, 3], stride=[1, 2], padding=[1, 1])
        assert encoder.mid.in_features == 6 * 5 * 6
        assert encoder(torch.randn(2, 3, 10, 12)).shape == (2, 8)

    def test_layer_norm_makes_the_encoder_of_dreamer(self):
        """Strides and paddings have no effect in DI-engine, either; here their number did not fit."""
        encoder = ConvEncoder([3, 64, 64], [32, 64, 128, 256, 128], kernel_size=[4, 4, 4, 4], layer_norm=True)
        assert encoder(torch.randn(2, 3, 64, 64)).shape == (2, 128)
        assert encoder.mid.in_features == 4096
        assert [encoder.main[index].bias for index in (0, 3, 6, 9)] == [None] * 4
        y = encoder.main[1](encoder.main[0](torch.randn(2, 3, 64, 64)))
        assert y.shape == (2, 32, 32, 32)
        assert torch.allclose(y.mean(dim=1), torch.zeros_like(y[:, 0]), atol=1e-5)
        odd = ConvEncoder([1, 9, 5], [4, 4, 16], kernel_size=[4, 3], layer_norm=True)
        assert odd(torch.zeros(2, 1, 9, 5, dtype=torch.uint8)).shape == (2, 16)
        with pytest.raises(ValueError, match="with layer_norm"):
            ConvEncoder([1, 9, 5], [4, 4, 4, 16], kernel_size=[4, 3], layer_norm=True)

    def test_errors(self):
        with pytest.raises(ValueError, match="width 64"):
            ConvEncoder([4, 84, 84], [32, 64, 64, 32, 128])
        with pytest.raises(ValueError, match="too small"):
            ConvEncoder([4, 20, 20])
        with pytest.raises(ValueError, match="stride"):
            ConvEncoder([4, 84, 84], kernel_size=[8, 4])
        with pytest.raises(ValueError, match="images"):
            ConvEncoder([84, 84])


def test_time_encoder():
    encoder = GaussianFourierProjectionTimeEncoder(4, scale=2.0)
    t = torch.tensor([0.0, 0.5])
    out = encoder(t)
    assert out[0].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert torch.allclose(out[1, :2], torch.sin(0.5 * encoder.W), atol=1e-5)
    # DI-engine's weights.
    encoder = GaussianFourierProjectionTimeEncoder(6)
    encoder.W.data.copy_(torch.tensor([0.5, -1.0, 2.0]))
    expected = [0.0499792, -0.0998334, 0.198669, 0.99875, 0.995004, 0.980067]
    assert encoder(torch.tensor(0.1)).tolist() == pytest.approx(expected, rel=1e-5)
    assert not encoder.W.requires_grad
    with pytest.raises(ValueError, match="even"):
        GaussianFourierProjectionTimeEncoder(3)


class TestHeads:
    def test_map_has_the_public_names(self):
        assert set(head_cls_map) == {
            *("discrete", "dueling", "sdn", "distribution", "rainbow", "qrdqn", "quantile", "fqf", "branch"),
            *("attention_policy", "regression", "reparameterization", "popart", "multi", "ensemble"),
        }

    def test_dueling_layer_numbers(self):
        head = DuelingHead(8, 2, layer_num=1, a_layer_num=0, v_layer_num=2)
        assert [len(list(part[0].parameters())) for part in (head.A, head.V)] == [0, 4]

    @pytest.mark.parametrize("rows", [(5,), (1,), (0,), (2, 5)])
    def test_dueling_values_and_gradients(self, rows):
        head, x = DuelingHead(8, 3), torch.randn(*rows, 8)
        q = head(x)["logit"]
        advantage, value = head.A(x), head.V(x)
        torch.testing.assert_close(q, advantage - advantage.mean(-1, keepdim=True) + value)
        gradients = torch.autograd.grad(q.sum(), list(head.parameters()))
        # The sum over the actions leaves the value alone.
        assert all(not grad.abs().max() > 1e-5 for grad, _ in zip(gradients, head.A.parameters()))
        assert gradients[-1].item() == q.numel()

    def test_regression(self):
        x = torch.randn(5, 8)
        assert RegressionHead(8, 1)(x)["pred"].shape == (5,)
        head = RegressionHead(8, [3], hidden_size=4, layer_num=1, final_tanh=True)
        assert torch.equal(head(x)["pred"], torch.tanh(head.last(head.main(x))))

    def test_reparameterization(self):
        x = torch.randn(5, 8) * 100
        fixed = ReparameterizationHead(8, 2, sigma_type="fixed", fixed_sigma_value=0.3)(x)
        assert torch.equal(fixed["sigma"], torch.full((5, 2), 0.3))
        independent = ReparameterizationHead(8, 2, sigma_type="independent", bound_type="tanh")
        assert torch.equal(independent(x)["sigma"], torch.ones(5, 2))
        assert independent(x)["mu"].abs().max() <= 1
        conditioned = ReparameterizationHead(8, 2, sigma_type="conditioned")
        nn.init.constant_(conditioned.log_sigma_layer.bias, 1e4)
        assert torch.allclose(conditioned(x)["sigma"], torch.full((5, 2), math.exp(2)))
        happo = ReparameterizationHead(8, 2, sigma_type="happo")(x)
        assert torch.allclose(happo["sigma"], torch.full((5, 2), 0.5 / (1 + math.exp(-1))))
        with pytest.raises(ValueError, match="None"):
            ReparameterizationHead(8, 2)
        with pytest.raises(ValueError, match="'clip'"):
            ReparameterizationHead(8, 2, sigma_type="fixed", bound_type="clip")
        dist = independent_normal_dist([happo["mu"], happo["sigma"]])
        assert dist.event_shape == (2,)
        assert torch.equal(independent_normal_dist(happo).mean, happo["mu"])

    def test_stochastic_dueling(self):
        head = StochasticDuelingHead(8, 2)
        s, a, mu = torch.randn(5, 8), torch.randn(5, 2).tanh(), torch.zeros(5, 2)
        out = head(s, a, mu, torch.zeros(5, 2), sample_size=3)
        assert torch.equal(out["v_value"], head.V(s))
        mean = head.A(torch.cat([s, mu], dim=-1))
        assert torch.allclose(out["q_value"], head.V(s) + head.A(torch.cat([s, a], dim=-1)) - mean, atol=1e-6)

    def test_multi_and_attention_and_branching(self):
        out = MultiHead(DuelingHead, 8, [2, 3], layer_num=0)(torch.randn(5, 8))
        assert [tuple(item.shape) for item in out["logit"]] == [(5, 2), (5, 3)]
        key, query = torch.randn(5, 3, 8), torch.randn(5, 8)
        assert torch.allclose(AttentionPolicyHead()(key, query)[2, 1], key[2, 1] @ query[2], atol=1e-5)
        with pytest.raises(ValueError, match="positive"):
            BranchingHead(8)

    def test_ensemble_members_are_independent(self):
        head = EnsembleHead(8, 1, 16, 1, 3)
        x = torch.randn(5, 24, 1)
        out = head(x)["pred"]
        assert out.shape == (5, 3)
        changed = x.clone()
        changed[:, 8:16] += 1
        moved = (head(changed)["pred"] - out).abs().amax(dim=0) > 1e-6
        assert moved.tolist() == [False, True, False]

    def test_popart(self):
        out = PopArtVHead(8, 1)(torch.randn(5, 8))
        assert torch.equal(out["pred"], out["unnormalized_pred"])
        assert out["pred"].shape == (5,)
