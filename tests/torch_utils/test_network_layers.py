"""Blocks, activations, normalisation and the other building blocks of networks."""

import math

import pytest
import torch
from torch import nn

from ding.torch_utils.network import (
    GLU,
    MLP,
    GatingType,
    GumbelSoftmax,
    NearestUpsample,
    NoiseLinearLayer,
    PopArt,
    ResBlock,
    ResFCBlock,
    ScatterConnection,
    SoftArgmax,
    SumMerge,
    Transformer,
    VectorMerge,
    binary_encode,
    build_activation,
    build_normalization,
    conv1d_block,
    conv2d_block,
    deconv2d_block,
    fc_block,
    get_lstm,
    noise_block,
    normed_conv2d,
    normed_linear,
    one_hot,
    sequence_mask,
)
from ding.torch_utils.network.activation import GELU, Lambda
from ding.torch_utils.network.merge import BilinearGeneral, FiLM, TorchBilinear, TorchBilinearCustomized
from ding.torch_utils.network.nn_module import ChannelShuffle, NaiveFlatten
from ding.torch_utils.network.transformer import Attention, ScaledDotProductAttention, TransformerLayer


def kinds(seq):
    return [type(layer).__name__ for layer in seq]


class TestActivation:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("relu", [0.0, 2.0]),
            ("swish", [-1 / (1 + math.e), 2 / (1 + math.exp(-2))]),
            ("gelu", [-0.158808, 1.954598]),
            ("square", [1.0, 4.0]),
            ("identity", [-1.0, 2.0]),
            ("elu", [math.exp(-1) - 1, 2.0]),
        ],
    )
    def test_values(self, name, expected):
        assert build_activation(name)(torch.tensor([-1.0, 2.0])).tolist() == pytest.approx(expected, abs=1e-5)

    def test_inplace_is_for_relu_only(self):
        assert build_activation("relu").inplace is False
        assert build_activation("relu", inplace=True).inplace is True
        with pytest.raises(ValueError, match="'tanh'"):
            build_activation("tanh", inplace=True)

    def test_unknown_name_tells_the_nearest(self):
        with pytest.raises(KeyError, match="Did you mean 'sigmoid'"):
            build_activation("sigmoyd")

    def test_glu_gates(self):
        assert build_activation("glu") is GLU
        glu = GLU(2, 3, 4)
        x, context = torch.randn(5, 2), torch.randn(5, 4)
        expected = glu.layer2(torch.sigmoid(glu.layer1(context)) * x)
        assert torch.equal(glu(x, context), expected)
        assert GLU(2, 3, 4, "conv2d")(torch.randn(1, 2, 5, 5), torch.randn(1, 4, 5, 5)).shape == (1, 3, 5, 5)


class TestNormalization:
    def test_classes(self):
        assert build_normalization("BN", dim=1) is nn.BatchNorm1d
        assert build_normalization("IN", dim=2) is nn.InstanceNorm2d
        assert build_normalization("LN") is nn.LayerNorm
        assert build_normalization("SyncBN", dim=2) is nn.SyncBatchNorm

    def test_errors(self):
        with pytest.raises(KeyError, match="dim=3"):
            build_normalization("BN", dim=3)
        with pytest.raises(KeyError, match="BN"):
            build_normalization("BN")
        with pytest.raises(NotImplementedError, match="'XN'"):
            build_normalization("XN", dim=1)


class TestBlocks:
    def test_fc_block_order(self):
        block = fc_block(3, 4, activation=nn.ReLU(), norm_type="LN", use_dropout=True, dropout_probability=0.25)
        assert kinds(block) == ["Linear", "LayerNorm", "ReLU", "Dropout"]
        assert block[3].p == 0.25
        assert kinds(fc_block(3, 4)) == ["Linear"]

    def test_mlp_layout(self):
        mlp = MLP(3, 5, 2, 3, activation=nn.ReLU(), norm_type="LN", output_activation=False, output_norm=False)
        assert kinds(mlp) == ["Linear", "LayerNorm", "ReLU", "Linear", "LayerNorm", "ReLU", "Linear"]
        assert [tuple(mlp[i].weight.shape) for i in (0, 3, 6)] == [(5, 3), (5, 5), (2, 5)]

    def test_mlp_without_layers_is_the_identity(self):
        mlp = MLP(3, 5, 3, 0, activation=nn.ReLU())
        x = torch.randn(2, 3)
        assert torch.equal(mlp(x), x)
        assert list(mlp.state_dict()) == []
        with pytest.raises(ValueError, match="-1"):
            MLP(3, 5, 3, -1)

    def test_mlp_may_start_at_zero(self):
        mlp = MLP(3, 5, 2, 2, activation=nn.ReLU(), output_activation=False, last_linear_layer_init_zero=True)
        assert torch.equal(mlp(torch.randn(4, 3)), torch.zeros(4, 2))

    def test_conv_blocks(self):
        assert kinds(conv2d_block(3, 4, 3, activation=nn.ReLU(), norm_type="BN")) == ["Conv2d", "BatchNorm2d", "ReLU"]
        assert kinds(conv2d_block(3, 4, 3, pad_type="reflect", padding=1)) == ["ReflectionPad2d", "Conv2d"]
        assert conv2d_block(3, 4, 3, norm_type="LN")[1].num_groups == 1
        assert conv2d_block(3, 4, 3, norm_type="GN", num_groups_for_gn=2)[1].num_groups == 2
        assert conv2d_block(3, 4, 3, pad_type="replication", padding=1)(torch.randn(1, 3, 5, 5)).shape == (1, 4, 5, 5)
        assert conv2d_block(3, 4, 3).out_channels == 4
        assert conv1d_block(3, 4, 3, padding=1, norm_type="BN")(torch.randn(2, 3, 7)).shape == (2, 4, 7)
        assert deconv2d_block(3, 4, 4, stride=2, padding=1)(torch.randn(1, 3, 5, 5)).shape == (1, 4, 10, 10)
        with pytest.raises(ValueError, match="'wrap'"):
            conv2d_block(3, 4, 3, pad_type="wrap")

    def test_normed_layers(self):
        linear = normed_linear(3, 4, scale=0.5)
        assert torch.allclose(linear.weight.norm(dim=1), torch.full((4,), 0.5))
        assert not linear.bias.any()
        conv = normed_conv2d(3, 4, 3, scale=2.0, bias=False)
        assert torch.allclose(conv.weight.flatten(1).norm(dim=1), torch.full((4,), 2.0))

    def test_upsample(self):
        x = torch.tensor([[[[1.0, 2.0]]]])
        assert NearestUpsample(2)(x).tolist() == [[[[1, 1, 2, 2], [1, 1, 2, 2]]]]

    def test_res_blocks(self):
        x = torch.randn(2, 4, 6, 6)
        assert ResBlock(4)(x).shape == x.shape
        assert ResBlock(4, res_type="bottleneck", norm_type=None)(x).shape == x.shape
        assert ResBlock(4, res_type="downsample", out_channels=8)(x).shape == (2, 8, 3, 3)
        with pytest.raises(ValueError, match="keeps the channels"):
            ResBlock(4, out_channels=8)
        with pytest.raises(ValueError, match="'full'"):
            ResBlock(4, res_type="full")

    def test_res_block_downsample_does_not_normalise_its_projection(self):
        block = ResBlock(4, res_type="downsample", out_channels=8)
        names = [name.rsplit(".", 1)[0] for name, _ in block.named_parameters() if name.endswith("weight")]
        assert names == ["conv1.0", "conv1.1", "conv2.0", "conv2.1", "conv3.0"]

    def test_res_fc_block_drops_out_after_the_sum(self):
        block = ResFCBlock(200, norm_type=None, dropout=0.25)
        with torch.no_grad():
            for parameter in block.parameters():
                parameter.zero_()
        y = block(torch.ones(5, 200))
        torch.testing.assert_close(y.unique(), torch.tensor([0.0, 4 / 3]))
        assert torch.equal(block.eval()(torch.ones(5, 200)), torch.ones(5, 200))

    def test_res_fc_block_adds_its_input(self):
        block = ResFCBlock(3, norm_type=None)
        with torch.no_grad():
            for parameter in block.parameters():
                parameter.zero_()
        x = torch.tensor([[1.0, -2.0, 3.0]])
        assert block(x).tolist() == [[1.0, 0.0, 3.0]]
        assert x.tolist() == [[1.0, -2.0, 3.0]]


class TestNoise:
    def test_initial_values(self):
        layer = NoiseLinearLayer(16, 4, sigma0=0.8)
        assert torch.allclose(layer.weight_sigma, torch.full((4, 16), 0.2))
        assert torch.allclose(layer.bias_sigma, torch.full((4,), 0.4))
        assert layer.weight_mu.abs().max() <= 0.25
        assert layer.enable_noise is None

    def test_noise_is_factorised_and_drawn_in_then_out(self):
        layer = NoiseLinearLayer(3, 2)
        torch.manual_seed(0)
        layer.reset_noise()
        torch.manual_seed(0)
        in_noise, out_noise = (n.sign() * n.abs().sqrt() for n in (torch.randn(3), torch.randn(2)))
        assert torch.equal(layer.weight_eps, torch.outer(out_noise, in_noise))
        assert torch.equal(layer.bias_eps, out_noise)

    def test_forward_with_and_without_noise(self):
        layer = noise_block(3, 2, activation=None)[0]
        x = torch.randn(5, 3)
        weight = layer.weight_mu + layer.weight_sigma * layer.weight_eps
        bias = layer.bias_mu + layer.bias_sigma * layer.bias_eps
        noisy = nn.functional.linear(x, weight, bias)
        silent = nn.functional.linear(x, layer.weight_mu, layer.bias_mu)
        assert torch.equal(layer(x), noisy), "noise follows the training mode"
        assert torch.equal(layer.eval()(x), silent)
        for enabled in (True, False):
            layer.enable_noise = enabled
            for training in (True, False):
                assert torch.equal(layer.train(training)(x), noisy if enabled else silent)
        layer.enable_noise = True
        layer(x).sum().backward()
        assert layer.weight_sigma.grad is not None


class TestEncodings:
    def test_one_hot(self):
        assert one_hot(torch.tensor([2, -1, 0]), 3).tolist() == [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
        assert one_hot(torch.tensor([[1], [0]]), 2).tolist() == [[[0, 1]], [[1, 0]]]
        assert one_hot(torch.tensor([2, 0]), 3, num_first=True).tolist() == [[0, 1], [0, 0], [1, 0]]
        assert one_hot(torch.zeros(0, dtype=torch.long), 3).shape == (0, 3)

    @pytest.mark.parametrize("bad", [3, -2])
    def test_one_hot_range(self, bad):
        with pytest.raises(RuntimeError, match=r"\[-1, 3\)"):
            one_hot(torch.tensor([0, bad]), 3)

    def test_binary_encode(self):
        y = torch.tensor([5, 0, 99])
        assert binary_encode(y, 9).tolist() == [[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 1]]
        assert torch.equal(binary_encode(y, torch.tensor(9)), binary_encode(y, 9))
        assert y.tolist() == [5, 0, 99]
        with pytest.raises(ValueError, match="0"):
            binary_encode(y, 0)

    def test_sequence_mask(self):
        assert sequence_mask(torch.tensor([1, 3])).tolist() == [[True, False, False], [True, True, True]]
        # As in DI-engine, the mask is never wider than the longest sequence.
        assert sequence_mask(torch.tensor([[2], [1]]), max_len=4).tolist() == [[True, True], [True, False]]
        assert sequence_mask(torch.tensor([1, 3]), max_len=2).tolist() == [[True, False], [True, True]]

    def test_scatter_connection(self):
        x = torch.tensor([[[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]]])
        location = torch.tensor([[[0, 1], [1, 0], [0, 1]]])
        added = ScatterConnection("add")(x, (2, 3), location)
        assert added[0, 0].tolist() == [[0, 5, 0], [2, 0, 0]]
        assert added[0, 1].tolist() == [[0, 50, 0], [20, 0, 0]]
        covered = ScatterConnection("cover")(x, (2, 3), location)
        assert covered[0, 0, 0, 1].item() in (1.0, 4.0)
        by_xy = ScatterConnection("add").xy_forward(x, (2, 3), location[..., 0], location[..., 1])
        assert torch.equal(by_xy, added)
        with pytest.raises(ValueError, match="'mean'"):
            ScatterConnection("mean")

    def test_soft_argmax(self):
        heat = torch.full((1, 1, 3, 4), -1e9)
        heat[0, 0, 2, 1] = 0.0
        assert SoftArgmax()(heat).tolist() == [[2.0, 1.0]]
        assert SoftArgmax()(torch.zeros(1, 1, 3, 5)).tolist()[0] == pytest.approx([1.0, 2.0])

    def test_gumbel_softmax(self):
        torch.manual_seed(0)
        hard = GumbelSoftmax()(torch.tensor([[0.0, 0.0]]).expand(1000, 2), hard=True)
        assert set(hard.unique().tolist()) <= {0.0, 1.0}
        assert hard[:, 0].mean().item() == pytest.approx(0.5, abs=0.1)
        with pytest.raises(ValueError, match="-1"):
            GumbelSoftmax()(hard, temperature=-1)


class TestMerge:
    def test_sum(self):
        assert SumMerge()([torch.tensor([1.0]), torch.tensor([2.0])]).tolist() == [3.0]

    @pytest.mark.parametrize("gating", list(GatingType))
    def test_vector_merge(self, gating):
        merge = VectorMerge({"a": 2, "b": 3}, 4, gating_type=gating)
        out = merge({"a": torch.randn(5, 2), "b": torch.randn(5, 3)})
        assert out.shape == (5, 4)
        with pytest.raises(KeyError, match="'b'"):
            merge({"a": torch.randn(5, 2)})

    def test_gates_sum_to_one(self):
        merge = VectorMerge({"a": 2, "b": 2}, 3, gating_type=GatingType.POINTWISE, use_layer_norm=False)
        merge.linears["b"].load_state_dict(merge.linears["a"].state_dict())
        x = torch.randn(5, 2)
        assert torch.allclose(merge({"a": x, "b": x}), merge.linears["a"](torch.relu(x)), atol=1e-6)


class TestRnn:
    def test_normalised_lstm_formula(self):
        lstm = get_lstm("normal", 3, 2, norm_type=None)
        x, h, c = torch.randn(1, 4, 3), torch.randn(1, 4, 2), torch.randn(1, 4, 2)
        out, state = lstm(x, (h, c), list_next_state=False)
        i, f, o, u = (x[0] @ lstm.wx[0] + h[0] @ lstm.wh[0] + lstm.bias[0]).chunk(4, dim=1)
        new_c = f.sigmoid() * c[0] + i.sigmoid() * u.tanh()
        assert torch.allclose(state["c"][0], new_c, atol=1e-6)
        assert torch.allclose(out[0], o.sigmoid() * new_c.tanh(), atol=1e-6)

    @pytest.mark.parametrize("lstm_type", ["normal", "pytorch", "gru"])
    def test_steps_equal_a_sequence_with_states_per_env(self, lstm_type):
        rnn = get_lstm(lstm_type, 3, 2, num_layers=1 if lstm_type == "gru" else 2)
        x = torch.randn(4, 5, 3)
        states = [None] * 5
        outputs = []
        for step in x:
            out, states = rnn(step.unsqueeze(0), states)
            assert len(states) == 5
            assert states[0]["h"].shape == (rnn.num_layers, 1, 2)
            outputs.append(out[0])
        if lstm_type == "gru":
            assert states[0]["h"] is not None
            assert torch.equal(states[3]["h"], states[3]["c"])
        whole, last = rnn(x, None)
        assert torch.allclose(whole, torch.stack(outputs), atol=1e-6)
        assert torch.allclose(last[2]["c"], states[2]["c"], atol=1e-6)

    def test_mixed_states(self):
        rnn = get_lstm("pytorch", 3, 2)
        x = torch.randn(1, 3, 3)
        h, c = torch.randn(1, 1, 2), torch.randn(1, 1, 2)
        out, _ = rnn(x, [None, {"h": h, "c": c}, (h, c)])
        assert torch.equal(out[0, 0], rnn(x[:, :1], None)[0][0, 0])
        assert torch.allclose(out[0, 1], rnn(x[:, 1:2], (h, c))[0][0, 0])
        with pytest.raises(ValueError, match="2 entries for a batch of 3"):
            rnn(x, [None, None])
        with pytest.raises(TypeError, match="int"):
            rnn(x, 3)

    def test_unknown_types(self):
        with pytest.raises(NotImplementedError, match="hpc"):
            get_lstm("hpc", 3, 2)
        with pytest.raises(ValueError, match="'lstm'"):
            get_lstm("lstm", 3, 2)
        with pytest.raises(ValueError, match="one layer"):
            get_lstm("gru", 3, 2, num_layers=2)


class TestPopArt:
    def test_outputs_survive_a_change_of_scale(self):
        layer = PopArt(4, 1, beta=0.5)
        x = torch.randn(6, 4)
        before = layer(x)["unnormalized_pred"]
        stats = layer.update_parameters(torch.tensor([10.0, 30.0]))
        assert stats["new_mean"].item() == pytest.approx(10.0)
        assert stats["new_std"].item() == pytest.approx(math.sqrt(0.5 + 0.5 * 500 - 100))
        after = layer(x)
        assert torch.allclose(after["unnormalized_pred"], before, atol=1e-4)
        assert after["pred"].shape == (6,)
        with pytest.raises(ValueError, match="sizes"):
            PopArt(4)


def test_transformer_ignores_padding():
    torch.manual_seed(0)
    net = Transformer(3, head_dim=4, hidden_dim=8, output_dim=6, layer_num=2)
    x = torch.randn(2, 5, 3)
    mask = torch.tensor([[True] * 5, [True, True, True, False, False]])
    out = net(x, mask)
    assert out.shape == (2, 5, 6)
    changed = x.clone()
    changed[1, 3:] = 100.0
    assert torch.allclose(net(changed, mask)[1, :3], out[1, :3], atol=1e-5)
    assert not torch.allclose(net(changed)[1, :3], out[1, :3], atol=1e-2)


def test_transformer_has_a_dropout_after_each_layer_of_its_block():
    net = Transformer(3, head_dim=4, hidden_dim=8, output_dim=6, layer_num=1, dropout_ratio=0.5)
    assert [type(layer).__name__ for layer in net.main[0].mlp] == ["Sequential", "Dropout", "Sequential", "Dropout"]
    # The names of a state of DI-engine.
    assert {"main.0.mlp.0.0.weight", "main.0.mlp.2.0.weight"} <= net.state_dict().keys()


class TestLayersOfTheReference:
    """Results of DI-engine 0.5.3, with all parameters ``linspace(-.1, .1)``."""

    @pytest.mark.parametrize(
        ("make", "expected"),
        [
            (TorchBilinear, [[-0.2082, 0.3262], [-0.1154, 0.1904]]),
            (TorchBilinearCustomized, [[-0.2082, 0.3262], [-0.1154, 0.1904]]),
            (BilinearGeneral, [[-0.3914, 0.5866], [-0.0538, -0.0191]]),
            (lambda *_: FiLM(3, 2), [[0.0524, 0.0258, 0.2132], [-0.0067, 0.0444, 0.0521]]),
        ],
    )
    def test_merging_layers(self, make, expected):
        layer = make(3, 2, 2)
        for parameter in layer.parameters():
            parameter.data = torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape)
        x, z = torch.sin(torch.arange(6.0)).reshape(2, 3), torch.sin(torch.arange(4.0) + 1).reshape(2, 2)
        torch.testing.assert_close(layer(x, z), torch.tensor(expected), atol=1e-4, rtol=0)

    def test_one_feature_is_squeezed(self):
        assert TorchBilinearCustomized(3, 2, 1)(torch.ones(2, 3), torch.ones(2, 2)).shape == (2,)

    def test_small_modules(self):
        shuffled = ChannelShuffle(2)(torch.arange(8.0).reshape(1, 4, 1, 2))
        assert shuffled.flatten().tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
        assert NaiveFlatten(1, 2)(torch.ones(2, 3, 4, 5)).shape == (2, 12, 5)
        assert Lambda(lambda x: x + 1)(torch.ones(1)).tolist() == [2]
        torch.testing.assert_close(GELU()(torch.tensor([0.5, -1])), torch.tensor([0.3457, -0.1588]), atol=1e-4, rtol=0)


# Masks and states by value

MASK = torch.tensor([[[[True, True, False], [False, True, False], [True, True, True]]]])


def test_a_mask_leaves_the_mean_over_what_a_query_may_look_at():
    # Keys that are all alike: attention is the mean of the values.
    v = torch.tensor([[[[1.0], [3.0], [8.0]]]])
    attend = ScaledDotProductAttention(1)
    same = torch.ones_like(v)
    assert attend(same, same, v).flatten().tolist() == pytest.approx([4.0, 4.0, 4.0])
    assert attend(same, same, v, MASK).flatten().tolist() == pytest.approx([2.0, 3.0, 4.0])
    # A query that may look at nothing looks at all alike.
    assert attend(same, same, v, torch.zeros_like(MASK)).flatten().tolist() == pytest.approx([4.0, 4.0, 4.0])


def test_scores_are_divided_by_the_root_of_the_width_before_the_mask():
    q = torch.tensor([[[[2.0] * 4]]])
    k = torch.tensor([[[[0.0] * 4, [math.log(2) / 4] * 4, [9.0] * 4]]])
    v = torch.tensor([[[[0.0], [3.0], [100.0]]]])
    # Scores 0 and 8 * (log(2) / 4) / 2 = log(2): chances 1/3 and 2/3.
    found = ScaledDotProductAttention(4)(q, k, v, torch.tensor([[[[True, True, False]]]]))
    assert found.item() == pytest.approx(2.0)


def test_the_mask_of_attention_and_of_a_layer():
    attention = Attention(1, 1, 1, 1, 0.0)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.zero_()
        # Values are the inputs; keys and queries are 0.
        attention.attention_pre[0].weight[2] = 1.0
        attention.project[0].weight[:] = 1.0
    x = torch.tensor([[[1.0], [3.0], [8.0]]])
    assert attention(x, MASK).flatten().tolist() == pytest.approx([2.0, 3.0, 4.0])
    layer = TransformerLayer(2, 1, 2, 2, 1, 2, 0.0, nn.ReLU())
    x = torch.randn(1, 3, 2)
    # The pair that layers in a sequence hand on, as in DI-engine.
    out, handed_on = layer((x, MASK))
    torch.testing.assert_close(out, layer(x, MASK))
    assert handed_on is MASK
    # Query 1 looks at itself alone.
    torch.testing.assert_close(out[:, 1:2], layer(x[:, 1:2], None))


@pytest.mark.parametrize("kind", ["normal", "pytorch", "gru"])
def test_a_row_without_a_state_begins_with_zeros(kind):
    rnn = get_lstm(kind, 2, 3, norm_type=None)
    x, state = torch.randn(4, 2, 2), {"h": torch.randn(1, 1, 3), "c": torch.randn(1, 1, 3)}
    zeros = {name: torch.zeros_like(value) for name, value in state.items()}
    out, states = rnn(x, [None, state])
    for row, own in enumerate((None, state)):
        alone, of_row = rnn(x[:, row : row + 1], None if own is None else [own])
        torch.testing.assert_close(out[:, row : row + 1], alone)
        torch.testing.assert_close(states[row]["h"], of_row[0]["h"])
    torch.testing.assert_close(rnn(x, [None, state])[0], rnn(x, [zeros, state])[0])
    joined = {name: torch.cat([zeros[name], value], dim=1) for name, value in state.items()}
    torch.testing.assert_close(rnn(x, joined, list_next_state=False)[0], out)


def test_gru_by_hand():
    rnn = get_lstm("gru", 1, 1)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.zero_()
        # Gates 1/2; what is new is tanh of the input.
        rnn.weight_ih[2] = 1.0
    out, states = rnn(torch.tensor([[[0.5]], [[-1.0]]]), [{"h": torch.ones(1, 1, 1), "c": torch.ones(1, 1, 1)}])
    first = 0.5 * math.tanh(0.5) + 0.5
    second = 0.5 * math.tanh(-1.0) + 0.5 * first
    assert out.flatten().tolist() == pytest.approx([first, second])
    assert states[0]["h"].item() == states[0]["c"].item() == pytest.approx(second)
