"""`compile_config`: a user's config and the defaults of every class it names, merged into one.

Precedence, from weak to strong: templates, the defaults of the classes, what the policy sets for its workers, what
the create config sets (types), the user's main config.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from easydict import EasyDict

from ding.config._experiment_dir import create_experiment_dir, write_git_info
from ding.config._key_check import check_keys
from ding.config._resolve import (
    SERIAL_COMMANDER,
    class_of,
    defaults_of,
    import_by_name,
    name_of,
    registered,
)
from ding.config._value_check import check_values
from ding.config.config import save_config
from ding.config.errors import ConfigNotSerializableError, ConfigValueError
from ding.utils import SERIAL_EVALUATOR_REGISTRY, broadcast_object_list, deep_merge_dicts, get_rank, get_world_size

logger = logging.getLogger("ding.config")

ENV_TEMPLATE: dict[str, Any] = {"manager": {}, "stop_value": int(1e10), "n_evaluator_episode": 4}
POLICY_TEMPLATE: dict[str, Any] = {
    "model": {},
    "learn": {"learner": {}},
    "collect": {"collector": {}},
    "eval": {"evaluator": {}},
    "other": {"replay_buffer": {}},
}


def compile_config(
    cfg: Mapping[str, Any],
    env_manager: type | None = None,
    policy: type | None = None,
    learner: type | None = None,
    collector: type | None = None,
    evaluator: type | None = None,
    buffer: Any = None,
    env: Callable[..., Any] | None = None,
    reward_model: type | None = None,
    world_model: type | None = None,
    seed: int = 0,
    auto: bool = False,
    create_cfg: Mapping[str, Any] | None = None,
    save_cfg: bool = True,
    save_path: str = "total_config.py",
    renew_dir: bool = True,
    strict: bool = False,
    save_git_info: bool = False,
) -> EasyDict:
    """Return ``cfg`` with the defaults of every class filled in; the inputs are not changed.

    Args:
        cfg: The main config.
        env_manager, policy, learner, collector, evaluator, buffer, env, reward_model, world_model: Classes. What is
            not given is resolved by its ``type``; without one, the learner is `BaseLearner`, the evaluator
            `InteractionSerialEvaluator`, the env manager `BaseEnvManager`. ``buffer`` is a class, or a dict from
            buffer name to class when the policy uses several.
        seed: Stored as ``cfg.seed``.
        auto: Take the classes from ``create_cfg``.
        create_cfg: The create config; required by ``auto``.
        save_cfg: Create the experiment folder and write the config into it (rank 0).
        save_path: File name inside the experiment folder; ``formatted_<save_path>`` is written beside it.
        renew_dir: Use a new folder when ``exp_name`` exists already.
        strict: A key that looks misspelt is an error instead of a warning.
        save_git_info: Also write ``git_log.txt`` and ``git_diff.txt``.

    Raises:
        ConfigError: See the tree in `ding.config.errors`.
    """
    if not isinstance(cfg, Mapping):
        raise ConfigValueError(f"the main config must be a dict, got {type(cfg).__name__}")
    user = EasyDict(deepcopy(dict(cfg)))
    if auto:
        if create_cfg is None:
            raise ConfigValueError("compile_config(auto=True) needs create_cfg")
        create = _completed(create_cfg)
        env, env_manager, policy = _auto_classes(create, env, env_manager, policy)
    else:
        create = EasyDict(deepcopy(dict(create_cfg))) if create_cfg is not None else EasyDict()
        env_manager = env_manager or registered("env_manager", "base", "env.manager")
    env_cfg = _env_defaults(env, env_manager, create)
    policy_cfg = _policy_defaults(policy, create, auto)
    extras = _extra_defaults(create, reward_model, world_model, auto)

    user_policy = user.get("policy", {})
    _fill_learner(policy_cfg, create, learner)
    if create_cfg is not None or collector is not None:
        _fill_collector(policy_cfg, user_policy, collector)
    evaluator_cls = _fill_evaluator(policy_cfg, user_policy, evaluator)
    if create_cfg is not None or buffer is not None:
        policy_cfg.other.replay_buffer = compile_buffer_config(policy_cfg, user, buffer)

    defaults = EasyDict({"env": env_cfg, "policy": policy_cfg, **extras})
    check_keys(user, defaults, strict)
    check_values(user, defaults)
    result = EasyDict(deep_merge_dicts(defaults, user))
    _finish(result, evaluator_cls, seed)
    if save_cfg:
        _save(result, create if create_cfg is not None else None, save_path, renew_dir, save_git_info)
    return result


def compile_buffer_config(policy_cfg: Mapping[str, Any], user_cfg: Mapping[str, Any], buffer_cls: Any) -> EasyDict:
    """Return the config of the replay buffer, or of every buffer when the policy uses several.

    Args:
        policy_cfg: The policy's config with its defaults.
        user_cfg: The user's main config.
        buffer_cls: Buffer class or None; with several buffers a dict from name to class, or None.

    Raises:
        ConfigValueError: The user asks for several buffers where the policy has one, or a ``type`` is missing.
        UnknownTypeError: No buffer is registered under a ``type``.
    """
    where = "policy.other.replay_buffer"
    own = policy_cfg["other"]["replay_buffer"]
    user = _dig(user_cfg, "policy", "other", "replay_buffer")
    if not own.get("multi_buffer", False):
        if user.get("multi_buffer", False):
            raise ConfigValueError(f"{where}.multi_buffer: this policy uses one buffer, not several")
        return _one_buffer(own, user, buffer_cls, where)
    classes = buffer_cls or {}
    result = EasyDict({"multi_buffer": True})
    for name, section in own.items():
        if name == "multi_buffer" or not isinstance(section, Mapping):
            continue
        one = _one_buffer(section, user.get(name, {}), classes.get(name), f"{where}.{name}")
        one.name = name
        result[name] = one
    return result


def _one_buffer(own: Mapping[str, Any], user: Mapping[str, Any], cls: Any, where: str) -> EasyDict:
    wanted = deep_merge_dicts(own, user)
    if cls is None:
        cls = class_of("buffer", wanted, where)
    result = EasyDict(deep_merge_dicts(defaults_of(cls, where), wanted))
    name = name_of("buffer", cls)
    if "type" not in wanted and name is not None:
        # Subclasses inherit the default `type` of their base.
        result.type = name
    return result


def _completed(create_cfg: Mapping[str, Any]) -> EasyDict:
    create = EasyDict(deepcopy(dict(create_cfg)))
    create.setdefault("collector", EasyDict(type="sample"))
    create.setdefault("replay_buffer", EasyDict(type="advanced"))
    for name in ("env_manager", "policy"):
        if not isinstance(create.get(name), Mapping):
            raise ConfigValueError(f"create_config.{name} is missing: it must be a dict with a `type`")
    return create


def _auto_classes(
    create: EasyDict, env: Callable[..., Any] | None, env_manager: type | None, policy: type | None
) -> tuple[Callable[..., Any] | None, type, type]:
    if env is None and "env" in create:
        env = class_of("env", create.env, "create_config.env")
    elif "env" not in create:
        create.env = EasyDict(type="ding_env_wrapper_generated")
    manager = env_manager or class_of("env_manager", create.env_manager, "create_config.env_manager")
    return env, manager, policy or class_of("policy", create.policy, "create_config.policy")


def _env_defaults(env: Any, env_manager: type, create: EasyDict) -> EasyDict:
    result = EasyDict(deepcopy(ENV_TEMPLATE))
    if hasattr(env, "default_config"):
        result = EasyDict(deep_merge_dicts(result, env.default_config()))
    result.update(create.get("env", {}))
    manager = EasyDict(deep_merge_dicts(defaults_of(env_manager, "env.manager"), result.get("manager", {})))
    manager.update(create.get("env_manager", {}))
    result.manager = manager
    return result


def _policy_defaults(policy: type | None, create: EasyDict, auto: bool) -> EasyDict:
    if policy is None:
        raise ConfigValueError("compile_config needs the policy class, or auto=True and create_cfg.policy")
    result = EasyDict(deep_merge_dicts(POLICY_TEMPLATE, defaults_of(policy, "policy")))
    if not create:
        return result
    result.update(create.get("policy", {}))
    result.collect.collector.update(create.get("collector", {}))
    result.eval.evaluator.update(create.get("evaluator", {}))
    result.other.replay_buffer.update(create.get("replay_buffer", {}))
    if auto:
        result.other.commander = defaults_of(import_by_name(*SERIAL_COMMANDER), "policy.other.commander")
    return result


def _extra_defaults(create: EasyDict, reward_model: Any, world_model: Any, auto: bool) -> dict[str, EasyDict]:
    extras = {}
    for name, given in (("reward_model", reward_model), ("world_model", world_model)):
        cls = given
        if cls is None and auto and name in create:
            cls = class_of(name, create[name], f"create_config.{name}")
        if cls is None:
            continue
        extras[name] = defaults_of(cls, name)
        if name == "world_model":
            extras[name].update(create.get(name, {}))
    return extras


def _fill_learner(policy_cfg: EasyDict, create: EasyDict, learner: type | None) -> None:
    section = policy_cfg.learn.learner
    section.update(create.get("learner", {}))
    if learner is None:
        wanted = section if "type" in section else {"type": "base"}
        learner = class_of("learner", wanted, "policy.learn.learner")
    policy_cfg.learn.learner = EasyDict(deep_merge_dicts(defaults_of(learner, "policy.learn.learner"), section))


def _fill_collector(policy_cfg: EasyDict, user_policy: Mapping[str, Any], collector: type | None) -> None:
    where = "policy.collect.collector"
    wanted = deep_merge_dicts(policy_cfg.collect.collector, _dig(user_policy, "collect", "collector"))
    cls = collector or class_of("serial_collector", wanted, where)
    result = EasyDict(deep_merge_dicts(defaults_of(cls, where), wanted))
    _note_type(result, "serial_collector", cls)
    policy_cfg.collect.collector = result


def _fill_evaluator(policy_cfg: EasyDict, user_policy: Mapping[str, Any], evaluator: type | None) -> type:
    where = "policy.eval.evaluator"
    section = policy_cfg.eval.evaluator
    if evaluator is None:
        wanted = deep_merge_dicts(section, _dig(user_policy, "eval", "evaluator"))
        evaluator = class_of("serial_evaluator", {"type": "interaction", **wanted}, where)
    result = EasyDict(deep_merge_dicts(defaults_of(evaluator, where), section))
    _note_type(result, "serial_evaluator", evaluator)
    policy_cfg.eval.evaluator = result
    return evaluator


def _note_type(section: EasyDict, registry: str, cls: type) -> None:
    """A class that came as an argument is named in the config, too, so that a saved config leads back to it."""
    name = name_of(registry, cls)
    if "type" not in section and name is not None:
        section.type = name


def _finish(result: EasyDict, evaluator: type, seed: int) -> None:
    if "unroll_len" in result.policy:
        result.policy.collect.unroll_len = result.policy.unroll_len
    result.seed = seed
    interactive = [SERIAL_EVALUATOR_REGISTRY.get(name, None) for name in ("interaction", "battle_interaction")]
    if issubclass(evaluator, tuple(cls for cls in interactive if cls is not None)):
        result.policy.eval.evaluator.stop_value = result.env.stop_value
        result.policy.eval.evaluator.n_episode = result.env.n_evaluator_episode
    result.setdefault("exp_name", "default_experiment")


def _save(result: EasyDict, create: EasyDict | None, save_path: str, renew_dir: bool, save_git_info: bool) -> None:
    names = [result.exp_name]
    if get_rank() == 0:
        names = [create_experiment_dir(result.exp_name, renew_dir)]
    if get_world_size() > 1:
        # Every rank writes into the folder that rank 0 made.
        broadcast_object_list(names, src=0)
    result.exp_name = names[0]
    if get_rank() != 0:
        return
    if save_git_info:
        write_git_info(result.exp_name)
    path = Path(result.exp_name) / save_path
    try:
        save_config(result, path, save_formatted=True, create_cfg=create)
    except ConfigNotSerializableError as error:
        logger.warning("%s; %s is written without it and asks for it when it is read", error, path)
        save_config(result, path, save_formatted=True, create_cfg=create, strict=False)


def _dig(mapping: Any, *keys: str) -> Mapping[str, Any]:
    """Return the sub-dict at ``keys``; an empty one when a key is missing."""
    for key in keys:
        mapping = mapping.get(key) if isinstance(mapping, Mapping) else None
    return mapping if isinstance(mapping, Mapping) else {}
