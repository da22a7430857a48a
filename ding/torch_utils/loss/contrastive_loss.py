"""Contrastive losses between two views of the same samples."""

from collections.abc import Sequence

import torch
from torch import nn

from ding.torch_utils.network.nn_module import MLP
from ding.utils.errors import InvalidArgumentError

_HIDDEN = 128
_CONV_CHANNELS = (32, 64)
# What takes the place of a sample's own score among those of the others.
_OWN_SCORE = -10.0


def _encoder(size: int | Sequence[int], out_features: int) -> nn.Module:
    """Linear layers with ReLU for a vector of ``size``, convolutions for an image ``[C, H, W]``."""
    if isinstance(size, int) or len(size) == 1:
        features = size if isinstance(size, int) else size[0]
        return MLP(features, _HIDDEN, out_features, 3, activation=nn.ReLU())
    if len(size) != 3:
        raise InvalidArgumentError(f"expected a vector size or an image shape [C, H, W], got {size!r}")
    layers: list[nn.Module] = []
    channels = size[0]
    for out_channels in _CONV_CHANNELS:
        layers += [nn.Conv2d(channels, out_channels, kernel_size=3, stride=2, padding=1), nn.ReLU()]
        channels = out_channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, out_features))


class ContrastiveLoss(nn.Module):
    """InfoNCE between encodings of ``x`` and ``y`` (van den Oord et al. 2018, arXiv:1807.03748): which ``x`` of a batch
    belongs to a ``y``, by the products of their encodings.

    ``x_size`` / ``y_size``: a vector size or an image shape ``[C, H, W]``. ``heads`` gives how many encodings each side
    has; every x head is paired with every y head. Scores are scaled by ``1 / temperature``. Raises ``ValueError`` for a
    ``loss_type`` other than ``'infoNCE'``.
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
            raise InvalidArgumentError(f"heads must be two positive counts, got {heads!r}")
        if loss_type.lower() != "infonce":
            raise InvalidArgumentError(f"loss_type={loss_type!r} is unknown, expected 'infoNCE'")
        self.heads = tuple(heads)
        self.encode_shape = encode_shape
        self.temperature = temperature
        self.x_encoder = _encoder(x_size, self.heads[0] * encode_shape)
        self.y_encoder = _encoder(y_size, self.heads[1] * encode_shape)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """``x`` ``[B, *x_size]`` and ``y`` ``[B, *y_size]``, row i of both belonging together; a 0-d loss."""
        batch = x.shape[0]
        encoded_x = self.x_encoder(x).view(batch, self.heads[0], self.encode_shape)
        encoded_y = self.y_encoder(y).view(batch, self.heads[1], self.encode_shape)
        # The score of each y with each x, [B of y, heads of y, B of x, heads of x].
        scores = torch.einsum("cge,bhe->cgbh", encoded_y, encoded_x) / self.temperature
        own = torch.eye(batch, dtype=torch.bool, device=scores.device)[:, None, :, None]
        others = scores.masked_fill(own, _OWN_SCORE / self.temperature).flatten(2)
        # [B, heads of y, heads of x]
        matching = scores.diagonal(dim1=0, dim2=2).permute(2, 0, 1)
        total = torch.logaddexp(matching, others.logsumexp(-1, keepdim=True))
        return (total - matching).mean()
