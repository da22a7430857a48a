"""`compile_config_parallel`: the three configs of the parallel mode, merged with defaults and checked, as one."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from easydict import EasyDict

from ding.config._experiment_dir import create_experiment_dir
from ding.config._key_check import check_keys
from ding.config._parallel_checks import check_commander, check_create, check_main, check_system, refuse_misspelt
from ding.config._resolve import class_of, defaults_of, import_by_name
from ding.config._source import parallel_config_to_source
from ding.config._value_check import check_values
from ding.config.compile import POLICY_TEMPLATE, _dig, _env_defaults, _fill_learner, compile_buffer_config
from ding.config.errors import ConfigNotSerializableError, ConfigValueError
from ding.config.utils import Hosts, parallel_transform, parallel_transform_k8s, parallel_transform_slurm
from ding.utils import deep_merge_dicts, nearest
from ding.utils.file_helper import atomic_write

logger = logging.getLogger("ding.config")

_COORDINATOR = ("ding.worker.coordinator", "Coordinator")
PLATFORMS = ("local", "slurm", "k8s")


def compile_config_parallel(
    cfg: Mapping[str, Any],
    create_cfg: Mapping[str, Any],
    system_cfg: Mapping[str, Any],
    seed: int = 0,
    save_cfg: bool = True,
    save_path: str = "total_config.py",
    platform: str = "local",
    coordinator_host: str | None = None,
    learner_host: Hosts = None,
    collector_host: Hosts = None,
    coordinator_port: int | None = None,
    learner_port: int | None = None,
    collector_port: int | None = None,
    renew_dir: bool = True,
    strict: bool = False,
) -> EasyDict:
    """Return ``{main, system, seed}``; the inputs are not changed.

    ``main`` is the main config with the defaults of every class filled in. ``system`` has a section ``coordinator``
    and one per worker (``learner0``, ``collector0``, ...); see `ding.config.utils`. A port of 0 is any free port.

    Args:
        cfg, create_cfg, system_cfg: The three configs.
        seed: Stored as ``seed``.
        save_cfg: Make the experiment folder and write the three configs into it, as a file that runs again.
        save_path: Its name inside the experiment folder.
        platform: ``'local'`` (processes of one machine, or hosts that are given), ``'slurm'`` or ``'k8s'``.
        coordinator_host, learner_host, collector_host: Hosts; 127.0.0.1 when not given. With ``'slurm'`` the latter
            two are nodes.
        coordinator_port, learner_port, collector_port: Ports for ``'k8s'``; elsewhere a port of the coordinator goes
            before its config.
        renew_dir: Use a new folder when ``exp_name`` exists already.
        strict: A key that looks misspelt is an error everywhere, and not only in the sections of the parallel mode.

    Raises:
        ConfigError: See the tree in `ding.config.errors`. Every message names the full path of the key.
    """
    _check_platform(platform)
    user, create, system = (
        _copied(value, name)
        for value, name in ((cfg, "main_config"), (create_cfg, "create_config"), (system_cfg, "system_config"))
    )
    check_create(create)
    check_main(user)
    coordinator_defaults = defaults_of(import_by_name(*_COORDINATOR), "system_config.coordinator")
    check_system(system, coordinator_defaults)
    check_values(
        {"system_config": {"coordinator": system.get("coordinator", {})}},
        {"system_config": {"coordinator": coordinator_defaults}},
    )
    original = EasyDict(deepcopy(dict(system)))

    main = _compile_main(user, create, strict)
    _take_workers(create, system)
    if save_cfg:
        _make_folder(main, system, renew_dir)
    main.policy.other.commander.path_policy = system.get("path_policy", "auto")
    if coordinator_port is not None and platform != "k8s":
        system.setdefault("coordinator", EasyDict()).port = coordinator_port
    result = EasyDict(main=main, system=system, seed=seed)
    if platform == "k8s":
        result = parallel_transform_k8s(result, coordinator_port, learner_port, collector_port)
    else:
        transform = parallel_transform if platform == "local" else parallel_transform_slurm
        result = transform(result, coordinator_host, learner_host, collector_host)
    result.system.coordinator = EasyDict(deep_merge_dicts(coordinator_defaults, result.system.coordinator))
    if save_cfg:
        _save(main, create, {**original, **_paths(system)}, seed, Path(main.exp_name) / save_path)
    return result


def _check_platform(platform: str) -> None:
    if platform not in PLATFORMS:
        near = nearest(platform, PLATFORMS)
        raise ConfigValueError(
            f"platform: there is no {platform!r}" + (f"; did you mean {near!r}?" if near else f", only {PLATFORMS}")
        )


def _take_workers(create: EasyDict, system: EasyDict) -> None:
    """Check the comm parts of ``create_config`` and put them into the system config, where the workers read them."""
    for part in ("comm_learner", "comm_collector"):
        own = defaults_of(class_of(part, create[part], f"create_config.{part}"), f"create_config.{part}")
        refuse_misspelt(create[part], ("type", "import_names", *own), f"create_config.{part}")
        check_values({"create_config": {part: create[part]}}, {"create_config": {part: own}})
        system[part] = create[part]


def _copied(value: Any, name: str) -> EasyDict:
    if not isinstance(value, Mapping):
        raise ConfigValueError(f"{name} must be a dict, got {type(value).__name__}")
    return EasyDict(deepcopy(dict(value)))


def _compile_main(user: EasyDict, create: EasyDict, strict: bool) -> EasyDict:
    create.setdefault("replay_buffer", EasyDict(type="advanced"))
    env = class_of("env", create.env, "create_config.env")
    env_manager = class_of("env_manager", create.env_manager, "create_config.env_manager")
    policy = _policy_defaults(user, create)
    _fill_learner(policy, create, class_of("learner", create.learner, "create_config.learner"))
    policy.other.replay_buffer = compile_buffer_config(policy, user, None)
    defaults = EasyDict(env=_env_defaults(env, env_manager, create), policy=policy)
    check_keys(user, defaults, strict)
    check_values(user, defaults)
    result = EasyDict(deep_merge_dicts(defaults, user))
    result.setdefault("exp_name", "default_experiment")
    # The policy that is built in every process is the one with a command mode, as in the serial mode.
    result.policy.type = create.policy.type
    return result


def _policy_defaults(user: EasyDict, create: EasyDict) -> EasyDict:
    create.policy.type = create.policy.type.removesuffix("_command") + "_command"
    cls = class_of("policy", create.policy, "create_config.policy")
    result = EasyDict(deep_merge_dicts(POLICY_TEMPLATE, defaults_of(cls, "policy")))
    result.update(create.policy)
    collector = class_of("parallel_collector", create.collector, "create_config.collector")
    commander = class_of("commander", create.commander, "create_config.commander")
    own = defaults_of(collector, "policy.collect.collector")
    result.collect.collector = EasyDict(deep_merge_dicts(own, {**result.collect.collector, **create.collector}))
    own = defaults_of(commander, "policy.other.commander")
    written = _dig(user, "policy", "other", "commander")
    check_commander(written, own)
    own.update(create.commander)
    # As many tasks as there are workers, where nobody says otherwise.
    own.collector_task_space = _dig(user, "policy", "collect", "collector")["collector_num"]
    own.learner_task_space = _dig(user, "policy", "learn", "learner")["learner_num"]
    result.other.commander = own
    if "evaluator" in create:
        result.eval.evaluator.update(create.evaluator)
    result.other.replay_buffer.update(create.replay_buffer)
    return result


def _make_folder(main: EasyDict, system: EasyDict, renew_dir: bool) -> None:
    """Make the experiment folder; folders of the system config that lie in it move with it when it gets a new name."""
    wanted = os.path.normpath(main.exp_name)
    main.exp_name = create_experiment_dir(main.exp_name, renew_dir)
    for key, path in _paths(system).items():
        inside = os.path.relpath(path, wanted) if path != "auto" else ".."
        if not inside.startswith("..") and not os.path.isabs(inside):
            system[key] = os.path.join(main.exp_name, inside)


def _paths(system: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(system[key]) for key in ("path_data", "path_policy") if key in system}


def _save(main: EasyDict, create: EasyDict, system: Mapping[str, Any], seed: int, path: Path) -> None:
    saved = EasyDict({**main, "seed": seed})
    try:
        text = parallel_config_to_source(saved, create, system)
    except ConfigNotSerializableError as error:
        logger.warning("%s; %s is written without it and asks for it when it is read", error, path)
        text = parallel_config_to_source(saved, create, system, strict=False)
    with atomic_write(path) as file:
        file.write(text.encode())
