"""Checks for tests of networks and losses."""

import logging
from collections.abc import Sequence

import torch
from torch import nn

logger = logging.getLogger(__name__)


def is_differentiable(loss: torch.Tensor, model: nn.Module | Sequence[nn.Module], print_instead: bool = False) -> None:
    """Backpropagate ``loss`` and check that every parameter of ``model`` receives a gradient, having had none before.

    Raises ``AssertionError`` naming the first parameter that fails; with ``print_instead`` all of them are logged.
    """
    if not isinstance(loss, torch.Tensor):
        raise TypeError(f"loss must be a tensor, got {type(loss).__name__}")
    modules = [model] if isinstance(model, nn.Module) else list(model)
    named = [(f"{index}.{name}", p) for index, module in enumerate(modules) for name, p in module.named_parameters()]
    for name, param in named:
        if param.grad is not None:
            raise AssertionError(f"parameter {name} has a gradient before backward")
    loss.backward()
    for name, param in named:
        if param.grad is None:
            if not print_instead:
                raise AssertionError(f"parameter {name} receives no gradient")
            logger.warning("parameter %s receives no gradient", name)
