"""Activations by name."""

from collections.abc import Callable

import torch
from torch import nn

from ding.utils.errors import InvalidArgumentError
from ding.utils.names import check_choice


class GLU(nn.Module):
    """Gated linear unit: ``layer2(sigmoid(layer1(context)) * x)`` (arXiv:1612.08083).

    Arguments:
        input_dim: features of ``x``, the gated input.
        output_dim: features of the result.
        context_dim: features of ``context``, which makes the gate.
        input_type: ``fc`` for vectors ``[..., features]``, ``conv2d`` for images ``[B, features, H, W]``.
    """

    def __init__(self, input_dim: int, output_dim: int, context_dim: int, input_type: str = "fc") -> None:
        super().__init__()
        if input_type == "fc":
            self.layer1: nn.Module = nn.Linear(context_dim, input_dim)
            self.layer2: nn.Module = nn.Linear(input_dim, output_dim)
        elif input_type == "conv2d":
            self.layer1 = nn.Conv2d(context_dim, input_dim, 1)
            self.layer2 = nn.Conv2d(input_dim, output_dim, 1)
        else:
            raise InvalidArgumentError(f"input_type must be 'fc' or 'conv2d', got {input_type!r}")

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Gate ``x`` by ``context`` and project it."""
        output: torch.Tensor = self.layer2(torch.sigmoid(self.layer1(context)) * x)
        return output


class Swish(nn.Module):
    """``x * sigmoid(x)`` (arXiv:1710.05941)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape in, the same shape out."""
        return x * torch.sigmoid(x)


class GELU(nn.GELU):
    """Gaussian error linear unit in its tanh form (arXiv:1606.08415)."""

    def __init__(self) -> None:
        super().__init__(approximate="tanh")


class Lambda(nn.Module):
    """A function as a module."""

    def __init__(self, f: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.f = f

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``f(x)``."""
        return self.f(x)


class Square(nn.Module):
    """``x ** 2``."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape in, the same shape out."""
        return x * x


_MAKERS: dict[str, Callable[[], nn.Module] | type[nn.Module]] = {
    "relu": nn.ReLU,
    "prelu": nn.PReLU,
    "swish": Swish,
    "gelu": lambda: nn.GELU(approximate="tanh"),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "elu": nn.ELU,
    "silu": nn.SiLU,
    "square": Square,
    "identity": nn.Identity,
}


def build_activation(activation: str, inplace: bool | None = None) -> nn.Module | type[nn.Module]:
    """Build the activation called ``activation``.

    Returns:
        a module; for ``glu`` the class ``GLU``, which needs sizes.

    Raises:
        KeyError: no activation has that name.
        ValueError: ``inplace`` is given for anything but ``relu`` (whose default is False).
    """
    if inplace is not None and activation != "relu":
        raise InvalidArgumentError(f"inplace is an option of 'relu' only, not of {activation!r}")
    if activation == "relu":
        return nn.ReLU(inplace=bool(inplace))
    if activation == "glu":
        return GLU
    check_choice("activation", activation, [*_MAKERS, "glu"], KeyError)
    return _MAKERS[activation]()
