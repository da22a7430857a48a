"""Python source text that evaluates to given values.

Supported without loss: ``None``, bool, int, float (including inf and nan), complex, str, bytes, list, tuple, set,
frozenset, dict, NumPy scalars (as Python scalars), NumPy arrays, enum members, paths, ``functools.partial``, and
modules, classes and functions that can be found by their import path. Other values are rejected with key and reason.
"""

import enum
import functools
import importlib
import logging
import math
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

import numpy as np

from ding.config.errors import ConfigNotSerializableError, ConfigValueError
from ding.config.sections import dig
from ding.utils.nested import Tree

logger = logging.getLogger("ding.config")

_WIDTH = 110
_HEADER = '"""Written by `ding.config.save_config`; `read_config` reads it and it runs the same experiment."""\n'


def raise_not_saved(key: str, reason: str) -> NoReturn:
    """Raise an error; placeholder in a saved config for a value that could not be written.

    Raises:
        ConfigValueError: Always, with the key and the reason why the value is not in the file.
    """
    raise ConfigValueError(f"{key}: the value was not saved ({reason}); write it into this file by hand")


def config_to_source(
    config: Mapping[str, Any], create_cfg: Mapping[str, Any] | None, strict: bool = True, script: bool = False
) -> str:
    """Return the text of a config file for a compiled config.

    Args:
        config: Compiled config.
        create_cfg: Create config, or ``None`` to derive it from the types in ``config``.
        strict: Raise for a value without source text instead of writing a call that raises when the file is read.
        script: Name the dict ``main_config`` and add a ``__main__`` block; else ``exp_config``, of which
            ``main_config`` is a copy.

    Raises:
        ConfigNotSerializableError: ``strict`` and a value cannot be written.
    """
    create = derive_create_config(config) if create_cfg is None else _without_command(create_cfg)
    if script:
        return _script({"main_config": config, "create_config": create}, "serial_pipeline", strict)
    writer = _Writer(strict)
    main_text, create_text = writer.render(config, "main_config", 0), writer.render(create, "create_config", 0)
    lines = [f"exp_config = {main_text}", "", "main_config = EasyDict(exp_config)"]
    return writer.file([*lines, f"create_config = EasyDict({create_text})"])


def parallel_config_to_source(
    main: Mapping[str, Any], create: Mapping[str, Any], system: Mapping[str, Any], strict: bool = True
) -> str:
    """Return the text of a config file of the parallel mode, with a ``__main__`` block.

    Args:
        main: Compiled main config.
        create, system: The two other configs, as given by the user.
        strict: As in ``config_to_source``.

    Raises:
        ConfigNotSerializableError: ``strict`` and a value cannot be written.
    """
    configs = {"main_config": main, "create_config": create, "system_config": system}
    return _script(configs, "parallel_pipeline", strict)


def save_leniently(save: Callable[[bool], None], path: object) -> None:
    """Save a config; values without source text are replaced by a placeholder, with a warning.

    Args:
        save: Writes the file; with ``strict`` (its argument) it raises for such a value.
        path: Path of the file, for the warning.
    """
    try:
        save(True)
    except ConfigNotSerializableError as error:
        logger.warning("%s; %s is written without it and asks for it when it is read", error, path)
        save(False)


def _script(configs: Mapping[str, Mapping[str, Any]], entry: str, strict: bool) -> str:
    """Return a config file that calls ``ding.entry.<entry>`` when executed."""
    writer, lines = _Writer(strict), []
    for name, config in configs.items():
        lines += [f"{name} = EasyDict({writer.render(config, name, 0)})", ""]
    lines += [
        'if __name__ == "__main__":',
        f"    from ding.entry import {entry}",
        "",
        f'    {entry}(({", ".join(configs)}), seed=main_config.get("seed", 0))',
    ]
    return writer.file(lines)


def derive_create_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Collect ``{type, import_names}`` of every component of a compiled config into a create config."""
    sections = {
        "env": ("env",),
        "env_manager": ("env", "manager"),
        "policy": ("policy",),
        "learner": ("policy", "learn", "learner"),
        "collector": ("policy", "collect", "collector"),
        "evaluator": ("policy", "eval", "evaluator"),
        "replay_buffer": ("policy", "other", "replay_buffer"),
        "reward_model": ("reward_model",),
        "world_model": ("world_model",),
    }
    create = {}
    for name, path in sections.items():
        section = dig(config, *path)
        if "type" in section:
            create[name] = {key: section[key] for key in ("type", "import_names") if key in section}
    return _without_command(create)


def _without_command(create_cfg: Mapping[str, Any]) -> dict[str, Any]:
    """Copy with the policy's plain type: the pipelines append ``_command`` themselves."""
    create = {key: dict(value) if isinstance(value, Mapping) else value for key, value in create_cfg.items()}
    policy = create.get("policy")
    if isinstance(policy, dict) and isinstance(policy.get("type"), str):
        policy["type"] = policy["type"].removesuffix("_command")
    return create


def to_plain(value: object, key: str = "config") -> Tree:
    """Return ``value`` as plain dicts, lists and scalars.

    Raises:
        ConfigNotSerializableError: A value has no plain form.
    """
    if isinstance(value, Mapping):
        return {str(k): to_plain(v, f"{key}.{k}") for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(v, f"{key}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise ConfigNotSerializableError(f"{key}: a {type(value).__name__} has no plain form")


class _Writer:
    """Renders values and records the modules that the text needs."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._imports: set[str] = set()

    def file(self, lines: list[str]) -> str:
        """Return the text of a file with ``lines`` after the required imports."""
        imports = [f"import {name}" for name in sorted(self._imports)]
        return "\n".join([_HEADER, *imports, "from easydict import EasyDict", "", *lines]) + "\n"

    def render(self, value: object, key: str, indent: int) -> str:
        """Return source text for ``value``; ``key`` is its path in messages, ``indent`` its start column."""
        try:
            return self._render(value, key, indent)
        except _Refused as refusal:
            if self._strict:
                raise ConfigNotSerializableError(f"{key}: cannot be saved: {refusal}") from refusal
            self._imports.add("ding.config.source")
            return f"ding.config.source.raise_not_saved({key!r}, {str(refusal)!r})"

    def _render(self, value: object, key: str, indent: int) -> str:
        if isinstance(value, enum.Enum):
            return f"{self._path_of(type(value))}[{value.name!r}]"
        if value is None or value is Ellipsis or type(value) in (bool, int, str, bytes):
            return repr(value)
        if type(value) is float:
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if type(value) is complex:
            return f"complex({self._render(value.real, key, 0)}, {self._render(value.imag, key, 0)})"
        if isinstance(value, np.generic) and not isinstance(value.item(), np.generic):
            return self._render(value.item(), key, 0)
        if isinstance(value, (Mapping, list, tuple, set, frozenset)):
            return self._render_container(value, key, indent)
        return self._render_object(value, key, indent)

    def _render_container(self, value: Collection[Any], key: str, indent: int) -> str:
        if isinstance(value, Mapping):
            items = [f"{self._render(k, key, 0)}: {self.render(v, f'{key}.{k}', indent + 4)}" for k, v in value.items()]
            return _bracket("{", items, "}", indent)
        if type(value) in (set, frozenset):
            items = sorted(self._render(v, key, indent + 4) for v in value)
            inner = _bracket("[", items, "]", indent)
            return f"{type(value).__name__}({inner})"
        items = [self.render(v, f"{key}[{i}]", indent + 4) for i, v in enumerate(value)]
        if type(value) is list:
            return _bracket("[", items, "]", indent)
        if type(value) is tuple:
            return "()" if not items else _bracket("(", items, ",)" if len(items) == 1 else ")", indent)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self._path_of(type(value))}{_bracket('(', items, ')', indent)}"
        raise _Refused(f"a {type(value).__name__} would be read back as another type")

    def _render_object(self, value: object, key: str, indent: int) -> str:
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject or value.dtype.fields:
                raise _Refused(f"an array of dtype {value.dtype} has no source text")
            self._imports.add("numpy")
            items = self._render(value.tolist(), key, indent)
            return f"numpy.array({items}, dtype={value.dtype.str!r}).reshape({value.shape!r})"
        if isinstance(value, PurePath):
            self._imports.add("pathlib")
            return f"pathlib.Path({str(value)!r})"
        if isinstance(value, functools.partial):
            self._imports.add("functools")
            args = [self._render(arg, key, indent) for arg in (value.func, *value.args)]
            args += [f"{name}={self._render(arg, key, indent)}" for name, arg in value.keywords.items()]
            return f"functools.partial({', '.join(args)})"
        if isinstance(value, ModuleType):
            self._imports.add(value.__name__)
            return value.__name__
        if isinstance(value, (type, FunctionType, BuiltinFunctionType, MethodType)):
            return self._path_of(value)
        raise _Refused(f"a {type(value).__name__} has no source text")

    def _path_of(self, value: object) -> str:
        """Return ``module.qualname`` after verifying that it refers to ``value``."""
        if isinstance(value, MethodType) and isinstance(value.__self__, type):
            # Its qualified name would refer to the class that defines it, which may be a base of this one.
            if getattr(value.__self__, value.__name__, None) != value:
                raise _Refused(f"{value.__qualname__} does not lead back to it: put it into a module under that name")
            return f"{self._path_of(value.__self__)}.{value.__name__}"
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if not module or not name or module == "__main__":
            raise _Refused(f"{name or value!r} cannot be imported: put it into a module")
        if "<" in name:
            raise _Refused("a lambda or local function has no import path: put it into a module")
        try:
            found = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError):
            found = None
        if found is None or (found is not value and found != value):
            raise _Refused(f"{module}.{name} does not lead back to it: put it into a module under that name")
        if module == "builtins":
            return str(name)
        self._imports.add(module)
        return f"{module}.{name}"


class _Refused(Exception):
    """A value without source text, with the reason; caught by ``_Writer.render``, which knows the key."""


def _bracket(opening: str, items: list[str], closing: str, indent: int) -> str:
    one_line = f"{opening}{', '.join(items)}{closing}"
    if not items or (len(one_line) + indent <= _WIDTH and "\n" not in one_line and opening != "{"):
        return one_line
    pad = " " * (indent + 4)
    return opening + "\n" + "".join(f"{pad}{item},\n" for item in items) + " " * indent + closing.replace(",", "")
