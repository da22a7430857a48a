"""Put entity vectors at their place on a map."""

import torch
from torch import nn

from ding.utils.errors import InvalidArgumentError


class ScatterConnection(nn.Module):
    """Scatter entity embeddings onto an empty map.

    Arguments:
        scatter_type: what happens to entities at one place: ``add`` sums them, ``cover`` keeps one of them.
    """

    def __init__(self, scatter_type: str) -> None:
        super().__init__()
        if scatter_type not in ("add", "cover"):
            raise InvalidArgumentError(f"scatter_type must be 'add' or 'cover', got {scatter_type!r}")
        self.scatter_type = scatter_type

    def forward(self, x: torch.Tensor, spatial_size: tuple[int, int], location: torch.Tensor) -> torch.Tensor:
        """Scatter ``x``.

        Arguments:
            x: float ``[B, M, N]``: M entities of N features.
            spatial_size: height and width of the map.
            location: int64 ``[B, M, 2]``: row and column per entity, inside the map.

        Returns:
            ``[B, N, H, W]`` of the dtype of ``x``.
        """
        return self._scatter(x, spatial_size, location[..., 0], location[..., 1])

    def xy_forward(
        self, x: torch.Tensor, spatial_size: tuple[int, int], coord_x: torch.Tensor, coord_y: torch.Tensor
    ) -> torch.Tensor:
        """``forward`` with rows ``coord_x`` and columns ``coord_y``, each int64 ``[B, M]``."""
        return self._scatter(x, spatial_size, coord_x, coord_y)

    def _scatter(
        self, x: torch.Tensor, spatial_size: tuple[int, int], rows: torch.Tensor, columns: torch.Tensor
    ) -> torch.Tensor:
        batch, _, features = x.shape
        height, width = spatial_size
        index = (rows * width + columns).long().unsqueeze(1).expand(batch, features, -1)
        flat = x.new_zeros(batch, features, height * width)
        source = x.transpose(1, 2)
        if self.scatter_type == "add":
            flat = flat.scatter_add(2, index, source)
        else:
            flat = flat.scatter(2, index, source)
        return flat.reshape(batch, features, height, width)
