"""Normalisation layers by name, those of Dreamer and TD-MPC2, and those of off-policy critics."""

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
    """Return the class of the normalisation ``norm_type``: ``BN`` or ``IN`` (with ``dim`` 1 or 2), ``LN``, ``SyncBN``.

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


class BatchRenorm(nn.Module):
    """Batch renormalisation (Ioffe 2017, arXiv:1702.03275) of each channel.

    In training mode ``y = (x - m) / s * r + d`` with mean ``m`` and deviation ``s`` of the batch, then weight and bias.
    ``r = s / S`` and ``d = (m - M) / S`` with the running ``M`` and ``S`` bring a batch to the running statistics; no
    gradient reaches them, and they are 1 and 0 in the first ``warmup_steps`` batches. Then the running statistics move
    by the share ``momentum``. In evaluation mode ``y = (x - M) / S``.

    State: ``weight``, ``bias``, ``running_mean``, ``running_var`` ``[num_features]``, ``num_batches_tracked``.

    Arguments:
        num_features: number of channels.
        momentum: share of a batch in the running statistics, typically 0.01; larger values follow faster changes.
        warmup_steps: batches that are normalised by their own statistics alone.
        eps: what is added to variances.
        r_max, d_max: limits of ``r`` (``1 / r_max`` to ``r_max``) and of the size of ``d``.
    """

    running_mean: torch.Tensor
    running_var: torch.Tensor
    num_batches_tracked: torch.Tensor

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.01,
        warmup_steps: int = 100_000,
        eps: float = 1e-3,
        r_max: float = 3.0,
        d_max: float = 5.0,
    ) -> None:
        super().__init__()
        self.momentum, self.warmup_steps, self.eps = momentum, warmup_steps, eps
        self.r_max, self.d_max = r_max, d_max
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[B, C]`` or ``[B, C, 1]`` in and out."""
        rows = x.flatten(1)
        running_std = (self.running_var + self.eps).sqrt()
        if self.training:
            var, mean = torch.var_mean(rows, 0, correction=0)
            std = (var + self.eps).sqrt()
            with torch.no_grad():
                is_warm = self.num_batches_tracked >= self.warmup_steps
                r = torch.where(is_warm, (std / running_std).clamp(1 / self.r_max, self.r_max), 1.0)
                d = torch.where(is_warm, ((mean - self.running_mean) / running_std).clamp(-self.d_max, self.d_max), 0.0)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
                self.num_batches_tracked += 1
            scale = self.weight * r / std
            shift = self.bias + self.weight * d - mean * scale
        else:
            scale = self.weight / running_std
            shift = self.bias - self.running_mean * scale
        return (rows * scale + shift).view(x.shape)


class RunningNorm(nn.Module):
    """Each feature less its running mean, over its running deviation (SimBa, arXiv:2410.09754). In training mode
    :meth:`update` adds a batch to the statistics, in which all rows that were ever seen count the same.

    State: ``mean``, ``var`` ``[num_features]``, ``count``.

    Arguments:
        num_features: number of features.
        eps: what is added to the variance.
    """

    mean: torch.Tensor
    var: torch.Tensor
    count: torch.Tensor

    def __init__(self, num_features: int, eps: float = 1e-8) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("mean", torch.zeros(num_features))
        self.register_buffer("var", torch.ones(num_features))
        self.register_buffer("count", torch.zeros(()))

    @torch.no_grad()
    def update(self, x: torch.Tensor) -> None:
        """Take in a batch ``[B, num_features]``; nothing in evaluation mode."""
        if not self.training:
            return
        var, mean = torch.var_mean(x, 0, correction=0)
        share = x.shape[0] / (self.count + x.shape[0])
        change = mean - self.mean
        self.var.copy_((1 - share) * self.var + share * var + share * (1 - share) * change.square())
        self.mean.add_(share * change)
        # Beyond 2^32 rows a float32 stops growing, and the small share of a batch stays as it is.
        self.count.add_(x.shape[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[..., num_features]`` in and out."""
        return (x - self.mean) * (self.var + self.eps).rsqrt()


class SimNorm(nn.Module):
    """Simplicial normalisation (Lavoie et al. 2022, arXiv:2204.00616): softmax over groups of neighbouring features, so
    that each group is a point of a simplex.

    Arguments:
        group_size: features of a group, typically 8; it divides the number of features.
    """

    def __init__(self, group_size: int) -> None:
        super().__init__()
        self.group_size = group_size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[..., features]`` in and out."""
        output: torch.Tensor = x.unflatten(-1, (-1, self.group_size)).softmax(-1).flatten(-2)
        return output

    def extra_repr(self) -> str:
        return f"group_size={self.group_size}"


class Dropout(nn.Module):
    """Dropout in training mode, by a mask that is drawn as any random tensor of an update (on a GPU, too, where the one
    of torch is drawn in a kernel that a compiled update cannot hold).

    Arguments:
        p: probability that an entry becomes 0; the others are divided by ``1 - p``.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout must lie in [0, 1), got {p!r}")
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape in and out."""
        if not self.training or self.p == 0:
            return x
        kept = torch.empty(x.shape, dtype=x.dtype, device=x.device).bernoulli_(1 - self.p)
        return x * kept / (1 - self.p)
