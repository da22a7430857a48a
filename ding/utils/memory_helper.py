"""Memory use of a model, its gradients, its optimiser and its activations."""

import logging
import os

import torch
from torch import nn

from ding.utils.nested import iter_nested

log = logging.getLogger(__name__)
_MIB = 1024 * 1024


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _tensors(value: object) -> list[torch.Tensor]:
    return [leaf for leaf in iter_nested(value) if isinstance(leaf, torch.Tensor)]


class SimpleMemoryProfiler:
    """Write ``memory.log``: bytes per parameter, and the totals by kind after each step.

    Activations are the outputs of the leaf modules in forward passes since the previous step; other tensors kept by
    autograd are not counted. Call ``step`` after ``optimizer.step()`` and before ``zero_grad``.

    Args:
        model: Model to measure.
        optimizer: Its optimiser.
        log_folder: Folder of the log, created if missing.
        total_steps: Number of steps after which the hooks are removed and ``step`` has no effect.
    """

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, log_folder: str, total_steps: int = 5
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._remaining = total_steps
        self._activation_bytes = 0
        os.makedirs(log_folder, exist_ok=True)
        self.log_path = os.path.join(log_folder, "memory.log")
        self._hooks = [
            module.register_forward_hook(self._count_output)
            for module in model.modules()
            if next(module.children(), None) is None
        ]
        lines = [f"{_bytes(p) / _MIB:10.3f} MiB  {name} {tuple(p.shape)}" for name, p in model.named_parameters()]
        self._append(["parameters:", *lines])

    def _count_output(self, module: nn.Module, inputs: object, output: object) -> None:
        self._activation_bytes += sum(map(_bytes, _tensors(output)))

    def totals(self) -> dict[str, int]:
        """Return the current bytes of ``parameter``, ``gradient``, ``optimizer`` and ``activation``."""
        parameters = list(self._model.parameters())
        return {
            "parameter": sum(map(_bytes, parameters)),
            "gradient": sum(_bytes(p.grad) for p in parameters if p.grad is not None),
            "optimizer": sum(_bytes(t) for state in self._optimizer.state.values() for t in _tensors(state)),
            "activation": self._activation_bytes,
        }

    def step(self) -> None:
        """Write the totals of this step."""
        if self._remaining <= 0:
            return
        self._remaining -= 1
        self._append(["step:", *(f"{size / _MIB:10.3f} MiB  {kind}" for kind, size in self.totals().items())])
        self._activation_bytes = 0
        if self._remaining == 0:
            for hook in self._hooks:
                hook.remove()
            log.info("the memory profile is complete: %s", self.log_path)

    def _append(self, lines: list[str]) -> None:
        with open(self.log_path, "a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
