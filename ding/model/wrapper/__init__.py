"""Wrappers that turn outputs of models into actions, keep hidden states and follow other models."""

from ding.model.wrapper.model_wrappers import IModelWrapper, model_wrap, register_wrapper, wrapper_name_map

__all__ = ["IModelWrapper", "model_wrap", "register_wrapper", "wrapper_name_map"]
