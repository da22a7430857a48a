from ding.torch_utils.checkpoint_helper import CheckpointHelper as CheckpointHelper
from ding.torch_utils.checkpoint_helper import CountVar as CountVar
from ding.torch_utils.checkpoint_helper import auto_checkpoint as auto_checkpoint
from ding.torch_utils.checkpoint_helper import build_checkpoint_helper as build_checkpoint_helper
from ding.torch_utils.data_helper import CudaFetcher as CudaFetcher
from ding.torch_utils.data_helper import build_log_buffer as build_log_buffer
from ding.torch_utils.data_helper import get_null_data as get_null_data
from ding.torch_utils.data_helper import get_shape0 as get_shape0
from ding.torch_utils.data_helper import get_tensor_data as get_tensor_data
from ding.torch_utils.data_helper import network_input as network_input
from ding.torch_utils.data_helper import network_tensor as network_tensor
from ding.torch_utils.data_helper import same_shape as same_shape
from ding.torch_utils.data_helper import squeeze as squeeze
from ding.torch_utils.data_helper import tensor_to_list as tensor_to_list
from ding.torch_utils.data_helper import to_device as to_device
from ding.torch_utils.data_helper import to_dtype as to_dtype
from ding.torch_utils.data_helper import to_item as to_item
from ding.torch_utils.data_helper import to_list as to_list
from ding.torch_utils.data_helper import to_ndarray as to_ndarray
from ding.torch_utils.data_helper import to_tensor as to_tensor
from ding.torch_utils.data_helper import unsqueeze as unsqueeze
from ding.torch_utils.data_helper import zeros_like as zeros_like
from ding.torch_utils.dataparallel import DataParallel as DataParallel
from ding.torch_utils.distribution import CategoricalPd as CategoricalPd
from ding.torch_utils.distribution import CategoricalPdPytorch as CategoricalPdPytorch
from ding.torch_utils.distribution import Pd as Pd
from ding.torch_utils.loss import *
from ding.torch_utils.lr_scheduler import cos_lr_scheduler as cos_lr_scheduler
from ding.torch_utils.math_helper import cov as cov
from ding.torch_utils.metric import hamming_distance as hamming_distance
from ding.torch_utils.metric import levenshtein_distance as levenshtein_distance
from ding.torch_utils.network import *
from ding.torch_utils.nn_test_helper import is_differentiable as is_differentiable
from ding.torch_utils.optimizer_helper import SGD as SGD
from ding.torch_utils.optimizer_helper import Adam as Adam
from ding.torch_utils.optimizer_helper import RMSprop as RMSprop
from ding.torch_utils.optimizer_helper import calculate_grad_norm as calculate_grad_norm
from ding.torch_utils.optimizer_helper import (
    calculate_grad_norm_without_bias_two_norm as calculate_grad_norm_without_bias_two_norm,
)
from ding.torch_utils.parameter import NonegativeParameter as NonegativeParameter
from ding.torch_utils.parameter import TanhParameter as TanhParameter
from ding.torch_utils.reshape_helper import fold_batch as fold_batch
from ding.torch_utils.reshape_helper import unfold_batch as unfold_batch
from ding.torch_utils.reshape_helper import unsqueeze_repeat as unsqueeze_repeat
from ding.torch_utils.threads import apply_fitted_num_threads as apply_fitted_num_threads
from ding.torch_utils.threads import fit_num_threads as fit_num_threads
