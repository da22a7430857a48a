"""The encoder of dict observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common._conv_encoder import ConvEncoder
from ding.model.common._fc_encoder import FCEncoder
from ding.model.common._shapes import as_shape


class DictEncoder(nn.Module):
    """Encode named observations: images by a ``ConvEncoder`` each, then all of them together by one ``FCEncoder``.

    The names are taken in sorted order. State: ``convs.<name>`` per image, ``fc``.

    Arguments:
        obs_shape: shape per name: an int or ``(n,)`` for a vector, ``(C, H, W)`` for an image.
        hidden_size_list: of the ``FCEncoder``; its last entry is the number of features.
        conv_hidden_size_list: of each ``ConvEncoder``.
    """

    def __init__(
        self,
        obs_shape: Mapping[str, Any],
        hidden_size_list: Sequence[int],
        activation: nn.Module | None = nn.ReLU(),  # noqa: B008 - stateless, and part of the public signature
        norm_type: str | None = None,
        dropout: float | None = None,
        conv_hidden_size_list: Sequence[int] = (32, 64, 64, 128),
    ) -> None:
        super().__init__()
        if not obs_shape:
            raise ValueError("a dict obs_shape must name at least one observation")
        self.names = sorted(obs_shape)
        self.convs = nn.ModuleDict()
        total = 0
        for name in self.names:
            shape = as_shape(obs_shape[name], f"obs_shape[{name!r}]")
            if isinstance(shape, int):
                total += shape
            elif len(shape) == 3:
                self.convs[name] = ConvEncoder(shape, conv_hidden_size_list, activation)
                total += conv_hidden_size_list[-1]
            else:
                raise ValueError(f"obs_shape[{name!r}] must have one or three axes, got {shape}")
        self.fc = FCEncoder(total, hidden_size_list, activation=activation, norm_type=norm_type, dropout=dropout)

    def forward(self, x: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """``{name: [B, *shape of name]}`` to features ``[B, hidden_size_list[-1]]``; other names are ignored."""
        missing = [name for name in self.names if name not in x]
        if missing:
            raise KeyError(f"the observation misses {missing}, got {sorted(x)}")
        parts = [self._encode(name, x[name]) for name in self.names]
        return self.fc(torch.cat(parts, dim=-1))

    def _encode(self, name: str, x: torch.Tensor) -> torch.Tensor:
        if name in self.convs:
            return self.convs[name](x.to(self.fc.init.weight.dtype))
        x = x.unsqueeze(-1) if x.dim() == 1 else x
        return x.to(self.fc.init.weight.dtype)  # a Discrete component comes as integers
