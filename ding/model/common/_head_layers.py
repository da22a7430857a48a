"""Parts of heads: hidden and output layers (optionally noisy), multiple heads, distributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from ding.torch_utils.network.nn_module import MLP, NoiseLinearLayer, fc_block, noise_block


def layer_stack(
    input_size: int,
    hidden_size: int,
    output_size: int,
    layer_num: int,
    activation: nn.Module | None,
    norm_type: str | None,
    noise: bool,
    dropout: float | None = None,
) -> nn.Sequential:
    """``layer_num`` hidden layers (``0``) and a linear output layer (``1``).

    Arguments:
        noise: Whether to use ``NoiseLinearLayer`` for every linear layer.
        dropout: probability of dropout after each hidden layer, or None.
    """
    make_layer: Callable[[int, int], nn.Module] = NoiseLinearLayer if noise else nn.Linear
    hidden = MLP(
        input_size,
        hidden_size,
        hidden_size,
        layer_num,
        layer_fn=make_layer,
        activation=activation,
        norm_type=norm_type,
        use_dropout=dropout is not None,
        dropout_probability=0.5 if dropout is None else dropout,
    )
    output = noise_block(hidden_size, output_size) if noise else fc_block(hidden_size, output_size)
    return nn.Sequential(hidden, output)


def first_given(value: int | None, default: int) -> int:
    """``value`` unless it is None."""
    return default if value is None else value


class MultiHead(nn.Module):
    """One head per entry of ``output_size_list``, for multi-discrete actions.

    State: ``pred.i`` per head.

    Arguments:
        head_cls: Creates a head from ``(hidden_size, output_size, **head_kwargs)``.
    """

    def __init__(
        self, head_cls: Callable[..., nn.Module], hidden_size: int, output_size_list: Sequence[int], **head_kwargs: Any
    ) -> None:
        super().__init__()
        self.pred = nn.ModuleList(head_cls(hidden_size, size, **head_kwargs) for size in output_size_list)

    def forward(self, x: torch.Tensor) -> dict[str, list[torch.Tensor]]:
        """Map features ``[B, hidden_size]`` to the outputs of the heads: per key a list of one tensor per head."""
        outputs = [head(x) for head in self.pred]
        return {key: [output[key] for output in outputs] for key in outputs[0]}


def independent_normal_dist(
    logits: Sequence[torch.Tensor] | dict[str, torch.Tensor],
) -> torch.distributions.Distribution:
    """Return the normal distribution over the last axis of ``[mu, sigma]`` or ``{'mu', 'sigma'}``."""
    mu, sigma = (logits["mu"], logits["sigma"]) if isinstance(logits, dict) else logits
    return torch.distributions.Independent(torch.distributions.Normal(mu, sigma), 1)
