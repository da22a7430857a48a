"""Base class of envs, and helpers that find env classes and create per-env configs."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, MutableMapping
from copy import deepcopy
from typing import Any

import gymnasium

from ding.config import ConfigError
from ding.data import BaseEnvTimestep as BaseEnvTimestep
from ding.envs.contract import Obs
from ding.envs.zoo import import_type
from ding.utils import ENV_REGISTRY, import_module


class EnvConfigError(ConfigError, KeyError, ValueError):
    """A key of the env config is missing or names an unknown env; part of the tree of `ding.config.errors`.

    The built-in base classes are those that DI-engine raises in the same places.
    """


class BaseEnv(gymnasium.Env[Any, Any], ABC):
    """Base class of environments.

    Construction is cheap; an env may create its simulator at the first :meth:`reset`. The attributes
    ``observation_space``, ``action_space`` and ``reward_space`` are available after the first reset at the latest.
    """

    reward_space: gymnasium.Space[Any]

    @abstractmethod
    def __init__(self, cfg: Mapping[str, Any]) -> None:
        """Store the config; see ``create_collector_env_cfg`` for its origin."""

    @abstractmethod
    def reset(self, **kwargs: Any) -> Obs:
        """Start an episode and return its first observation: an array, or a dict of arrays."""

    @abstractmethod
    def close(self) -> None:
        """Release the resources of the env. Repeated calls have no effect."""

    @abstractmethod
    def step(self, action: Any) -> Any:
        """Make one step.

        Returns:
            :class:`BaseEnvTimestep`: ``obs`` as from :meth:`reset`, ``reward`` a float32 array ``(1,)``, ``done`` a
            ``bool`` (terminated or truncated), and ``info``. At the end of an episode ``info`` contains
            ``eval_episode_return``, and ``TimeLimit.truncated=True`` if a time limit ended it. ``abnormal=True``
            excludes the step from training.
        """

    @abstractmethod
    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """Seed the env: with ``dynamic_seed`` the episodes differ, otherwise every episode starts from ``seed``."""

    @abstractmethod
    def __repr__(self) -> str:
        """Return a one-line description."""

    @staticmethod
    def create_collector_env_cfg(cfg: MutableMapping[str, Any]) -> list[Any]:
        """Return one config per collector env: copies of ``cfg`` without ``collector_env_num``."""
        return copy_cfg(cfg, "collector_env_num")

    @staticmethod
    def create_evaluator_env_cfg(cfg: MutableMapping[str, Any]) -> list[Any]:
        """Return one config per evaluator env: copies of ``cfg`` without ``evaluator_env_num``."""
        return copy_cfg(cfg, "evaluator_env_num")

    def enable_save_replay(self, replay_path: str) -> None:
        """Save a video of each following episode in ``replay_path``.

        Raises:
            NotImplementedError: The env cannot record videos.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot save replays")

    def random_action(self) -> object:
        """Return a random action in the form of :meth:`step`, or ``None`` to sample the action space instead."""
        return None


UNNAMED_ENV = "ding_env_wrapper_generated"
"""The ``type`` that a compiled config has, as in DI-engine, where its create config names no env."""


def copy_cfg(cfg: MutableMapping[str, Any], num_key: str, **changes: Any) -> list[Any]:
    """Return ``cfg[num_key]`` deep copies of ``cfg``, without that key and with these changes.

    Raises:
        EnvConfigError: ``cfg`` has no ``num_key``.
    """
    if num_key not in cfg:
        raise EnvConfigError(f"env.{num_key} is missing: it says how many envs to make")
    copies = []
    for _ in range(cfg[num_key]):
        one = deepcopy(cfg)
        one.pop(num_key)
        for key, value in changes.items():
            one[key] = value
        copies.append(one)
    return copies


def get_env_cls(cfg: Mapping[str, Any]) -> type[BaseEnv]:
    """Return the env class registered under ``cfg['type']``, after importing ``cfg['import_names']``; or one of the
    zoo.

    Raises:
        EnvConfigError: ``type`` is missing, or stands for envs that only a script can make.
        KeyError: ``type`` is not registered.
    """
    name = ENV_REGISTRY.type_of(cfg, EnvConfigError)
    if name == UNNAMED_ENV:
        raise EnvConfigError("create_config.env is missing: it must be a dict with a `type`; or pass env_setting")
    if name not in ENV_REGISTRY:
        import_type(name)
    cls: type[BaseEnv] = ENV_REGISTRY.get(name)
    return cls


def get_vec_env_setting(
    cfg: MutableMapping[str, Any], collect: bool = True, eval_: bool = True
) -> tuple[type[BaseEnv], list[Any] | None, list[Any] | None]:
    """Return the env class and the env configs of a pipeline.

    Args:
        cfg: Env config with ``type`` and, for envs in user modules, ``import_names``.
        collect: Create the collector configs.
        eval_: Create the evaluator configs.

    Returns:
        The env class, one config per collector env or ``None``, one config per evaluator env or ``None``.
    """
    env_cls = get_env_cls(cfg)
    collector_cfg = env_cls.create_collector_env_cfg(cfg) if collect else None
    evaluator_cfg = env_cls.create_evaluator_env_cfg(cfg) if eval_ else None
    return env_cls, collector_cfg, evaluator_cfg


def create_model_env(cfg: MutableMapping[str, Any]) -> object:
    """Create an env for use as a world model, from a copy of ``cfg`` without ``import_names`` and ``type``."""
    cfg = deepcopy(cfg)
    import_module(list(cfg.pop("import_names", [])))
    return ENV_REGISTRY.build(cfg.pop("type"), cfg)
