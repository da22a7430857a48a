"""Functions that become CUDA graphs, with another capture in the place of torch's, which needs a GPU."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from ding.torch_utils.graph.capture import CapturedFunction


class Captures:
    """Captures as torch does on a GPU: a function runs on copies first, and its replays see the same addresses."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, function: Any, inputs: Sequence[torch.Tensor]) -> tuple[Any, torch.Tensor]:
        self.count += 1
        output = function(*(tensor.clone() for tensor in inputs))
        return lambda: output.copy_(function(*inputs)), output


@pytest.fixture
def captures(monkeypatch):
    counter = Captures()
    monkeypatch.setattr("ding.torch_utils.graph.capture.capture", counter)
    return counter


def add(total: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    return total.add_(number) * 2


def test_each_run_takes_its_own_inputs_and_changes_what_is_fixed_in_its_place(captures):
    total, function = torch.zeros(2), CapturedFunction(add, num_fixed=1)
    found = [function(total, torch.tensor([float(value), 1.0])).tolist() for value in (1, 2, 4)]
    assert found == [[2, 2], [6, 4], [14, 6]]
    assert total.tolist() == [7, 3]
    assert captures.count == 1


def test_to_capture_changes_nothing(captures):
    total, function = torch.zeros(2), CapturedFunction(add, num_fixed=1)
    function.capture([total, torch.ones(2)])
    assert total.tolist() == [0, 0]
    assert function(total, torch.full((2,), 3.0)).tolist() == [6, 6]
    assert captures.count == 1


def test_what_has_moved_is_captured_anew(captures):
    first, second, function = torch.zeros(2), torch.full((2,), 10.0), CapturedFunction(add, num_fixed=1)
    number = torch.ones(2)
    assert [function(total, number).tolist() for total in (first, second, second)] == [[2, 2], [22, 22], [24, 24]]
    assert captures.count == 2
    assert (first.tolist(), second.tolist()) == ([1, 1], [12, 12])


def test_inputs_of_other_strides_are_copied(captures):
    total, function = torch.zeros(2, 3), CapturedFunction(add, num_fixed=1)
    for _ in range(2):
        function(total, torch.arange(6.0).view(3, 2).T)
    assert total.tolist() == [[0, 4, 8], [2, 6, 10]]
