"""Torch optimizers without the import of torch's compiler.

torch wraps most methods of its optimizers so that ``torch.compile`` leaves them alone, and the wrappers import the
compiler at their first call: nearly a second, at the start of every run, for something that a run without
``torch.compile`` never uses. Here the methods inside of the wrappers are called, which do the work.
"""

import inspect
import sys
from typing import Any

import torch
from torch.optim import Optimizer

_add_param_group = inspect.unwrap(Optimizer.add_param_group)
_state_dict = inspect.unwrap(Optimizer.state_dict)
_load_state_dict = inspect.unwrap(Optimizer.load_state_dict)


def compiler_is_loaded() -> bool:
    """Whether somebody uses the compiler; then its wrappers cost nothing and may be needed."""
    return "torch._dynamo" in sys.modules


class WithoutCompiler:
    """Mix in before a class of ``torch.optim``. Names, arguments and results are those of torch."""

    def add_param_group(self: Any, param_group: dict[str, Any]) -> None:
        """See ``torch.optim.Optimizer``."""
        if compiler_is_loaded():
            super().add_param_group(param_group)  # type: ignore[misc]
        else:
            _add_param_group(self, param_group)

    def state_dict(self: Any) -> dict[str, Any]:
        """See ``torch.optim.Optimizer``."""
        return super().state_dict() if compiler_is_loaded() else _state_dict(self)  # type: ignore[misc]

    def load_state_dict(self: Any, state_dict: dict[str, Any]) -> None:
        """See ``torch.optim.Optimizer``."""
        if compiler_is_loaded():
            super().load_state_dict(state_dict)  # type: ignore[misc]
        else:
            _load_state_dict(self, state_dict)


def torch_step(optimizer: Optimizer, torch_class: type[Optimizer]) -> None:
    """The bare step of ``torch_class`` on ``optimizer``: the hooks of steps are run by the caller's own ``step``."""
    with torch.no_grad():
        inspect.unwrap(torch_class.step)(optimizer)
