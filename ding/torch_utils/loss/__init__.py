"""Losses for supervised and contrastive training."""

from ding.torch_utils.loss.contrastive_loss import ContrastiveLoss
from ding.torch_utils.loss.cross_entropy_loss import LabelSmoothCELoss, SoftFocalLoss, build_ce_criterion
from ding.torch_utils.loss.multi_logits_loss import MultiLogitsLoss

__all__ = ["ContrastiveLoss", "LabelSmoothCELoss", "MultiLogitsLoss", "SoftFocalLoss", "build_ce_criterion"]
