"""Steps of an optimiser that are counted by the host and by tensors."""

import torch

from ding.torch_utils import Adam
from ding.torch_utils.graph.step_count import StepCount


def test_recorded_and_eager_steps_count_together():
    count = StepCount(2, 3.0, torch.device("cpu"))
    assert [count.next(), count.next()] == [4, 5]
    for view in count.counts:
        view += 1  # as an optimiser does in the states of its parameters
    assert [count.next(), count.next()] == [7, 8]
    assert count.counts.tolist() == [8, 8]


def test_an_optimiser_that_is_laid_out_goes_on_eagerly_and_counts_on():
    params = [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(3))]
    laid_out, plain = (Adam([p.detach().clone().requires_grad_() for p in params], lr=0.1) for _ in range(2))
    laid_out.lay_out()
    for optimizer in (laid_out, plain):
        for _ in range(3):
            for param in optimizer.param_groups[0]["params"]:
                param.grad = torch.ones_like(param)
            optimizer.step()
    left, right = (one.state_dict()["state"] for one in (laid_out, plain))
    assert all(torch.equal(left[index][name], value) for index, part in right.items() for name, value in part.items())
    assert laid_out.is_laid_out()
