"""The env managers of the own process, and the factories of all env managers."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from ding.envs.env_manager._base_manager import BaseEnvManager
from ding.envs.env_manager._errors import (
    EnvCrashedError,
    EnvDataError,
    EnvManagerError,
    EnvResetError,
    EnvStepError,
    EnvTimeoutError,
)
from ding.envs.env_manager._lifecycle import EnvState
from ding.envs.env_manager._v2 import ListStepMixin
from ding.utils import ENV_MANAGER_REGISTRY, import_module

__all__ = [
    "BaseEnvManager",
    "BaseEnvManagerV2",
    "EnvCrashedError",
    "EnvDataError",
    "EnvManagerError",
    "EnvResetError",
    "EnvState",
    "EnvStepError",
    "EnvTimeoutError",
    "create_env_manager",
    "get_env_manager_cls",
]


@ENV_MANAGER_REGISTRY.register("base_v2")
class BaseEnvManagerV2(ListStepMixin, BaseEnvManager):
    """:class:`BaseEnvManager` in the second form: stacked observations out, a list of actions in, a list of trees out.

    ``ready_batch`` and ``step_batch`` speak columns here too.
    """

    ready_batch = BaseEnvManager.ready_batch
    step_batch = BaseEnvManager.step_batch


def create_env_manager(manager_cfg: Mapping[str, Any], env_fn: Sequence[Callable[[], Any]]) -> Any:
    """The env manager that a config asks for.

    Args:
        manager_cfg: ``type``, the registered name; ``import_names`` (optional); the rest is the manager's own config.
        env_fn: one callable without arguments per env.

    Raises:
        KeyError: ``type`` is missing or not registered.
    """
    cfg: Any = deepcopy(manager_cfg)
    import_module(list(cfg.pop("import_names", [])))
    if "type" not in cfg:
        raise KeyError("env.manager needs 'type', the registered name of an env manager")
    return ENV_MANAGER_REGISTRY.build(cfg.pop("type"), env_fn=env_fn, cfg=cfg)


def get_env_manager_cls(cfg: Mapping[str, Any]) -> type:
    """The env manager class that a config names.

    Raises:
        KeyError: ``type`` is missing or not registered.
    """
    import_module(list(cfg.get("import_names", [])))
    if "type" not in cfg:
        raise KeyError("env.manager needs 'type', the registered name of an env manager")
    return ENV_MANAGER_REGISTRY.get(cfg["type"])
