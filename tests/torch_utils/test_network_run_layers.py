"""``run_layers`` calls layers in turn, on numbers of any dtype."""

import pytest
import torch
from torch import nn

from ding.torch_utils.network import run_layers


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.float32])
def test_numbers_get_the_dtype_of_the_first_layer(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layers = [nn.Flatten(), nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2)]
    x = torch.tensor([[0, 1, 1, 0], [1, 0, 1, 1]], dtype=dtype)
    assert torch.equal(run_layers(layers, x), nn.Sequential(*layers)(x.float()))
    assert run_layers([nn.Linear(4, 2).double()], x.bool()).dtype is torch.float64


def test_other_layers_get_the_numbers_as_they_are() -> None:
    tokens = torch.tensor([[0, 2]])
    embedding = nn.Embedding(3, 4)
    assert torch.equal(run_layers([embedding], tokens), embedding(tokens))
    assert run_layers([nn.Identity()], tokens).dtype is torch.int64
