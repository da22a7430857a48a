"""Tensors, optimizers, losses and networks."""

from ding.torch_utils.checkpoint_helper import CheckpointHelper, CountVar, auto_checkpoint, build_checkpoint_helper
from ding.torch_utils.data_helper import (
    CudaFetcher,
    build_log_buffer,
    get_null_data,
    get_tensor_data,
    same_shape,
    squeeze,
    tensor_to_list,
    to_device,
    to_dtype,
    to_item,
    to_list,
    to_ndarray,
    to_tensor,
    unsqueeze,
    zeros_like,
)
from ding.torch_utils.dataparallel import DataParallel
from ding.torch_utils.distribution import CategoricalPd, CategoricalPdPytorch, Pd
from ding.torch_utils.loss import (
    ContrastiveLoss,
    LabelSmoothCELoss,
    MultiLogitsLoss,
    SoftFocalLoss,
    build_ce_criterion,
)
from ding.torch_utils.lr_scheduler import cos_lr_scheduler
from ding.torch_utils.math_helper import cov
from ding.torch_utils.metric import hamming_distance, levenshtein_distance
from ding.torch_utils.network import *  # noqa: F403 - the package defines its own __all__
from ding.torch_utils.network import __all__ as _network_names
from ding.torch_utils.nn_test_helper import is_differentiable
from ding.torch_utils.optimizer_helper import (
    Adam,
    RMSprop,
    calculate_grad_norm,
    calculate_grad_norm_without_bias_two_norm,
)
from ding.torch_utils.parameter import NonegativeParameter, TanhParameter
from ding.torch_utils.reshape_helper import fold_batch, unfold_batch, unsqueeze_repeat
from ding.torch_utils.threads import apply_fitted_num_threads, fit_num_threads

__all__ = [
    "Adam",
    "CategoricalPd",
    "CategoricalPdPytorch",
    "CheckpointHelper",
    "ContrastiveLoss",
    "CountVar",
    "CudaFetcher",
    "DataParallel",
    "LabelSmoothCELoss",
    "MultiLogitsLoss",
    "NonegativeParameter",
    "Pd",
    "RMSprop",
    "SoftFocalLoss",
    "TanhParameter",
    "apply_fitted_num_threads",
    "auto_checkpoint",
    "build_ce_criterion",
    "build_checkpoint_helper",
    "build_log_buffer",
    "calculate_grad_norm",
    "calculate_grad_norm_without_bias_two_norm",
    "cos_lr_scheduler",
    "cov",
    "fit_num_threads",
    "fold_batch",
    "get_null_data",
    "get_tensor_data",
    "hamming_distance",
    "is_differentiable",
    "levenshtein_distance",
    "same_shape",
    "squeeze",
    "tensor_to_list",
    "to_device",
    "to_dtype",
    "to_item",
    "to_list",
    "to_ndarray",
    "to_tensor",
    "unfold_batch",
    "unsqueeze",
    "unsqueeze_repeat",
    "zeros_like",
]
__all__ += _network_names
