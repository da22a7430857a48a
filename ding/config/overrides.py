"""Keys of a config given as text, on the command line: ``policy.learn.batch_size=128``."""

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from easydict import EasyDict

from ding.config.errors import ConfigValueError

_WORDS = {"true": True, "false": False, "none": None, "inf": float("inf"), "-inf": float("-inf")}


def apply_overrides(texts: Iterable[str], configs: Mapping[str, EasyDict]) -> None:
    """Set keys of configs, which are changed; checks of the compiled config then judge them like those of a file.

    Args:
        texts: each ``KEY=VALUE``. The key is the path in ``main_config``, or begins with the name of another config, as
            in ``create_config.policy.type=dqn``. The value is a Python literal, or else a text.
        configs: by their name: ``main_config``, ``create_config``, ``system_config``.

    Raises:
        ConfigValueError: a text has no ``=`` or no key, or its path leads through something that is no section.
    """
    for text in texts:
        key, value = parsed(text)
        path = key.split(".")
        root = path.pop(0) if path[0] in configs and len(path) > 1 else "main_config"
        set_key(configs[root], path, value)


def parsed(text: str) -> tuple[str, Any]:
    """The key and the value of ``KEY=VALUE``.

    Raises:
        ConfigValueError: there is no ``=``, or a part of the key is missing.
    """
    key, equals, value = text.partition("=")
    if not equals or not all(key.strip().split(".")):
        raise ConfigValueError(f"-o {text}: expected KEY=VALUE, such as policy.learn.batch_size=128")
    return key.strip(), literal(value.strip())


def set_key(config: EasyDict, path: list[str], value: Any) -> None:
    """Set the key at a path; sections that are missing are made.

    Raises:
        ConfigValueError: something on the way is no section.
    """
    section: Any = config
    for number, name in enumerate(path[:-1], 1):
        section = section.setdefault(name, EasyDict())
        if not isinstance(section, dict):
            raise ConfigValueError(f"{'.'.join(path)}: {'.'.join(path[:number])} is {section!r} and has no keys")
    section[path[-1]] = EasyDict(value) if isinstance(value, dict) else value


def literal(text: str) -> Any:
    """The value of a text: a Python literal, ``true``, ``false``, ``none`` or ``inf`` in any case, or the text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
