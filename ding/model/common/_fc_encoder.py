"""The encoder of vector observations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import nn

from ding.model.common._shapes import as_shape
from ding.torch_utils.network.nn_module import fc_block
from ding.torch_utils.network.normalization import build_normalization
from ding.torch_utils.network.res_block import ResFCBlock
from ding.torch_utils.network.run_layers import run_layers


class FCEncoder(nn.Module):
    """Linear layers, each followed by the activation (the last one too).

    State: ``init`` is the first linear layer, ``main`` the others: ``main.0``, ``main.2``, ... with activations
    between.

    Arguments:
        obs_shape: features of the observation.
        hidden_size_list: widths of the layers; all equal with ``res_block``.
        res_block: residual blocks, one per entry of ``hidden_size_list``, after the first layer.
        norm_type: normalisation before each activation, or None. (The original API applied it with ``res_block`` only.)
        dropout: probability of dropout after each layer of ``main``, or None.

    Raises:
        ValueError: empty or, with ``res_block``, unequal ``hidden_size_list``; ``obs_shape`` of several axes.
    """

    def __init__(
        self,
        obs_shape: int | Sequence[int],
        hidden_size_list: Sequence[int],
        res_block: bool = False,
        activation: nn.Module | None = nn.ReLU(),  # noqa: B008 - stateless, and part of the public signature
        norm_type: str | None = None,
        dropout: float | None = None,
    ) -> None:
        super().__init__()
        widths = list(hidden_size_list)
        size = as_shape(obs_shape, "obs_shape")
        if not isinstance(size, int):
            raise ValueError(f"FCEncoder takes vector observations, got obs_shape={obs_shape!r}")
        if not widths or (res_block and len(set(widths)) != 1):
            want = "equal widths" if res_block else "at least one width"
            raise ValueError(f"hidden_size_list must have {want}, got {hidden_size_list!r}")
        self.obs_shape = size
        self.act = nn.ReLU() if activation is None else activation
        self.init = nn.Linear(size, widths[0])
        no_norm = norm_type is None or res_block
        self.init_norm = None if no_norm else build_normalization(str(norm_type), dim=1)(widths[0])
        if res_block:
            blocks = [ResFCBlock(width, self.act, norm_type, dropout) for width in widths]
            self.main: nn.Module = blocks[0] if len(blocks) == 1 else nn.Sequential(*blocks)
        else:
            self.main = nn.Sequential(*self._main_layers(widths, norm_type, dropout))

    def _main_layers(self, widths: list[int], norm_type: str | None, dropout: float | None) -> list[nn.Module]:
        probability = 0.5 if dropout is None else dropout
        layers: list[nn.Module] = []
        for width_in, width_out in itertools.pairwise(widths):
            layers += fc_block(width_in, width_out, self.act, norm_type, dropout is not None, probability)
        return layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Observations float ``[..., obs_shape]`` to features ``[..., hidden_size_list[-1]]``."""
        first = (self.init, self.act) if self.init_norm is None else (self.init, self.init_norm, self.act)
        return run_layers((*first, self.main), x)
