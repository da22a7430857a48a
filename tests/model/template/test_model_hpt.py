"""HPT: golden values, sets of features, masks, and a run of DQN with it."""

import numpy as np
import pytest
import torch
from easydict import EasyDict
from torch import nn

from ding.model import HPT, create_model
from ding.model.template.hpt import CrossAttention, PolicyStem
from ding.policy import DQNPolicy
from tests.model.template.test_model_multi_agent import wave


def filled(module, scale):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.linspace(-scale, scale, parameter.numel()).reshape(parameter.shape))
    return module.eval()


def test_keys_and_values_are_those_of_di_engine():
    model = create_model(EasyDict(type="hpt", state_dim=4, action_dim=2))
    assert (len(model.state_dict()), sum(p.numel() for p in model.parameters())) == (15, 8663811)
    logit = filled(model, 0.01)(wave((2, 4), 0.1))["logit"]
    expected = [[-0.011445, 0.0598566], [-0.011464, 0.0597232]]
    np.testing.assert_allclose(logit.detach(), expected, rtol=2e-4)


def attended_by_hand(layer, x, context, mask):
    """The formula, head by head and row by row."""
    result = torch.zeros(*x.shape[:2], layer.to_q.out_features)
    query, (key, value) = layer.to_q(x), layer.to_kv(context).chunk(2, -1)
    for row in range(len(x)):
        for head in range(layer.heads):
            part = slice(head * 64, (head + 1) * 64)
            score = query[row, :, part] @ key[row, :, part].T / 8
            score[:, ~mask[row]] = -torch.inf
            result[row, :, part] = score.softmax(-1) @ value[row, :, part]
    return layer.to_out(result)


def test_attention_sees_what_the_mask_allows():
    torch.manual_seed(0)
    layer = CrossAttention(32, heads=2).eval()
    x, context = torch.randn(3, 5, 32), torch.randn(3, 4, 32)
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 1, 0]]).bool()
    expected = attended_by_hand(layer, x, context, mask)
    torch.testing.assert_close(layer(x, context, mask), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(layer(x, context)[1], expected[1], rtol=1e-4, atol=1e-5)


def test_weights_of_the_attention_are_dropped_in_training_only():
    torch.manual_seed(0)
    stem, x = PolicyStem(4), torch.randn(2, 3, 4)
    assert not torch.equal(stem(x), stem(x))
    stem.eval()
    torch.testing.assert_close(stem(x), stem(x))


@pytest.mark.parametrize("shape", [(2, 4), (2, 3, 4), (2, 3, 5, 4)])
def test_an_observation_may_be_a_set_of_vectors_in_any_order(shape):
    torch.manual_seed(0)
    stem, x = PolicyStem(4).eval(), torch.randn(shape)
    tokens = stem(x)
    assert tokens.shape == (2, 16, 128)
    torch.testing.assert_close(stem(x.flip(1) if len(shape) > 2 else x), tokens, rtol=1e-4, atol=1e-5)
    assert stem((10 * x).long()).dtype is torch.float32


def test_dqn_learns_with_it():
    torch.manual_seed(0)
    policy = DQNPolicy(EasyDict(DQNPolicy.default_config()), model=HPT(4, 2))
    batch = [
        {"obs": torch.randn(4), "next_obs": torch.randn(4), "action": 1, "reward": 1.0, "done": True} for _ in range(8)
    ]
    losses = [policy.learn_mode.forward(batch)["total_loss"] for _ in range(20)]
    assert losses[-1] < losses[0] / 4
    assert policy.eval_mode.forward({0: torch.zeros(4)})[0]["action"].shape == (1,)


def test_another_width_is_an_error():
    with pytest.raises(RuntimeError):
        HPT(4, 2)(torch.zeros(2, 5))
    assert isinstance(HPT(4, 2).head, nn.Module)
