"""Gradients and parameter groups by hand, and small names of DI-engine."""

import pytest
import torch
from ding.torch_utils.model_helper import get_num_params
from torch import nn

from ding.compatibility import torch_ge_131, torch_ge_180
from ding.torch_utils.optimizer_helper import PCGrad, configure_weight_decay


def parameter(values: list[float]) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values))


def test_biases_norms_and_embeddings_do_not_decay() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Embedding(2, 2))
    decayed, kept = configure_weight_decay(model, 0.1)
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.1, 0.0)
    assert decayed["params"] == [model[0].weight]
    assert len(kept["params"]) == 4


@pytest.mark.parametrize(("reduction", "expected"), [("mean", [0.25, 0.75]), ("sum", [0.5, 1.5])])
def test_contradicting_gradients_are_projected(reduction, expected) -> None:
    shared = parameter([0.0, 0.0])
    surgery = PCGrad(torch.optim.SGD([shared], lr=1.0), reduction)
    surgery.zero_grad()
    # (1, 0) becomes (0.5, 0.5) and (-1, 1) becomes (0, 1): each loses what points against the other.
    surgery.pc_backward([shared @ torch.tensor([1.0, 0.0]), shared @ torch.tensor([-1.0, 1.0])])
    assert shared.grad.tolist() == pytest.approx(expected)
    surgery.step()
    assert shared.tolist() == pytest.approx([-value for value in expected])


def test_gradients_of_parameters_that_not_all_losses_have_are_added() -> None:
    shared, own = parameter([1.0]), parameter([1.0])
    surgery = PCGrad(torch.optim.SGD([shared, own], lr=1.0))
    surgery.pc_backward([shared.sum(), shared.sum() + 3 * own.sum()])
    assert [shared.grad.item(), own.grad.item()] == [1.0, 3.0]
    with pytest.raises(ValueError, match="reduction must be 'mean' or 'sum'"):
        PCGrad(surgery.optimizer, "max")


def test_small_names() -> None:
    assert torch_ge_131()
    assert torch_ge_180()
    assert get_num_params(nn.Linear(2, 3)) == 9
