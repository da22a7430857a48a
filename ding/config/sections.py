"""Sections of a compiled config, each merged over the defaults of the class of its ``type``.

Both modes compile the same sections by the same rule: templates, the defaults of the class, the policy's settings for
its workers, then the create config. Finally the user's main config is merged over all of them.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from easydict import EasyDict

from ding.config.errors import ConfigValueError
from ding.config.resolve import class_of, defaults_of, name_of
from ding.utils import deep_merge_dicts

ENV_TEMPLATE: dict[str, Any] = {"manager": {}, "stop_value": int(1e10), "n_evaluator_episode": 4}
POLICY_TEMPLATE: dict[str, Any] = {
    "model": {},
    "learn": {"learner": {}},
    "collect": {"collector": {}},
    "eval": {"evaluator": {}},
    "other": {"replay_buffer": {}},
}

# Sections and keys of the policy that the workers of a run read.
_WORKERS = (("learn", "learner"), ("collect", "collector"), ("other", "commander"))


def without_workers(policy_cfg: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section ``policy`` without the settings of the workers; the input is not modified."""
    kept = {
        section: {key: value for key, value in policy_cfg.get(section, {}).items() if key != worker}
        for section, worker in _WORKERS
    }
    return {**policy_cfg, **kept}


def episodes_of_evaluation(env_cfg: Mapping[str, Any]) -> int:
    """Return ``n_evaluator_episode`` of a parallel config, which counts the episodes of each env."""
    return int(env_cfg["evaluator_env_num"] * env_cfg.get("evaluator_episode_num", 1))


def merged(defaults: Mapping[str, Any], above: Mapping[str, Any]) -> EasyDict:
    """Return ``defaults`` with ``above`` merged over them, at every depth."""
    return EasyDict(deep_merge_dicts(defaults, above))


def dig(mapping: object, *keys: str) -> Mapping[str, Any]:
    """Return the sub-dict at ``keys``; an empty one if a key is missing."""
    for key in keys:
        mapping = mapping.get(key) if isinstance(mapping, Mapping) else None
    return mapping if isinstance(mapping, Mapping) else {}


def copied(value: object, name: str) -> EasyDict:
    """Return a deep copy of a config.

    Raises:
        ConfigValueError: ``value`` is not a dict; ``name`` is its name in the message.
    """
    if not isinstance(value, Mapping):
        raise ConfigValueError(f"{name} must be a dict, got {type(value).__name__}")
    return EasyDict(deepcopy(dict(value)))


def component(
    registry: str,
    where: str,
    section: Mapping[str, Any],
    cls: type | None = None,
    user: Mapping[str, Any] | None = None,
    default_type: str | None = None,
) -> tuple[EasyDict, type]:
    """Return a section merged over the defaults of its class, and the class.

    Args:
        registry: Registry of the ``type``.
        where: Path of the section, for messages.
        section: Settings over the defaults.
        cls: Class; by default that of the ``type``. Its name is stored in the section, so that a saved config refers to
            it.
        user: User's section, whose ``type`` takes precedence.
        default_type: Default ``type``.

    Raises:
        ConfigError: No class is found.
    """
    if cls is None:
        written = merged(section, user or {})
        if default_type is not None:
            written.setdefault("type", default_type)
        cls = class_of(registry, written, where)
    result = merged(defaults_of(cls, where), section)
    name = name_of(registry, cls)
    if "type" not in section and name is not None:
        # Subclasses inherit the default ``type`` of their base.
        result.type = name
    return result, cls


def env_section(env: Callable[..., Any] | None, env_manager: type, create: Mapping[str, Any]) -> EasyDict:
    """Return the section ``env``, with its ``manager``."""
    own = env.default_config() if env is not None and hasattr(env, "default_config") else {}
    result = merged(deepcopy(ENV_TEMPLATE), own)
    result.update(create.get("env", {}))
    result.manager = merged(defaults_of(env_manager, "env.manager"), result.get("manager", {}))
    result.manager.update(create.get("env_manager", {}))
    return result


def settle_episodes(env: EasyDict, user: Mapping[str, Any]) -> None:
    """Settle how long episodes are, and how many of them an evaluation plays.

    Each evaluator env plays one at least where the user's section does not give ``n_evaluator_episode``.
    """
    settle_step_limit(env)
    envs, episodes = env.get("evaluator_env_num"), env.get("n_evaluator_episode")
    if user.get("n_evaluator_episode") is None and isinstance(envs, int) and episodes != 0:
        env.n_evaluator_episode = max(episodes or 0, envs)


def settle_step_limit(env: EasyDict) -> None:
    """Pass ``env.max_episode_steps`` to the manager, for envs that do not support it."""
    if env.get("max_episode_steps") is not None and env.manager.get("max_episode_steps") is None:
        env.manager.max_episode_steps = env.max_episode_steps


def settle_actions(env: EasyDict, env_cls: object, policy: object, strict: bool) -> None:
    """Fill in the keys of the section ``env`` that depend on the policy and on ``strict``.

    Args:
        env: Section to modify in place.
        env_cls, policy: Classes, or ``None``.
        strict: Check each action.
    """
    if "act_scale" in env and env.act_scale is None and getattr(policy, "acts_in_unit_range", False):
        env.act_scale = "auto"
    if strict and getattr(env_cls, "checks_actions", False):
        env.check_actions = True


def policy_section(policy: type, create: Mapping[str, Any]) -> EasyDict:
    """Return the section ``policy``, with the settings of the policy and the create config for its workers."""
    result = merged(merged(POLICY_TEMPLATE, defaults_of(policy, "policy")), create.get("policy", {}))
    result.learn.learner.update(create.get("learner", {}))
    result.collect.collector.update(create.get("collector", {}))
    result.eval.evaluator.update(create.get("evaluator", {}))
    result.other.replay_buffer.update(create.get("replay_buffer", {}))
    return result


def fill_learner(policy_cfg: EasyDict, learner: type | None = None) -> None:
    """Merge the learner's section over its defaults."""
    where, section = "policy.learn.learner", policy_cfg.learn.learner
    if learner is None:
        learner = class_of("learner", section if "type" in section else {"type": "base"}, where)
    policy_cfg.learn.learner = merged(defaults_of(learner, where), section)


def compile_buffer_config(
    policy_cfg: Mapping[str, Any], user_cfg: Mapping[str, Any], buffer_cls: type | Mapping[str, type] | None
) -> EasyDict:
    """Return the config of the replay buffer, or of every buffer if the policy uses several.

    Args:
        policy_cfg: Policy config with its defaults.
        user_cfg: User's main config.
        buffer_cls: Buffer class or ``None``; with several buffers a dict from name to class, or ``None``.

    Raises:
        ConfigValueError: The user requests several buffers but the policy has one, or a ``type`` is missing.
        UnknownTypeError: No buffer is registered under a ``type``.
    """
    where = "policy.other.replay_buffer"
    own, user = policy_cfg["other"]["replay_buffer"], dig(user_cfg, "policy", "other", "replay_buffer")
    if not own.get("multi_buffer", False):
        if user.get("multi_buffer", False):
            raise ConfigValueError(f"{where}.multi_buffer: this policy uses one buffer, not several")
        one = buffer_cls if isinstance(buffer_cls, type) else None
        return component("buffer", where, own, one, user)[0]
    classes = buffer_cls if isinstance(buffer_cls, Mapping) else {}
    result = EasyDict({"multi_buffer": True})
    for name, section in own.items():
        if isinstance(section, Mapping):
            path, default, written = f"{where}.{name}", own.get("type", "advanced"), dig(user, name)
            result[name] = component("buffer", path, section, classes.get(name), written, default)[0]
            result[name].name = name
    return result
