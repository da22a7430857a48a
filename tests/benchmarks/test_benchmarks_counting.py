"""Optimiser steps are counted without a hook in their way."""

import sys
from pathlib import Path

import pytest
import torch
from torch.optim import Optimizer

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "sidekit"))

from bench_side import count_optimizer_steps


def train(optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        for param in optimizer.param_groups[0]["params"]:
            param.grad = torch.ones_like(param)
        optimizer.step()


def adam() -> torch.optim.Adam:
    return torch.optim.Adam([torch.nn.Parameter(torch.zeros(2)) for _ in range(3)])


def test_steps_from_now_on_of_optimizers_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Optimizer, "__init__", Optimizer.__init__)
    early = adam()
    train(early, 4)
    steps = count_optimizer_steps()
    assert steps() == 0
    train(early, 2)
    late = adam()
    train(late, 3)
    assert steps() == 5
    del late
    assert steps() == 5
