"""Env of an agent: a pattern from which env managers create copies."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import gymnasium

from ding.bonus.common import AgentConfigError
from ding.entry.serial.parts import EnvSetting
from ding.envs import BaseEnv, DingEnvWrapper

AnyEnv = str | gymnasium.Env[Any, Any] | BaseEnv | Callable[[], Any]


class EnvPattern:
    """Creates envs like a given one.

    Args:
        env: Id of a registered Gymnasium env; a Gymnasium env, which is copied and not modified; a
            :class:`~ding.envs.BaseEnv`; or a callable that creates one of these.
        cfg: Section ``env`` of the config.

    Raises:
        AgentConfigError: ``env`` has another type.
    """

    def __init__(self, env: AnyEnv, cfg: Mapping[str, Any]) -> None:
        if not isinstance(env, (str, gymnasium.Env, BaseEnv)) and not callable(env):
            raise AgentConfigError(
                f"env must be the id of a gymnasium env, an env, or a callable that makes one, not {type(env).__name__}"
            )
        self._env = env
        self._cfg = cfg

    def with_cfg(self, cfg: Mapping[str, Any]) -> "EnvPattern":
        """Return the same env with another config."""
        return EnvPattern(self._env, cfg)

    def clone(self, caller: str = "collector") -> BaseEnv:
        """Return a new env for a ``collector`` or an ``evaluator``.

        Raises:
            AgentConfigError: The env can be neither copied nor created again.
        """
        env = self._env
        if isinstance(env, str):
            return DingEnvWrapper(None, {**self._cfg, "env_id": env}, caller=caller)
        if isinstance(env, DingEnvWrapper):
            return env.clone(caller)
        if isinstance(env, BaseEnv):
            result: BaseEnv = _copied(env)
            return result
        made = _copied(env) if isinstance(env, gymnasium.Env) else env()
        return made if isinstance(made, BaseEnv) else DingEnvWrapper(made, self._cfg, caller=caller)

    def setting(self, env_cfg: Mapping[str, Any]) -> EnvSetting:
        """Return the env setting for pipelines, with ``collector_env_num`` and ``evaluator_env_num`` envs."""
        numbers = [int(env_cfg[f"{caller}_env_num"]) for caller in ("collector", "evaluator")]
        return self.made_for, ["collector"] * numbers[0], ["evaluator"] * numbers[1]

    def made_for(self, cfg: str) -> BaseEnv:
        """Do the same as :meth:`clone`; ``cfg`` is the pipelines' name of the argument."""
        return self.clone(cfg)

    @property
    def is_registered(self) -> bool:
        """Whether a config can name the env."""
        return isinstance(self._env, str)

    @property
    def env_id(self) -> str | None:
        """Id of the Gymnasium env, if known."""
        if isinstance(self._env, str):
            return self._env
        spec = getattr(self._env, "spec", None)
        return getattr(spec, "id", None)


def _copied(env: gymnasium.Env[Any, Any] | BaseEnv) -> Any:
    try:
        return deepcopy(env)
    except Exception as error:  # any error of the env's own parts
        spec = getattr(env, "spec", None)
        if isinstance(env, gymnasium.Env) and spec is not None:
            return gymnasium.make(spec)
        raise AgentConfigError(
            f"the env {env!r} cannot be copied ({error}); give its id, or a callable that makes one"
        ) from error
