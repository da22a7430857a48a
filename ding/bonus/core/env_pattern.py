"""The env of an agent: a pattern, of which each env manager makes copies."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import gymnasium

from ding.bonus.common import AgentConfigError
from ding.entry.serial.parts import EnvSetting
from ding.envs import BaseEnv, DingEnvWrapper

AnyEnv = str | gymnasium.Env[Any, Any] | BaseEnv | Callable[[], Any]


class EnvPattern:
    """Makes envs like one that was given.

    Args:
        env: id of a registered gymnasium env; a gymnasium env, which stays untouched and is copied; a
            :class:`~ding.envs.BaseEnv`; or a callable that makes one of these.
        cfg: section ``env`` of the config.

    Raises:
        AgentConfigError: ``env`` is none of these.
    """

    def __init__(self, env: AnyEnv, cfg: Mapping[str, Any]) -> None:
        if not isinstance(env, (str, gymnasium.Env, BaseEnv)) and not callable(env):
            raise AgentConfigError(
                f"env must be the id of a gymnasium env, an env, or a callable that makes one, not {type(env).__name__}"
            )
        self._env = env
        self._cfg = cfg

    def with_cfg(self, cfg: Mapping[str, Any]) -> "EnvPattern":
        """The same env under another config."""
        return EnvPattern(self._env, cfg)

    def clone(self, caller: str = "collector") -> BaseEnv:
        """Return a new env for a ``collector`` or an ``evaluator``.

        Raises:
            AgentConfigError: the env can be neither copied nor made anew.
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
        """Return what makes ``collector_env_num`` and ``evaluator_env_num`` envs, as pipelines take it."""
        numbers = [int(env_cfg[f"{caller}_env_num"]) for caller in ("collector", "evaluator")]
        return self.made_for, ["collector"] * numbers[0], ["evaluator"] * numbers[1]

    def made_for(self, cfg: str) -> BaseEnv:
        """As :meth:`clone`; ``cfg`` is what pipelines call the argument of an env."""
        return self.clone(cfg)

    @property
    def is_registered(self) -> bool:
        """Whether a config can name the env."""
        return isinstance(self._env, str)

    @property
    def env_id(self) -> str | None:
        """Id of the gymnasium env, where it is known."""
        if isinstance(self._env, str):
            return self._env
        spec = getattr(self._env, "spec", None)
        return getattr(spec, "id", None)


def _copied(env: gymnasium.Env[Any, Any] | BaseEnv) -> Any:
    try:
        return deepcopy(env)
    except Exception as error:  # whatever the env's own parts raise
        spec = getattr(env, "spec", None)
        if isinstance(env, gymnasium.Env) and spec is not None:
            return gymnasium.make(spec)
        raise AgentConfigError(
            f"the env {env!r} cannot be copied ({error}); give its id, or a callable that makes one"
        ) from error
