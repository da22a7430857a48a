"""Normalisation layers by name, and the one of images in Dreamer."""

import torch
from torch import nn

from ding.utils.errors import UnknownNormError

# Of the layer norms of Dreamer; those of DenseHead have the default of torch, as in DI-engine.
LAYER_NORM_EPS = 1e-3

_CLASSES: dict[str, type[nn.Module]] = {
    "BN1": nn.BatchNorm1d,
    "BN2": nn.BatchNorm2d,
    "LN": nn.LayerNorm,
    "IN1": nn.InstanceNorm1d,
    "IN2": nn.InstanceNorm2d,
    "SyncBN": nn.SyncBatchNorm,
}


def build_normalization(norm_type: str, dim: int | None = None) -> type[nn.Module]:
    """The class of the normalisation ``norm_type``: ``BN`` or ``IN`` (with ``dim`` 1 or 2), ``LN``, ``SyncBN``.

    Raises:
        KeyError: ``BN`` or ``IN`` without ``dim`` or with another one, or an unknown name without ``dim``.
        UnknownNormError: an unknown name with ``dim``.
    """
    if dim is not None and norm_type not in ("BN", "IN", "LN", "SyncBN"):
        raise UnknownNormError(f"unknown normalisation {norm_type!r}, known are BN, IN, LN, SyncBN")
    key = f"{norm_type}{dim}" if dim is not None and norm_type in ("BN", "IN") else norm_type
    if key not in _CLASSES:
        raise KeyError(
            f"no normalisation for norm_type={norm_type!r}, dim={dim}; known are BN and IN with dim 1 or 2, LN, SyncBN"
        )
    return _CLASSES[key]


class DreamerLayerNorm(nn.Module):
    """Layer norm over the channels of ``[B, C, H, W]``, at each pixel by itself. State: ``norm``."""

    def __init__(self, ch: int, eps: float = LAYER_NORM_EPS) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(ch, eps=eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[B, C, H, W]`` in and out."""
        output: torch.Tensor = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return output
