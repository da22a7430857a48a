"""What heads are made of: hidden layers and an output layer, noisy or not."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from ding.torch_utils.network.nn_module import MLP, NoiseLinearLayer, fc_block, noise_block


def stack(
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
        noise: use ``NoiseLinearLayer`` for every linear layer.
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
