"""``compile_config``: merges a user's config with the defaults of every class that it names.

Precedence, from low to high: templates, defaults of the classes, the policy's settings for its workers, the create
config (types), the user's main config.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from easydict import EasyDict

from ding.config import sections
from ding.config.checks.keys import check_keys, misspelt_in_create, refuse_misspelt_sections
from ding.config.checks.rate_limit import check_rate_limit
from ding.config.checks.values import check_evaluation, check_ranges, check_seed, check_values, make_whole
from ding.config.config import save_config
from ding.config.errors import ConfigValueError
from ding.config.experiment_dir import create_experiment_dir, write_git_info
from ding.config.own.record import record_run_code
from ding.config.resolve import SERIAL_COMMANDER, class_of, defaults_of, import_by_name, registered
from ding.config.source import save_leniently
from ding.torch_utils.device import MISSING_GPU
from ding.utils import SERIAL_EVALUATOR_REGISTRY, broadcast_object_list, get_rank

# Name of a part -> class given by the caller, or None.
Classes = Mapping[str, Any]
_PARTS = (
    *("env", "env_manager", "policy", "learner", "collector", "evaluator", "buffer", "reward_model", "world_model"),
)


def compile_config(
    cfg: Mapping[str, Any],
    env_manager: type | None = None,
    policy: type | None = None,
    learner: type | None = None,
    collector: type | None = None,
    evaluator: type | None = None,
    buffer: type | Mapping[str, type] | None = None,
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
    """Return ``cfg`` with the defaults of every class filled in; the inputs are not modified.

    Args:
        cfg: Main config.
        env_manager, policy, learner, collector, evaluator, buffer, env, reward_model, world_model: Classes. A missing
            class is resolved by its ``type``; without one, the learner is ``BaseLearner``, the evaluator
            ``InteractionSerialEvaluator``, the env manager ``BaseEnvManager``. ``buffer`` is a class, or a dict from
            buffer name to class if the policy uses several.
        seed: Stored as ``cfg.seed``.
        auto: Take the classes from ``create_cfg``.
        create_cfg: Create config; required by ``auto``.
        save_cfg: Create the experiment folder and write the config to it (rank 0).
        save_path: File name inside the experiment folder; ``formatted_<save_path>`` is written next to it.
        renew_dir: Use a new folder if ``exp_name`` exists.
        strict: Raise an error instead of a warning for misspelt or unused keys, and for ``policy.cuda`` without a GPU.
        save_git_info: Also write ``git_log.txt`` and ``git_diff.txt``.

    Raises:
        ConfigError: See the tree in ``ding.config.errors``.
    """
    check_seed(seed)
    user = sections.copied(cfg, "the main config")
    create = sections.copied({} if create_cfg is None else create_cfg, "create_cfg")
    refuse_misspelt_sections(user, create)
    classes = (env, env_manager, policy, learner, collector, evaluator, buffer, reward_model, world_model)
    given: Classes = dict(zip(_PARTS, classes))
    if auto:
        given = _named_classes(create, given)
    defaults, evaluator = _defaults(user, create, given, auto)
    _check(user, create, defaults, given, strict)
    make_whole(user, defaults)
    if env is None:  # otherwise the caller may create any number of envs
        check_evaluation(sections.dig(user, "env"))
    result = sections.merged(defaults, user)
    sections.settle_episodes(result.env, user.get("env", {}))
    sections.settle_actions(result.env, given["env"], given["policy"], strict)
    _finish(result, evaluator, seed)
    if save_cfg:
        _save(result, create if create_cfg is not None else None, save_path, renew_dir, save_git_info)
    return result


def whole_config(cfg: Mapping[str, Any], create_cfg: Mapping[str, Any]) -> tuple[EasyDict, EasyDict, type]:
    """Return the defaults of a config, the config merged over them, and the class of its policy, without checks.

    Raises:
        ConfigError: A class named in the create config is not found.
    """
    user, create = sections.copied(cfg, "the main config"), sections.copied(create_cfg, "create_cfg")
    given = _named_classes(create, dict.fromkeys(_PARTS))
    defaults, _ = _defaults(user, create, given, auto=True)
    return defaults, sections.merged(defaults, user), given["policy"]


def _named_classes(create: EasyDict, given: Classes) -> Classes:
    """Complete the create config, and return the classes that it names unless they are given."""
    if not create:
        raise ConfigValueError("compile_config(auto=True) needs create_cfg")
    create.setdefault("collector", EasyDict(type="sample"))
    create.setdefault("replay_buffer", EasyDict(type="advanced"))
    classes = dict(given)
    for name in ("env_manager", "policy"):
        if not isinstance(create.get(name), Mapping):
            raise ConfigValueError(f"create_config.{name} is missing: it must be a dict with a `type`")
    for name in ("env", "env_manager", "policy", "reward_model", "world_model"):
        if classes[name] is None and name in create:
            classes[name] = class_of(name, create[name], f"create_config.{name}")
    create.setdefault("env", EasyDict(type="ding_env_wrapper_generated"))
    return classes


def _manager_of(given: Classes) -> type:
    return given["env_manager"] or registered("env_manager", "base", "env.manager")


def _defaults(user: EasyDict, create: EasyDict, given: Classes, auto: bool) -> tuple[EasyDict, type]:
    """Return the config without the user's settings, and the class of the evaluator."""
    if given["policy"] is None:
        raise ConfigValueError("compile_config needs the policy class, or auto=True and create_cfg.policy")
    env_manager = _manager_of(given)
    policy = sections.policy_section(given["policy"], create)
    sections.fill_learner(policy, given["learner"])
    if create or given["collector"] is not None:
        where, own = "policy.collect.collector", sections.dig(user, "policy", "collect", "collector")
        policy.collect.collector, _ = sections.component(
            "serial_collector", where, policy.collect.collector, given["collector"], own
        )
    where, own = "policy.eval.evaluator", sections.dig(user, "policy", "eval", "evaluator")
    section, evaluator = sections.component(
        "serial_evaluator", where, policy.eval.evaluator, given["evaluator"], own, default_type="interaction"
    )
    policy.eval.evaluator = section
    if auto:
        policy.other.commander = defaults_of(import_by_name(*SERIAL_COMMANDER), "policy.other.commander")
    if create or given["buffer"] is not None:
        policy.other.replay_buffer = sections.compile_buffer_config(policy, user, given["buffer"])
    result = EasyDict(env=sections.env_section(given["env"], env_manager, create), policy=policy)
    for name in ("reward_model", "world_model"):
        if given[name] is not None:
            result[name] = defaults_of(given[name], name)
    if "world_model" in result:
        result.world_model.update(create.get("world_model", {}))
    return result, evaluator


def _check(user: EasyDict, create: EasyDict, defaults: EasyDict, given: Classes, strict: bool) -> None:
    manager = defaults_of(_manager_of(given), "env.manager")
    check_keys(user, defaults, strict, given["policy"], misspelt_in_create(create, manager))
    check_values(user, defaults, given["policy"])
    if isinstance(create.get("env_manager"), Mapping):
        check_values({"create_config.env_manager": create.env_manager}, {"create_config.env_manager": manager})
    if strict and user.get("policy", {}).get("cuda") is True and not torch.cuda.is_available():
        raise ConfigValueError(f"{MISSING_GPU}: set it to 'auto' (the GPU where there is one) or to False (the CPU)")


def _finish(result: EasyDict, evaluator: type, seed: int) -> None:
    check_ranges(result)
    check_rate_limit(result.get("policy", {}), pushes_n_sample=True)
    if "unroll_len" in result.policy:
        result.policy.collect.unroll_len = result.policy.unroll_len
    result.seed = seed
    if result.env.stop_value is None:  # no return ends the run
        result.env.stop_value = sections.ENV_TEMPLATE["stop_value"]
    interactive = [SERIAL_EVALUATOR_REGISTRY.get(name, None) for name in ("interaction", "battle_interaction")]
    if issubclass(evaluator, tuple(cls for cls in interactive if cls is not None)):
        result.policy.eval.evaluator.stop_value = result.env.stop_value
        result.policy.eval.evaluator.n_episode = result.env.n_evaluator_episode
    result.setdefault("exp_name", "default_experiment")


def _save(result: EasyDict, create: EasyDict | None, save_path: str, renew_dir: bool, save_git_info: bool) -> None:
    names = [create_experiment_dir(result.exp_name, renew_dir) if get_rank() == 0 else result.exp_name]
    broadcast_object_list(names, src=0)  # every rank writes to the folder that rank 0 created
    result.exp_name = names[0]
    if get_rank() != 0:
        return
    if save_git_info:
        write_git_info(result.exp_name)
    path = Path(result.exp_name) / save_path
    save_leniently(
        lambda strict: save_config(result, path, save_formatted=True, create_cfg=create, strict=strict),
        path,
    )
    record_run_code(result.exp_name, save_path, [result, create or {}])
