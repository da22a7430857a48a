"""Env of an agent, and the default config for it."""

from collections.abc import Mapping
from typing import Any

from easydict import EasyDict

from ding.bonus.common import AgentConfigError
from ding.bonus.config import check_made_here, get_instance_config, limit_of, stop_value_of_old
from ding.bonus.core.env_pattern import AnyEnv, EnvPattern
from ding.envs.env.old_ids import successor_of


def pattern_and_base(
    env_id: str | None, env: AnyEnv | None, cfg: EasyDict, algorithm: str
) -> tuple[EnvPattern, Mapping[str, Any]]:
    """Return the pattern of an agent's envs, and the available default config for the env, or an empty one.

    Args:
        env_id, env: Arguments of the agent; one of them, or ``cfg.env.env_id``, is required.
        cfg: User's main config; its section ``env`` and ``exp_name`` are completed in place.
        algorithm: Name of the algorithm.

    Raises:
        AgentConfigError: Neither an id nor an env is given, or there are two ids.
    """
    section = cfg.setdefault("env", EasyDict())
    named = section.get("env_id")
    if isinstance(env, str):
        # Name of the id in DI-engine 0.4.
        env_id, env = env_id or env, None
    if env_id is not None and named is not None and successor_of(env_id)[0] != successor_of(named)[0]:
        raise AgentConfigError(f"env_id is {env_id!r}, but cfg.env.env_id is {named!r}")
    env_id = env_id or named
    if env is not None:
        pattern = EnvPattern(env, section)
        section.env_id = pattern.env_id
    elif env_id is None:
        raise AgentConfigError("an agent needs env_id, env, or cfg.env.env_id")
    else:
        check_made_here(env_id)
        section.env_id, kwargs = successor_of(env_id)
        limit = limit_of(section.env_id)
        for key, value in stop_value_of_old(env_id).items():
            section.setdefault(key, value)
        section.env_kwargs = EasyDict({**limit, **kwargs, **section.get("env_kwargs", {})})
        pattern = EnvPattern(section.env_id, section)
    section.setdefault("type", "gymnasium")
    cfg.setdefault("exp_name", f"{(env_id or pattern.env_id or 'env').replace('/', '-')}-{algorithm}")
    try:
        base = get_instance_config(env_id or "", algorithm) if env is None else {}
    except KeyError:
        base = {}
    return pattern, base
