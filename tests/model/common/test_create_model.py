"""What `create_model` makes of the entries of a model config."""

import pytest
import torch
from torch import nn

from ding.config import ConfigValueError
from ding.model import create_model
from ding.utils import MODEL_REGISTRY

DQN = {"type": "dqn", "obs_shape": 3, "action_shape": 2, "encoder_hidden_size_list": [4, 4]}


def test_an_activation_may_be_a_name():
    named, made = (create_model({**DQN, "activation": one}) for one in ("tanh", nn.Tanh()))
    assert [str(one) for one in named.modules()] == [str(one) for one in made.modules()]
    assert any(isinstance(one, nn.Tanh) for one in named.modules())
    assert named(torch.zeros(1, 3))["logit"].shape == (1, 2)


def test_an_unknown_activation_is_answered_by_the_known_ones():
    with pytest.raises(ConfigValueError, match=r"policy\.model\.activation='tan' is unknown.*tanh"):
        create_model({**DQN, "activation": "tan"})


def test_a_model_of_the_user_may_want_a_text():
    class Texts(nn.Module):
        def __init__(self, activation: str) -> None:
            super().__init__()
            self.activation = activation

    MODEL_REGISTRY.register("texts", Texts)
    try:
        assert create_model({"type": "texts", "activation": "tanh"}).activation == "tanh"
    finally:
        del MODEL_REGISTRY["texts"]
