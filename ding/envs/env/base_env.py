"""The contract of an env, and the helpers that find env classes and per-env configs."""

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
    """A key of the env config is missing, or names an env that is not there: a branch of `ding.config.errors`.

    The built-in bases are what DI-engine raises in the same places.
    """


class BaseEnv(gymnasium.Env[Any, Any], ABC):
    """An environment as the workers see it.

    An env is cheap to construct; it may build its simulator at the first :meth:`reset`. It has the attributes
    ``observation_space``, ``action_space`` and ``reward_space`` at the latest after the first reset.
    """

    reward_space: gymnasium.Space[Any]

    @abstractmethod
    def __init__(self, cfg: Mapping[str, Any]) -> None:
        """Keep the config; see ``create_collector_env_cfg`` for where it comes from."""

    @abstractmethod
    def reset(self, **kwargs: Any) -> Obs:
        """Start an episode and return its first observation: an array, or a dict of arrays."""

    @abstractmethod
    def close(self) -> None:
        """Release what the env holds. May be called more than once."""

    @abstractmethod
    def step(self, action: Any) -> Any:
        """Do one step.

        Returns:
            :class:`BaseEnvTimestep`: ``obs`` as from :meth:`reset`, ``reward`` a float32 array ``(1,)``, ``done`` a
            ``bool`` (terminated or truncated), and ``info``, which holds ``eval_episode_return`` at the end of an
            episode, ``TimeLimit.truncated=True`` when a time limit ended it, and may hold ``abnormal=True`` when the
            step is not to be learned from.
        """

    @abstractmethod
    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """Seed the env: with ``dynamic_seed`` every episode is another one, else every episode starts from ``seed``."""

    @abstractmethod
    def __repr__(self) -> str:
        """One line about the env."""

    @staticmethod
    def create_collector_env_cfg(cfg: MutableMapping[str, Any]) -> list[Any]:
        """One config per collector env: copies of ``cfg`` without ``collector_env_num``."""
        return copy_cfg(cfg, "collector_env_num")

    @staticmethod
    def create_evaluator_env_cfg(cfg: MutableMapping[str, Any]) -> list[Any]:
        """One config per evaluator env: copies of ``cfg`` without ``evaluator_env_num``."""
        return copy_cfg(cfg, "evaluator_env_num")

    def enable_save_replay(self, replay_path: str) -> None:
        """Save a video of each following episode below ``replay_path``.

        Raises:
            NotImplementedError: the env cannot.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot save replays")

    def random_action(self) -> object:
        """A random action in the form that :meth:`step` takes, ``None`` when the env leaves that to its space."""
        return None


def copy_cfg(cfg: MutableMapping[str, Any], num_key: str, **changes: Any) -> list[Any]:
    """As many deep copies of ``cfg`` as its ``num_key`` says, without that key and with these changes.

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
    """The env class registered under ``cfg['type']``, after importing ``cfg['import_names']``; else one of the zoo.

    Raises:
        EnvConfigError: ``type`` is missing.
        KeyError: ``type`` is not registered.
    """
    name = ENV_REGISTRY.type_of(cfg, EnvConfigError)
    if name not in ENV_REGISTRY:
        import_type(name)
    cls: type[BaseEnv] = ENV_REGISTRY.get(name)
    return cls


def get_vec_env_setting(
    cfg: MutableMapping[str, Any], collect: bool = True, eval_: bool = True
) -> tuple[type[BaseEnv], list[Any] | None, list[Any] | None]:
    """What a pipeline needs to make its envs.

    Args:
        cfg: env config with ``type`` and, for envs in modules of their own, ``import_names``.
        collect: whether to make the collector configs.
        eval_: whether to make the evaluator configs.

    Returns:
        The env class, one config per collector env or ``None``, one config per evaluator env or ``None``.
    """
    env_cls = get_env_cls(cfg)
    collector_cfg = env_cls.create_collector_env_cfg(cfg) if collect else None
    evaluator_cfg = env_cls.create_evaluator_env_cfg(cfg) if eval_ else None
    return env_cls, collector_cfg, evaluator_cfg


def create_model_env(cfg: MutableMapping[str, Any]) -> object:
    """An env to be used as a model of the world: built from a copy of ``cfg`` without ``import_names`` and ``type``."""
    cfg = deepcopy(cfg)
    import_module(list(cfg.pop("import_names", [])))
    return ENV_REGISTRY.build(cfg.pop("type"), cfg)
