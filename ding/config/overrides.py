"""Config keys given as text on the command line: ``policy.learn.batch_size=128``."""

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from easydict import EasyDict

from ding.config.checks.keys import CREATE_KEYS, OPTIONAL_KEYS, SERIAL_CREATE_KEYS, misspelt_in_create, unknown_keys
from ding.config.compile import whole_config
from ding.config.compile_parallel import whole_main_config
from ding.config.errors import ConfigError, ConfigValueError, UnknownKeyError
from ding.config.resolve import class_of, defaults_of
from ding.utils import did_you_mean
from ding.utils.nested import iter_paths

_TOP_KEYS = OPTIONAL_KEYS[""]
_WORDS = {"true": True, "false": False, "none": None, "inf": float("inf"), "-inf": float("-inf")}


def apply_overrides(texts: Iterable[str], configs: Mapping[str, EasyDict]) -> None:
    """Set config keys as in :func:`apply_values`; each text is ``KEY=VALUE``, the value a Python literal or a string.

    Raises:
        ConfigError: A text has no ``=``, or a key is invalid.
    """
    apply_values(map(parsed, texts), configs)


def apply_values(values: Iterable[tuple[str, Any]], configs: Mapping[str, EasyDict]) -> None:
    """Set keys of configs in place; the checks of the compiled config then apply to them like to keys of a file.

    Args:
        values: Pairs of key and value. The key is a path in ``main_config``, or starts with the name of another config,
            as in ``create_config.policy.type``; or it is a bare name such as ``batch_size``, which must identify one
            key of the whole config (the one nearest to the top), or one section that may contain it.
        configs: Configs by name: ``main_config``, ``create_config``, and ``system_config`` in the parallel mode.

    Raises:
        ConfigValueError: No key or several keys have this name, or the path leads through a value that is not a
            section.
        UnknownKeyError: The path is misspelt, or the key is unused there.
    """
    given, short = {name: EasyDict() for name in configs}, []
    for key, value in values:
        root, path = _place_of(key, configs)
        if len(path) == 1 and root == "main_config" and path[0] not in _TOP_KEYS:
            short.append((key, value))
            continue
        set_key(configs[root], path, value)
        set_key(given[root], path, value)
    if short:
        _, whole, _ = _whole(configs)
        for key, value in short:
            set_key(configs["main_config"], _path_of(key, whole), value)
    if any(given.values()):
        _refuse_unread(given, configs)


def _place_of(key: str, configs: Mapping[str, EasyDict]) -> tuple[str, list[str]]:
    """Return the name of the config that contains a key, and its path there."""
    path = key.split(".")
    root = path.pop(0) if path[0] in configs and len(path) > 1 else "main_config"
    known = {"main_config": _TOP_KEYS, "create_config": CREATE_KEYS | SERIAL_CREATE_KEYS}.get(root)
    if known is None or (len(path) == 1 and root == "main_config"):
        return root, path
    names = {*known, *configs[root]}
    if path[0] not in names:
        raise ConfigValueError(f"{key}: {root} has no section {path[0]!r}.{did_you_mean(path[0], names)}")
    return root, path


def _whole(configs: Mapping[str, EasyDict]) -> tuple[EasyDict, EasyDict, type]:
    compiled = whole_main_config if "system_config" in configs else whole_config
    return compiled(configs["main_config"], configs["create_config"])


def _refuse_unread(given: Mapping[str, EasyDict], configs: Mapping[str, EasyDict]) -> None:
    """Reject misspelt and unused overrides."""
    try:
        defaults, _, policy = _whole(configs)
    except ConfigError:
        return  # the run reports it itself
    found = unknown_keys(given["main_config"], defaults, policy)
    found += misspelt_in_create(given.get("create_config", {}), _manager_defaults(configs["create_config"]))
    if found:
        raise UnknownKeyError("the config has unknown keys: " + " ".join(found), found)


def _manager_defaults(create: EasyDict) -> EasyDict:
    cls = class_of("env_manager", create.env_manager, "create_config.env_manager")
    return defaults_of(cls, "create_config.env_manager")


def _path_of(name: str, config: Mapping[str, Any]) -> list[str]:
    """Return the path of the key with this name that is nearest to the top, or of the section that may contain it."""
    leaves = iter_paths(config, empty=True)
    paths = list(dict.fromkeys(tuple(map(str, keys[:end])) for keys, _ in leaves for end in range(1, len(keys) + 1)))
    found = [path for path in paths if path[-1] == name] or [
        (*section.split("."), name) for section, names in OPTIONAL_KEYS.items() if section and name in names
    ]
    nearest = [path for path in found if len(path) == min(map(len, found))]
    if len(nearest) == 1:
        return list(nearest[0])
    if not found:
        names = {path[-1] for path in paths}.union(*OPTIONAL_KEYS.values())
        raise ConfigValueError(f"{name}: the config has no such key.{did_you_mean(name, names)}")
    raise ConfigValueError(f"{name}: give one of {', '.join('.'.join(path) for path in nearest)}")


def parsed(text: str) -> tuple[str, Any]:
    """Return the key and the value of ``KEY=VALUE``.

    Raises:
        ConfigValueError: There is no ``=``, or a part of the key is missing.
    """
    key, equals, value = text.partition("=")
    if not equals or not all(key.strip().split(".")):
        raise ConfigValueError(f"-o {text}: expected KEY=VALUE, such as policy.learn.batch_size=128")
    return key.strip(), literal(value.strip())


def set_key(config: EasyDict, path: list[str], value: Any) -> None:
    """Set the key at a path, and create missing sections.

    Raises:
        ConfigValueError: A value on the path is not a section.
    """
    section = config
    for number, name in enumerate(path[:-1], 1):
        section = section.setdefault(name, EasyDict())
        if not isinstance(section, dict):
            raise ConfigValueError(f"{'.'.join(path)}: {'.'.join(path[:number])} is {section!r} and has no keys")
    section[path[-1]] = EasyDict(value) if isinstance(value, dict) else value


def literal(text: str) -> Any:
    """Return the value of a text: a Python literal, ``true``, ``false``, ``none``, ``inf`` in any case, or a string."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
