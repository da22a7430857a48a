"""Parameters: learnable values that stay inside a range (their unconstrained form is learned), groups, counts."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

_WITHOUT_DECAY = (nn.LayerNorm, nn.Embedding)


class _Constrained(nn.Module):
    """Calling the module gives the value; a subclass says how it comes from the parameter, and back."""

    def _inverse(self, data: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    @property
    def data(self) -> torch.Tensor:
        """The present value, with a graph to the parameter."""
        output: torch.Tensor = self()
        return output

    def set_data(self, data: torch.Tensor) -> None:
        """Replace the value; the parameter object stays (and an optimizer's reference to it), its shape may change."""
        parameter = next(self.parameters())
        parameter.data = self._inverse(data).to(parameter.device)


class NonegativeParameter(_Constrained):
    """A value of at least ``delta``, stored as ``log_data``; calling the module gives ``exp(log_data)``.

    ``data`` (default: zero, shape ``(1,)``) is the first value; values below ``delta`` become ``delta``.
    """

    def __init__(self, data: torch.Tensor | None = None, requires_grad: bool = True, delta: float = 1e-8) -> None:
        super().__init__()
        self.delta = delta
        self.log_data = nn.Parameter(self._inverse(torch.zeros(1) if data is None else data), requires_grad)

    def _inverse(self, data: torch.Tensor) -> torch.Tensor:
        return torch.log(torch.clamp(torch.as_tensor(data, dtype=torch.float32), min=self.delta))

    def forward(self) -> torch.Tensor:
        return torch.exp(self.log_data)


class TanhParameter(_Constrained):
    """A value in (-1, 1), stored as ``data_inv``; calling the module gives ``tanh(data_inv)``.

    ``data`` (default: zero, shape ``(1,)``) is the first value. Raises ``ValueError`` for values outside the open
    interval.
    """

    def __init__(self, data: torch.Tensor | None = None, requires_grad: bool = True) -> None:
        super().__init__()
        self.data_inv = nn.Parameter(self._inverse(torch.zeros(1) if data is None else data), requires_grad)

    def _inverse(self, data: torch.Tensor) -> torch.Tensor:
        data = torch.as_tensor(data, dtype=torch.float32)
        if not bool((data.abs() < 1).all()):
            raise ValueError("TanhParameter holds values in (-1, 1)")
        return torch.atanh(data)

    def forward(self) -> torch.Tensor:
        return torch.tanh(self.data_inv)


def get_num_params(model: nn.Module) -> int:
    """How many numbers the parameters of a network have together."""
    return sum(parameter.numel() for parameter in model.parameters())


def configure_weight_decay(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two parameter groups: what decays, and what does not (biases, and all of ``LayerNorm`` and ``Embedding``)."""
    kept: set[int] = set()
    for module in model.modules():
        own = dict(module.named_parameters(recurse=False))
        kept |= {
            id(value) for name, value in own.items() if isinstance(module, _WITHOUT_DECAY) or name.endswith("bias")
        }
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for parameter in model.parameters():
        groups[id(parameter) not in kept].append(parameter)
    return [
        {"params": groups[True], "weight_decay": weight_decay},
        {"params": groups[False], "weight_decay": 0.0},
    ]


@contextlib.contextmanager
def frozen(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """No gradients to these parameters from what is computed inside, such as to the critics from an actor's loss."""
    kept = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in kept:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in kept:
            parameter.requires_grad_(True)
