"""What envs share: descriptions of their elements and small functions."""

from ding.envs.common.common_function import (
    affine_transform,
    batch_binary_encode,
    clip_one_hot,
    div_func,
    div_one_hot,
    get_postion_vector,
    num_first_one_hot,
    reorder_boolean_vector,
    reorder_one_hot,
    save_frames_as_gif,
    sqrt_one_hot,
)
from ding.envs.common.env_element import EnvElement, EnvElementInfo, IEnvElement
from ding.envs.common.env_element_runner import EnvElementRunner, IEnvElementRunner

__all__ = [
    "EnvElement",
    "EnvElementInfo",
    "EnvElementRunner",
    "IEnvElement",
    "IEnvElementRunner",
    "affine_transform",
    "batch_binary_encode",
    "clip_one_hot",
    "div_func",
    "div_one_hot",
    "get_postion_vector",
    "num_first_one_hot",
    "reorder_boolean_vector",
    "reorder_one_hot",
    "save_frames_as_gif",
    "sqrt_one_hot",
]
