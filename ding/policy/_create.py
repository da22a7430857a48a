"""From a config to a policy, by the ``type`` in it."""

from typing import Any

from easydict import EasyDict

from ding.policy.errors import PolicyConfigError
from ding.utils import POLICY_REGISTRY, import_module


def create_policy(cfg: EasyDict, **kwargs: Any) -> Any:
    """Import ``cfg.import_names`` and build the policy that is registered as ``cfg.type``.

    Args:
        cfg: the ``policy`` section of the config.
        kwargs: ``model``, ``enable_field``.

    Raises:
        PolicyConfigError: ``cfg`` has no ``type``.
        UnknownNameError: no policy of that name is registered (a ``KeyError``).
    """
    return POLICY_REGISTRY.build(_type_of(cfg), cfg=cfg, **kwargs)


def get_policy_cls(cfg: EasyDict) -> Any:
    """Import ``cfg.import_names`` and return the class that is registered as ``cfg.type``; raises like
    :func:`create_policy`.
    """
    return POLICY_REGISTRY.get(_type_of(cfg))


def _type_of(cfg: EasyDict) -> str:
    if "type" not in cfg:
        raise PolicyConfigError(f"policy.type is missing; the policy config has the keys {sorted(map(str, cfg))}")
    import_module(cfg.get("import_names", []))
    return cfg["type"]
