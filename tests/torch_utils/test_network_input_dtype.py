"""``as_input`` brings numbers of any dtype to the layers that read them."""

import pytest
import torch
from torch import nn

from ding.torch_utils.network import as_input


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.float32])
def test_numbers_get_the_dtype_of_the_first_layer(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2))
    x = torch.tensor([[0, 1, 1, 0], [1, 0, 1, 1]], dtype=dtype)
    assert torch.equal(network(as_input(x, network)), network(x.float()))
    assert as_input(x.bool(), nn.Linear(4, 2).double()).dtype is torch.float64
    normed = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2))
    assert torch.equal(normed(as_input(x, normed)), normed(x.float()))


def test_other_networks_get_the_numbers_as_they_are() -> None:
    tokens = torch.tensor([[0, 2]])
    for network in (nn.Embedding(3, 4), nn.Identity(), nn.Sequential(nn.Embedding(3, 4), nn.Linear(4, 1))):
        assert as_input(tokens, network) is tokens
