"""Variants of the cross entropy of logits ``[B, N]`` with labels ``[B]``."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ding.utils.errors import InvalidArgumentError
from ding.utils.names import did_you_mean


class LabelSmoothCELoss(nn.Module):
    """Cross entropy with smoothed labels (Szegedy et al. 2016, arXiv:1512.00567).

    Each of the other ``N - 1`` classes has the mass ``ratio / (N - 1)`` and the true one ``1 - ratio / (N - 1)``, as in
    DI-engine: for more than two classes they sum to more than 1. Mean over the batch.
    """

    def __init__(self, ratio: float) -> None:
        super().__init__()
        if not 0 <= ratio < 1:
            raise InvalidArgumentError(f"ratio must lie in [0, 1), got {ratio}")
        self.ratio = ratio

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """``logits`` float ``[B, N]``, ``labels`` int64 ``[B]``; a 0-d loss."""
        classes = logits.shape[1]
        if classes < 2:
            raise InvalidArgumentError(f"label smoothing needs at least 2 classes, got shape {tuple(logits.shape)}")
        share = self.ratio / (classes - 1)
        target = torch.full_like(logits, share)
        target.scatter_(1, labels.unsqueeze(1), 1 - share)
        return -(target * F.log_softmax(logits, dim=1)).sum(1).mean()


class SoftFocalLoss(nn.Module):
    """Focal loss (Lin et al. 2017, arXiv:1708.02002): cross entropy weighted with ``(1 - p) ** gamma`` per class.

    ``weight``: class weights ``[N]``. ``size_average`` chooses mean or sum over the batch;
    ``reduce=False`` gives ``[B]``.
    """

    weight: torch.Tensor | None

    def __init__(
        self,
        gamma: float = 2,
        weight: torch.Tensor | None = None,
        size_average: bool = True,
        reduce: bool | None = None,
    ) -> None:
        super().__init__()
        self.gamma = gamma
        self.register_buffer("weight", None if weight is None else torch.as_tensor(weight, dtype=torch.float32))
        self.reduction = "none" if reduce is False else ("mean" if size_average else "sum")

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """``inputs`` float logits ``[B, N]``, ``targets`` int64 ``[B]``."""
        log_p = F.log_softmax(inputs, dim=1)
        return F.nll_loss((1 - log_p.exp()) ** self.gamma * log_p, targets, self.weight, reduction=self.reduction)


_KINDS = ("cross_entropy", "label_smooth_ce", "soft_focal_loss")


def build_ce_criterion(cfg: Mapping[str, Any]) -> nn.Module:
    """Return the criterion named by ``cfg['type']``: ``cross_entropy``, ``label_smooth_ce`` (needs
    ``cfg['kwargs']['smooth_ratio']``) or ``soft_focal_loss``. Raises ``ValueError`` for another type.
    """
    kind = cfg["type"]
    if kind == "cross_entropy":
        return nn.CrossEntropyLoss()
    if kind == "label_smooth_ce":
        return LabelSmoothCELoss(cfg["kwargs"]["smooth_ratio"])
    if kind == "soft_focal_loss":
        return SoftFocalLoss()
    raise InvalidArgumentError(f"type={kind!r} is unknown.{did_you_mean(kind, _KINDS)}")
