"""Policies by their registered names, and the threads that one uses."""

from typing import Any

import torch
from easydict import EasyDict

from ding.policy.errors import PolicyConfigError
from ding.torch_utils.threads import apply_fitted_num_threads
from ding.utils import POLICY_REGISTRY


def create_policy(cfg: EasyDict, **kwargs: Any) -> Any:
    """Import ``cfg.import_names`` and build the policy that is registered as ``cfg.type``.

    Args:
        cfg: the ``policy`` section of the config.
        kwargs: ``model``, ``enable_field``.

    Raises:
        PolicyConfigError: ``cfg`` has no ``type``.
        UnknownNameError: no policy of that name is registered (a ``KeyError``).
    """
    return POLICY_REGISTRY.build(POLICY_REGISTRY.type_of(cfg, PolicyConfigError), cfg=cfg, **kwargs)


def get_policy_cls(cfg: EasyDict) -> Any:
    """Import ``cfg.import_names`` and return the class that is registered as ``cfg.type``; raises like
    :func:`create_policy`.
    """
    return POLICY_REGISTRY.class_of(cfg, PolicyConfigError)


def use_threads(setting: Any, model: torch.nn.Module, batch_size: int) -> None:
    """Set the threads of torch to ``policy.num_threads``, or for None to what fits ``model``.

    Raises:
        PolicyConfigError: the setting is no positive number (a ``RuntimeError``).
    """
    if setting is None:
        apply_fitted_num_threads(model, batch_size)
    elif isinstance(setting, int) and not isinstance(setting, bool) and setting >= 1:
        torch.set_num_threads(setting)
    else:
        raise PolicyConfigError(f"policy.num_threads must be a positive int or None, found {setting!r}")
