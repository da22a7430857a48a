"""What must be right in the configs of the parallel mode before a process starts; messages have the full path.

A key of a section that only the parallel mode reads is an error when it looks misspelt: nobody else could want it, and
its default would go unnoticed in a run of many processes. Everywhere else the rules of `ding.config._key_check` hold.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from ding.config._key_check import _nearest
from ding.config.errors import ConfigValueError, UnknownKeyError, did_you_mean

logger = logging.getLogger("ding.config")

CREATE_KEYS = [
    "env",
    "env_manager",
    "policy",
    "collector",
    "replay_buffer",
    "evaluator",
    "learner",
    "commander",
    "comm_learner",
    "comm_collector",
    "reward_model",
    "world_model",
    "league",
]
NEEDED_PARTS = ("env", "env_manager", "policy", "learner", "collector", "commander", "comm_learner", "comm_collector")
SYSTEM_KEYS = [
    "coordinator",
    "path_data",
    "path_policy",
    "communication_mode",
    "learner_gpu_num",
    "comm_learner",
    "comm_collector",
    "learner_host",
    "collector_host",
    "learner_port",
    "collector_port",
    "tls",
]
COORDINATOR_KEYS = ["host", "port", "operator_server", "learner", "collector", "cfg_type"]
COMMANDER_KEYS = [
    "type",
    "import_names",
    "path_policy",
    "league",
    "cfg_type",
    "collector_task_space",
    "learner_task_space",
    "eval_interval",
]
_COUNTS = (
    "policy.learn.learner.learner_num",
    "policy.collect.collector.collector_num",
    "env.collector_episode_num",
    "env.evaluator_episode_num",
)


def check_create(create: Mapping[str, Any]) -> None:
    """Check the names of the parts and that the needed ones have a ``type``.

    Raises:
        UnknownKeyError: A name that looks misspelt.
        ConfigValueError: A part is missing or has no ``type``.
    """
    refuse_misspelt(create, CREATE_KEYS, "create_config")
    for part in NEEDED_PARTS:
        section = create.get(part)
        if not isinstance(section, Mapping):
            raise ConfigValueError(f"create_config.{part} is missing: the parallel mode needs a dict with a `type`")
        if not part.startswith("comm_") or "type" not in section:  # the others may hold what their class knows
            refuse_misspelt(section, ("type", "import_names"), f"create_config.{part}")
        if not isinstance(section.get("type"), str):
            raise ConfigValueError(f"create_config.{part}.type is missing: it must be the name of a registered {part}")


def check_main(main: Mapping[str, Any]) -> None:
    """Check the keys that the parallel mode cannot do without.

    Raises:
        ConfigValueError: A key is missing or holds something it cannot hold.
    """
    for path in _COUNTS:
        value = _required(main, path)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigValueError(f"main_config.{path} must be a whole number of at least 1, got {value!r}")
    stop_value = _required(main, "env.stop_value")
    if isinstance(stop_value, bool) or not isinstance(stop_value, (int, float)):
        raise ConfigValueError(f"main_config.env.stop_value must be a number, got {stop_value!r}")
    if "exp_name" in main and (not isinstance(main["exp_name"], str) or not main["exp_name"]):
        raise ConfigValueError(f"main_config.exp_name must be the name of a folder, got {main['exp_name']!r}")


def check_system(system: Mapping[str, Any], coordinator_defaults: Mapping[str, Any]) -> None:
    """Check the system config.

    Raises:
        UnknownKeyError: A key that looks misspelt.
        ConfigValueError: A key holds something it cannot hold.
    """
    refuse_misspelt(system, SYSTEM_KEYS, "system_config")
    coordinator = system.get("coordinator", {})
    if not isinstance(coordinator, Mapping):
        raise ConfigValueError(f"system_config.coordinator must be a dict, got {type(coordinator).__name__}")
    refuse_misspelt(coordinator, {*COORDINATOR_KEYS, *coordinator_defaults}, "system_config.coordinator")
    mode = system.get("communication_mode", "auto")
    if mode != "auto":
        raise ConfigValueError(f"system_config.communication_mode must be 'auto', got {mode!r}")
    for key in ("path_data", "path_policy"):
        if not isinstance(system.get(key, "auto"), str):
            raise ConfigValueError(f"system_config.{key} must be a folder or 'auto', got {system[key]!r}")
    checked_port(coordinator.get("port"), "system_config.coordinator.port")
    for key in ("learner_port", "collector_port"):
        ports = system.get(key)
        for port in ports if isinstance(ports, (list, tuple)) else [ports]:
            checked_port(port, f"system_config.{key}")
    gpus = system.get("learner_gpu_num", 0)
    if isinstance(gpus, bool) or not isinstance(gpus, int) or gpus < 0:
        raise ConfigValueError(f"system_config.learner_gpu_num must be a whole number, got {gpus!r}")


def check_commander(section: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Check the user's ``policy.other.commander``.

    Raises:
        UnknownKeyError: A key that looks misspelt.
        ConfigValueError: A task space or the interval of evaluations is not positive.
    """
    where = "main_config.policy.other.commander"
    refuse_misspelt(section, {*COMMANDER_KEYS, *defaults}, where)
    for key in ("collector_task_space", "learner_task_space", "eval_interval"):
        value = section.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise ConfigValueError(f"{where}.{key} must be positive, got {value!r}")


def refuse_misspelt(section: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Raise for a key of ``section`` that resembles a known one; warn about one that resembles nothing.

    Raises:
        UnknownKeyError: With the path as written and as it is known.
    """
    names = set(known)
    for key in section:
        if key in names:
            continue
        near = _nearest(str(key), names)
        if near is not None:
            raise UnknownKeyError(f"{where}.{key}: there is no such key; did you mean {where}.{near}?")
        logger.warning("%s.%s: no part of the parallel mode reads this key", where, key)


def checked_port(value: Any, where: str) -> int:
    """Return a port number; ``'auto'`` and None are 0, which is any free port.

    Raises:
        ConfigValueError: It is no port.
    """
    if value is None or value == "auto":
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 65535:
        raise ConfigValueError(f"{where} must be 'auto' or a port number of at most 65535, got {value!r}")
    return value


def _required(main: Mapping[str, Any], path: str) -> Any:
    section: Any = main
    walked = "main_config"
    for key in path.split("."):
        if not isinstance(section, Mapping):
            raise ConfigValueError(f"{walked} must be a dict, got {type(section).__name__}")
        if key not in section:
            hint = did_you_mean(key, section)
            written = hint if "did you mean" in hint else ""
            raise ConfigValueError(f"main_config.{path} is missing: the parallel mode needs it{written}")
        section = section[key]
        walked += f".{key}"
    return section
