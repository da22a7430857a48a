"""Contrastive losses between two views of the same samples."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

_HIDDEN = 64
_CONV_CHANNELS = (32, 64)


def _encoder(size: int | Sequence[int], out_features: int) -> nn.Module:
    """Linear layers for a vector of ``size``, convolutions for an image ``[C, H, W]``."""
    if isinstance(size, int) or len(size) == 1:
        features = size if isinstance(size, int) else size[0]
        return nn.Sequential(nn.Linear(features, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, out_features))
    if len(size) != 3:
        raise ValueError(f"expected a vector size or an image shape [C, H, W], got {size!r}")
    layers: list[nn.Module] = []
    channels = size[0]
    for out_channels in _CONV_CHANNELS:
        layers += [nn.Conv2d(channels, out_channels, kernel_size=3, stride=2, padding=1), nn.ReLU()]
        channels = out_channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, out_features))


class ContrastiveLoss(nn.Module):
    """InfoNCE between encodings of ``x`` and ``y`` (van den Oord et al. 2018, arXiv:1807.03748).

    ``x_size`` / ``y_size``: a vector size or an image shape ``[C, H, W]``. ``heads`` gives how many encodings each side
    has; every x head is paired with every y head. Scores are scaled by ``1 / temperature``. A perfect match tends to 0,
    independent views to ``log B``. Raises ``ValueError`` for a ``loss_type`` other than ``'infoNCE'``.
    """

    def __init__(
        self,
        x_size: int | Sequence[int],
        y_size: int | Sequence[int],
        heads: Sequence[int] = (1, 1),
        encode_shape: int = 64,
        loss_type: str = "infoNCE",
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        if len(heads) != 2 or min(heads) < 1:
            raise ValueError(f"heads must be two positive counts, got {heads!r}")
        if loss_type.lower() != "infonce":
            raise ValueError(f"loss_type={loss_type!r} is unknown, expected 'infoNCE'")
        self.heads = tuple(heads)
        self.encode_shape = encode_shape
        self.temperature = temperature
        self.x_encoder = _encoder(x_size, self.heads[0] * encode_shape)
        self.y_encoder = _encoder(y_size, self.heads[1] * encode_shape)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """``x`` ``[B, *x_size]`` and ``y`` ``[B, *y_size]``, row i of both belonging together; a 0-d loss."""
        batch = x.shape[0]
        encoded_x = F.normalize(self.x_encoder(x).view(batch, self.heads[0], self.encode_shape), dim=-1)
        encoded_y = F.normalize(self.y_encoder(y).view(batch, self.heads[1], self.encode_shape), dim=-1)
        # [Hx, Hy, B, B]: every x against every y of the batch, for every pair of heads.
        scores = torch.einsum("bhd,cgd->hgbc", encoded_x, encoded_y) / self.temperature
        return -torch.diagonal(F.log_softmax(scores, dim=-1), dim1=-2, dim2=-1).mean()
