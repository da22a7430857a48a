"""Checks of ``compile_config_parallel`` before a process starts.

In sections that only the parallel mode reads, a key that looks misspelt is an error. In all others the rules of
``ding.config.checks.keys`` apply.
"""

from collections.abc import Mapping
from typing import Any

from ding.config.checks.keys import CREATE_KEYS, refuse_misspelt
from ding.config.checks.ranges import COUNT, Range, is_number
from ding.config.errors import ConfigValueError
from ding.config.per_collector import check_per_collector
from ding.utils import did_you_mean

NEEDED_PARTS = ("env", "env_manager", "policy", "learner", "collector", "commander", "comm_learner", "comm_collector")
SYSTEM_KEYS = (
    *("coordinator", "path_data", "path_policy", "communication_mode", "learner_gpu_num", "tls", "backend", "ray"),
    *("comm_learner", "comm_collector", "learner_host", "collector_host", "learner_port", "collector_port"),
)
COORDINATOR_KEYS = ("host", "port", "operator_server", "learner", "collector", "cfg_type")
TASK_KEYS = ("collector_task_space", "learner_task_space", "eval_interval")
COMMANDER_KEYS = ("type", "import_names", "path_policy", "league", "cfg_type", *TASK_KEYS)
_COUNTS = (
    "policy.learn.learner.learner_num",
    "policy.collect.collector.collector_num",
    "env.collector_episode_num",
    "env.evaluator_episode_num",
)


def check_create(create: Mapping[str, Any]) -> None:
    """Check the names of the parts, and the ``type`` of the required ones.

    Raises:
        UnknownKeyError: A name looks misspelt.
        ConfigValueError: A part is missing or has no ``type``.
    """
    refuse_misspelt(create, CREATE_KEYS, "create_config")
    for part in NEEDED_PARTS:
        section = create.get(part)
        if not isinstance(section, Mapping):
            raise ConfigValueError(f"create_config.{part} is missing: the parallel mode needs a dict with a `type`")
        if not part.startswith("comm_") or "type" not in section:  # other parts may contain any key of their class
            refuse_misspelt(section, ("type", "import_names"), f"create_config.{part}")
        if not isinstance(section.get("type"), str):
            raise ConfigValueError(f"create_config.{part}.type is missing: it must be the name of a registered {part}")


def check_main(main: Mapping[str, Any]) -> None:
    """Check the keys that the parallel mode requires.

    Raises:
        ConfigValueError: A key is missing or has an invalid value.
    """
    for path in _COUNTS:
        value = _required(main, path)
        _check(isinstance(value, int) and COUNT.holds(value), f"main_config.{path}", COUNT.text(), value)
    stop_value = _required(main, "env.stop_value")
    _check(is_number(stop_value), "main_config.env.stop_value", "a number", stop_value)
    name = main.get("exp_name", "default")
    _check(isinstance(name, str) and bool(name), "main_config.exp_name", "the name of a folder", name)
    check_per_collector(main["env"])


def check_on_policy(policy: Mapping[str, Any]) -> None:
    """Check the requirements of an on-policy run: a known number of samples per round, and one learner.

    Raises:
        ConfigValueError: A requirement is not met.
    """
    if not policy.get("on_policy"):
        return
    n_sample, learners = policy["collect"].get("n_sample"), policy["learn"]["learner"]["learner_num"]
    where = "main_config.policy"
    holds = isinstance(n_sample, int) and COUNT.holds(n_sample)
    _check(holds, f"{where}.collect.n_sample", "the number of samples of an on-policy collection", n_sample)
    _check(learners == 1, f"{where}.learn.learner.learner_num", "1 for an on-policy policy", learners)
    if policy["learn"].get("value_norm") and not policy.get("recompute_adv"):
        raise ConfigValueError(
            f"{where}.recompute_adv must be true with learn.value_norm: collectors do not know the unit of the values"
        )


def check_system(system: Mapping[str, Any], coordinator_defaults: Mapping[str, Any]) -> None:
    """Check the system config.

    Raises:
        UnknownKeyError: A key looks misspelt.
        ConfigValueError: A key has an invalid value.
    """
    refuse_misspelt(system, SYSTEM_KEYS, "system_config")
    coordinator = system.get("coordinator", {})
    _check(isinstance(coordinator, Mapping), "system_config.coordinator", "a dict", coordinator)
    refuse_misspelt(coordinator, {*COORDINATOR_KEYS, *coordinator_defaults}, "system_config.coordinator")
    check_communication_mode(system)
    for key in ("path_data", "path_policy"):
        path = system.get(key, "auto")
        _check(isinstance(path, str), f"system_config.{key}", "a folder or 'auto'", path)
    checked_port(coordinator.get("port"), "system_config.coordinator.port")
    for key in ("learner_port", "collector_port"):
        ports = system.get(key)
        for port in ports if isinstance(ports, (list, tuple)) else [ports]:
            checked_port(port, f"system_config.{key}")
    gpus = system.get("learner_gpu_num", 0)
    allowed = Range(0, whole=True)
    _check(isinstance(gpus, int) and allowed.holds(gpus), "system_config.learner_gpu_num", allowed.text(), gpus)


def check_communication_mode(system: Mapping[str, Any]) -> None:
    """Check that hosts and ports are assigned by this library.

    Raises:
        ConfigValueError: ``communication_mode`` is not ``'auto'``.
    """
    mode = system.get("communication_mode", "auto")
    _check(mode == "auto", "system_config.communication_mode", "'auto'", mode)


def check_commander(section: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Check the user's ``policy.other.commander``.

    Raises:
        UnknownKeyError: A key looks misspelt.
        ConfigValueError: A task space or the evaluation interval is not positive.
    """
    where = "main_config.policy.other.commander"
    refuse_misspelt(section, {*COMMANDER_KEYS, *defaults}, where)
    for key in TASK_KEYS:
        value = section.get(key, 1)
        _check(is_number(value) and float(value) > 0, f"{where}.{key}", "positive", value)


def checked_port(value: object, where: str) -> int:
    """Return a port number; ``'auto'`` and ``None`` become 0, any free port.

    Raises:
        ConfigValueError: The value is not a port.
    """
    if value is None or value == "auto":
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 65535:
        raise ConfigValueError(f"{where} must be 'auto' or a port number of at most 65535, got {value!r}")
    return value


def _check(holds: bool, where: str, expected: str, value: object) -> None:
    if not holds:
        raise ConfigValueError(f"{where} must be {expected}, got {value!r}")


def _required(main: Mapping[str, Any], path: str) -> object:
    section: object = main
    walked = "main_config"
    for key in path.split("."):
        if not isinstance(section, Mapping):
            raise ConfigValueError(f"{walked} must be a dict, got {type(section).__name__}")
        if key not in section:
            hint = did_you_mean(key, section)
            raise ConfigValueError(f"main_config.{path} is missing: the parallel mode needs it.{hint}")
        section = section[key]
        walked += f".{key}"
    return section
