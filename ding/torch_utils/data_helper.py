"""Tensor, array and container conversions used all over the library."""

from ding.torch_utils._convert import (
    tensor_to_list,
    to_device,
    to_dtype,
    to_item,
    to_list,
    to_ndarray,
    to_tensor,
)
from ding.torch_utils._tree_ops import (
    LogDict,
    build_log_buffer,
    get_null_data,
    get_tensor_data,
    same_shape,
    squeeze,
    unsqueeze,
    zeros_like,
)
from ding.torch_utils.cuda_fetcher import CudaFetcher

__all__ = [
    "CudaFetcher",
    "LogDict",
    "build_log_buffer",
    "get_null_data",
    "get_tensor_data",
    "same_shape",
    "squeeze",
    "tensor_to_list",
    "to_device",
    "to_dtype",
    "to_item",
    "to_list",
    "to_ndarray",
    "to_tensor",
    "unsqueeze",
    "zeros_like",
]
