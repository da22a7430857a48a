"""Configs of the parallel mode: ``compile_config_parallel`` merges three configs with defaults, and checks them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from easydict import EasyDict

from ding.config import sections
from ding.config.backends import choose_backend
from ding.config.checks.keys import check_keys, refuse_misspelt, refuse_misspelt_sections
from ding.config.checks.parallel import check_commander, check_create, check_main, check_on_policy, check_system
from ding.config.checks.rate_limit import check_rate_limit
from ding.config.checks.shards import check_shards
from ding.config.checks.values import check_buffer_fits, check_ranges, check_seed, check_values, make_whole
from ding.config.errors import ConfigValueError
from ding.config.experiment_dir import create_experiment_dir
from ding.config.own.record import record_run_code
from ding.config.resolve import class_of, defaults_of, import_by_name
from ding.config.source import parallel_config_to_source, save_leniently
from ding.config.utils import (
    Hosts,
    choose_free_ports,
    parallel_transform,
    parallel_transform_k8s,
    parallel_transform_slurm,
)
from ding.utils import did_you_mean
from ding.utils.file_helper import write_text

_COORDINATOR = ("ding.worker.coordinator", "Coordinator")
MAX_SAMPLES_PER_INSERT = ("max_samples_per_insert", 1000.0)
"""Key and default of the maximum average number of times that the coordinator sends each row to a learner; ``None``: no
limit. Several hundred are usual with large batches; without a limit, a learner would train forever on a static
buffer."""
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
    free_ports: bool = True,
) -> EasyDict:
    """Return ``{main, system, seed}``; the inputs are not modified.

    ``main`` is the main config with the defaults of every class filled in. ``system`` has a section ``coordinator`` and
    one per worker (``learner0``, ``collector0``, ...); see ``ding.config.utils``.

    Args:
        cfg, create_cfg, system_cfg: The three configs.
        seed: Stored as ``seed``.
        save_cfg: Create the experiment folder and write the three configs to it, as a file that can be run again.
        save_path: Name of that file inside the experiment folder.
        platform: ``'local'`` (processes of one machine, or given hosts), ``'slurm'`` or ``'k8s'``.
        coordinator_host, learner_host, collector_host: Hosts (nodes with ``'slurm'``); default 127.0.0.1.
        coordinator_port, learner_port, collector_port: For ``'k8s'``; otherwise only the coordinator's is used.
        renew_dir: Use a new folder if ``exp_name`` exists.
        strict: Raise an error for misspelt and unused keys in all sections, not only in those of the parallel mode.
        free_ports: With ``'local'``: assign a currently free port to every process, for scripts that connect their
            workers themselves. Otherwise such a port is 0: the process binds a free one and reports it on enrolment.

    Raises:
        ConfigError: See the tree in ``ding.config.errors``. Every message names the full path of the key.
    """
    if platform not in PLATFORMS:
        raise ConfigValueError(f"platform: there is no {platform!r}.{did_you_mean(platform, PLATFORMS)}")
    configs = {"main_config": cfg, "create_config": create_cfg, "system_config": system_cfg}
    user, create, system = (sections.copied(config, name) for name, config in configs.items())
    coordinator = _check_all(user, create, system, seed)
    original = sections.copied(system, "system_config")
    main = _compile_main(user, create, strict)
    _take_workers(create, system)
    if save_cfg:
        _make_folder(main, system, renew_dir)
    main.policy.other.commander.path_policy = system.get("path_policy", "auto")
    result = EasyDict(main=main, system=system, seed=seed)
    hosts = (coordinator_host, learner_host, collector_host)
    result = _with_addresses(result, platform, hosts, (coordinator_port, learner_port, collector_port))
    if platform == "local" and free_ports:
        choose_free_ports(result.system)
    result.system.coordinator = sections.merged(coordinator, result.system.coordinator)
    if save_cfg:
        _save(main, create, {**original, **_paths(system)}, seed, Path(main.exp_name) / save_path)
    return result


def _with_addresses(
    result: EasyDict, platform: str, hosts: tuple[str | None, Hosts, Hosts], ports: tuple[int | None, ...]
) -> EasyDict:
    """Adapt ``result.system`` to a platform; hosts and ports are those of coordinator, learners and collectors."""
    if platform == "k8s":
        return parallel_transform_k8s(result, *ports)
    if ports[0] is not None:
        result.system.setdefault("coordinator", EasyDict()).port = ports[0]
    transform = parallel_transform if platform == "local" else parallel_transform_slurm
    return transform(result, *hosts)


def _check_all(user: EasyDict, create: EasyDict, system: EasyDict, seed: int) -> EasyDict:
    """Check the three configs as written; return the defaults of the coordinator."""
    check_seed(seed)
    check_create(create)
    check_main(user)
    defaults = defaults_of(import_by_name(*_COORDINATOR), "system_config.coordinator")
    check_system(system, defaults)
    check_values(
        {"system_config": {"coordinator": system.get("coordinator", {})}},
        {"system_config": {"coordinator": defaults}},
    )
    return defaults


def _take_workers(create: EasyDict, system: EasyDict) -> None:
    """Check the comm parts of ``create_config`` and copy them to the system config, where the workers read them."""
    choose_backend(create, system)
    for part in ("comm_learner", "comm_collector"):
        own = defaults_of(class_of(part, create[part], f"create_config.{part}"), f"create_config.{part}")
        refuse_misspelt(create[part], ("type", "import_names", *own), f"create_config.{part}")
        check_values({"create_config": {part: create[part]}}, {"create_config": {part: own}})
        system[part] = create[part]


def whole_main_config(cfg: Mapping[str, Any], create_cfg: Mapping[str, Any]) -> tuple[EasyDict, EasyDict, type]:
    """Return the defaults of a main config, the config merged over them, and the class of its policy, without checks.

    Raises:
        ConfigError: A class named in the create config is not found.
    """
    user, create = sections.copied(cfg, "main_config"), sections.copied(create_cfg, "create_config")
    check_create(create)
    defaults, _, policy_cls = _main_defaults(user, create)
    return defaults, sections.merged(defaults, user), policy_cls


def _main_defaults(user: EasyDict, create: EasyDict) -> tuple[EasyDict, type, type]:
    """Return the main config without the user's settings, and the classes of env and policy."""
    create.setdefault("replay_buffer", EasyDict(type="advanced"))
    # As in the serial mode, every process creates the policy with a command mode.
    create.policy.type = create.policy.type.removesuffix("_command") + "_command"
    env, env_manager, policy_cls = (
        class_of(part, create[part], f"create_config.{part}") for part in ("env", "env_manager", "policy")
    )
    policy = sections.policy_section(policy_cls, create)
    sections.fill_learner(policy, class_of("learner", create.learner, "create_config.learner"))
    policy.collect.collector, _ = sections.component(
        "parallel_collector", "create_config.collector", policy.collect.collector
    )
    policy.other.commander = _commander(user, create)
    policy.other.replay_buffer = sections.compile_buffer_config(policy, user, None)
    policy.other.replay_buffer.setdefault(*MAX_SAMPLES_PER_INSERT)
    policy.other.replay_buffer.setdefault("shards", 1)
    if policy.other.replay_buffer.get("multi_buffer", False):
        raise ConfigValueError(
            f"create_config.policy.type {create.policy.type.removesuffix('_command')!r} learns from several replay "
            "buffers (policy.other.replay_buffer.multi_buffer), and the parallel mode has one; run it with -m serial"
        )
    return EasyDict(env=sections.env_section(env, env_manager, create), policy=policy), env, policy_cls


def _compile_main(user: EasyDict, create: EasyDict, strict: bool) -> EasyDict:
    refuse_misspelt_sections(user, {})
    defaults, env, policy_cls = _main_defaults(user, create)
    check_keys(user, defaults, strict, policy_cls)
    check_values(user, defaults, policy_cls)
    make_whole(user, defaults)
    result = sections.merged(defaults, user)
    check_ranges(result)
    sections.settle_step_limit(result.env)
    sections.settle_actions(result.env, env, policy_cls, strict)
    result.setdefault("exp_name", "default_experiment")
    result.policy.type = create.policy.type
    _take_load_path(result.policy.learn.learner)
    check_on_policy(result.policy)
    if not result.policy.on_policy:
        check_buffer_fits(result.policy)
    check_rate_limit(result.policy, pushes_n_sample=False)
    check_shards(result.policy)
    return result


def _take_load_path(learner: EasyDict) -> None:
    """Apply ``policy.learn.learner.load_path``, an alias for the checkpoint from which the learner starts."""
    if learner.get("load_path") and not learner.hook.get("load_ckpt_before_run"):
        learner.hook.load_ckpt_before_run = learner.load_path


def _commander(user: EasyDict, create: EasyDict) -> EasyDict:
    section = defaults_of(class_of("commander", create.commander, "create_config.commander"), "policy.other.commander")
    check_commander(sections.dig(user, "policy", "other", "commander"), section)
    section.update(create.commander)
    # By default as many tasks as workers.
    section.collector_task_space = sections.dig(user, "policy", "collect", "collector")["collector_num"]
    section.learner_task_space = sections.dig(user, "policy", "learn", "learner")["learner_num"]
    return section


def _make_folder(main: EasyDict, system: EasyDict, renew_dir: bool) -> None:
    """Create the experiment folder; folders of the system config inside of it follow its final name."""
    wanted = os.path.normpath(main.exp_name)
    main.exp_name = create_experiment_dir(main.exp_name, renew_dir)
    for key, path in _paths(system).items():
        inside = os.path.relpath(path, wanted) if path != "auto" else ".."
        if not inside.startswith("..") and not os.path.isabs(inside):
            system[key] = os.path.join(main.exp_name, inside)


def _paths(system: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(system[key]) for key in ("path_data", "path_policy") if key in system}


def _save(main: EasyDict, create: EasyDict, system: Mapping[str, Any], seed: int, path: Path) -> None:
    def save(strict: bool) -> None:
        text = parallel_config_to_source({**main, "seed": seed}, create, system, strict=strict)
        write_text(path, text)

    save_leniently(save, path)
    record_run_code(main.exp_name, path.name, [main, create, system])
