"""The gated transformer-XL: numbers of DI-engine, its memory, and what a step may see."""

import math

import pytest
import torch

from ding.model import GTrXLDQN
from ding.torch_utils.network import GRUGatingUnit, GTrXL
from ding.torch_utils.network.gtrxl import AttentionXL, GatedTransformerXLLayer, Memory, PositionalEmbedding
from ding.torch_utils.network.transformer import Attention, TransformerLayer


def wave(shape, phase):
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def golden(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))
    return model.eval()


def close(values):
    return pytest.approx(values, rel=1e-5)


def small(memory_len=3, **kwargs):
    return GTrXL(4, head_dim=2, embedding_dim=4, head_num=2, mlp_num=2, layer_num=1, memory_len=memory_len, **kwargs)


@torch.no_grad()
def test_values_of_the_parts():
    found = golden(GRUGatingUnit(4))(wave((2, 3, 4), 0), wave((2, 3, 4), 1)).flatten()[:6]
    assert found.tolist() == close([-0.130728, 0.286053, 0.518622, 0.536815, 0.298513, -0.116259])
    found = PositionalEmbedding(4)(torch.arange(3))
    assert found.shape == (3, 1, 4)
    assert found.flatten()[4:].tolist() == close(
        [0.841471, 0.00999983, 0.540302, 0.99995, 0.909297, 0.0199987, -0.416147, 0.9998]
    )


@torch.no_grad()
def test_values_of_two_segments():
    model = golden(small())
    assert (len(model.state_dict()), sum(p.numel() for p in model.parameters())) == (35, 384)
    first, second = model(wave((2, 2, 4), 0.1)), model(wave((2, 2, 4), 0.1))
    assert first["logit"].flatten()[:4].tolist() == close([-0.0152367, -0.00230552, 0.0405267, 0.108423])
    assert second["logit"].flatten()[:4].tolist() == close([-0.015295, -0.00231422, 0.0405666, 0.108503])
    assert not first["memory"].any()
    assert second["memory"].shape == (2, 3, 2, 4)
    assert not second["memory"][:, 0].any()


@torch.no_grad()
def test_values_of_the_q_network():
    model = golden(GTrXLDQN(4, 2, att_layer_num=1, hidden_size=8, att_head_dim=4, memory_len=2))
    assert (len(model.state_dict()), sum(p.numel() for p in model.parameters())) == (43, 1547)
    first, second = model(wave((3, 2, 4), 0.1)), model(wave((3, 2, 4), 0.1))
    assert first["logit"].flatten()[:6].tolist() == close(
        [-0.193973, 0.0368243, -0.194832, 0.0308112, -0.194262, 0.034867]
    )
    assert second["logit"].flatten()[:6].tolist() == close(
        [-0.193971, 0.0368473, -0.194828, 0.0308413, -0.19426, 0.0348851]
    )
    assert second["memory"].shape == (2, 2, 2, 8)
    assert second["memory"].flatten()[4:6].tolist() == close([0.0479425, 0.109891])
    assert second["transformer_out"].flatten()[:2].tolist() == close([-0.0371024, -0.0253265])


@pytest.mark.parametrize("gru_gating", [True, False])
def test_a_step_sees_itself_the_steps_before_it_and_the_memory(gru_gating):
    torch.manual_seed(0)
    model, x = small(gru_gating=gru_gating, activation=torch.nn.Tanh()), torch.randn(4, 1, 4, requires_grad=True)
    memory = torch.randn(2, 3, 1, 4, requires_grad=True)
    out, after = model.attend(x, memory)
    out[1].sum().backward()
    assert x.grad.flatten(1).any(1).tolist() == [True, True, False, False]
    # Of the first layer, whose memory has a part in its output.
    assert memory.grad[0].flatten(1).any(1).all()
    assert not after.requires_grad
    torch.testing.assert_close(after[1, -1], out[-1].detach())


def test_the_memory_of_a_module_follows_its_batch():
    model = small()
    assert model.get_memory() is None
    model(torch.zeros(2, 2, 4))
    with pytest.warns(UserWarning, match="batch of 2"):
        model(torch.zeros(2, 3, 4))
    assert model.get_memory().shape == (2, 3, 3, 4)
    model.reset_memory(state=torch.ones(2, 5, 1, 4))
    # A memory of another length, and a segment with the batch first.
    assert model(torch.zeros(1, 4, 4), batch_first=True, return_mem=False).keys() == {"logit"}
    assert model.get_memory().shape == (2, 5, 1, 4)
    model.reset_memory(batch_size=7)
    assert model.get_memory().shape == (2, 3, 7, 4)


def test_a_memory_keeps_the_last_steps():
    memory = Memory(memory_len=3, batch_size=1, embedding_dim=2, layer_num=1)
    steps = [torch.arange(8.0).reshape(4, 1, 2), torch.arange(8.0, 16.0).reshape(4, 1, 2)]
    assert memory.update([step[:1] for step in steps])[:, -1, 0].tolist() == [[0, 1], [8, 9]]
    assert memory.update(steps)[0, :, 0].tolist() == [[2, 3], [4, 5], [6, 7]]
    with pytest.raises(ValueError, match="None"):
        memory.update(None)
    with pytest.raises(ValueError, match="must be"):
        memory.init(torch.zeros(3, 3, 1, 2))


def test_no_memory_at_all():
    out, memory = small(memory_len=0).attend(torch.ones(2, 1, 4))
    assert (out.shape, memory.shape) == ((2, 1, 4), (2, 0, 1, 4))


def test_images():
    model = GTrXLDQN((1, 36, 36), 2, att_layer_num=1, hidden_size=8, encoder_hidden_size_list=[4, 4, 4, 8])
    assert model(torch.zeros(3, 2, 1, 36, 36))["logit"].shape == (3, 2, 2)
    with pytest.raises(ValueError, match="hidden_size=16"):
        GTrXLDQN((1, 36, 36), 2, encoder_hidden_size_list=[4, 4, 4, 8])
    with pytest.raises(AssertionError, match="even"):
        GTrXL(4, embedding_dim=3)


def attention(steps: int = 3, past: int = 2, batch: int = 2):
    torch.manual_seed(0)
    layer = AttentionXL(8, 4, 2, torch.nn.Identity())
    inputs, full = torch.rand(steps, batch, 8), torch.rand(past + steps, batch, 8)
    position = PositionalEmbedding(8)(torch.arange(past + steps - 1, -1, -1.0))
    u, v = torch.rand(2, 4), torch.rand(2, 4)
    return layer, inputs, position, full, u, v


def test_the_mask_of_attention_has_an_axis_for_the_rows():
    layer, inputs, position, full, u, v = attention()
    causal = torch.ones(3, 5).triu(3).bool().unsqueeze(-1)
    together = layer(inputs, position, full, u, v, mask=causal)
    # A step does not see those after it.
    changed = full.clone()
    changed[4] = 9.0
    torch.testing.assert_close(layer(inputs, position, changed, u, v, mask=causal)[:2], together[:2])
    assert not torch.equal(layer(inputs, position, changed, u, v, mask=causal)[2], together[2])
    # With a mask for each row, each has its own.
    first_only = torch.ones(3, 5, 1, dtype=torch.bool)
    first_only[:, 0] = False
    rows = layer(inputs, position, full, u, v, mask=torch.cat([causal, first_only], dim=-1))
    torch.testing.assert_close(rows[:, 0], together[:, 0])
    torch.testing.assert_close(rows[:, 1], layer(inputs, position, full, u, v, mask=first_only)[:, 1])
    gated = GatedTransformerXLLayer(8, 4, 8, 2, 2, torch.nn.Identity(), torch.nn.ReLU())
    assert gated(inputs, position, u, v, full[:2], mask=causal).shape == (3, 2, 8)
    for wrong in (causal.squeeze(-1), causal[:, :4], causal.expand(-1, -1, 3)):
        with pytest.raises(AssertionError, match=r"mask must be \[S, M \+ S, 1 or B\] = \[3, 5, 1 or 2\], found"):
            layer(inputs, position, full, u, v, mask=wrong)


def test_layers_of_a_transformer_take_pairs_and_dropout_modules():
    torch.manual_seed(0)
    layers = [TransformerLayer(4, 2, 5, 4, 2, 2, dropout, torch.nn.ReLU()) for dropout in (torch.nn.Identity(), 0.0)]
    layers[1].load_state_dict(layers[0].state_dict())
    x, mask = torch.rand(2, 3, 4), torch.ones(2, 1, 3, 3).tril().bool()
    alone = layers[0](x, mask)
    out, passed_on = torch.nn.Sequential(*layers)((x, mask))
    assert passed_on is mask
    torch.testing.assert_close(out, layers[1](alone, mask))
    torch.testing.assert_close(Attention(4, 2, 4, 2, torch.nn.Dropout(1.0)).train()(x).std(0), torch.zeros(3, 4))
