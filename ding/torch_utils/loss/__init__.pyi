from ding.torch_utils.loss.contrastive_loss import ContrastiveLoss as ContrastiveLoss
from ding.torch_utils.loss.cross_entropy_loss import LabelSmoothCELoss as LabelSmoothCELoss
from ding.torch_utils.loss.cross_entropy_loss import SoftFocalLoss as SoftFocalLoss
from ding.torch_utils.loss.cross_entropy_loss import build_ce_criterion as build_ce_criterion
from ding.torch_utils.loss.multi_logits_loss import MultiLogitsLoss as MultiLogitsLoss
