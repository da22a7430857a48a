"""User modules that a config needs."""

import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from ding.config.resolve import import_names_of
from ding.utils import registries
from ding.utils.nested import iter_nested, mappings_in
from ding.utils.original_names import built_in_env_module, installed_zoo
from ding.utils.own_code import OwnModule, file_of, module_named, module_of_file

_PACKAGE = Path(__file__).resolve().parents[2]


def foreign_imports(configs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the modules whose import would run code that is neither part of this package nor imported already.

    These are the entries of ``import_names``, and the module of an ``env_id`` such as ``package.module:Env-v0``.
    """
    for name in (name for config in configs for name in (*import_names_of(config), *_modules_of_ids(config))):
        ours = name.partition(".")[0] == "ding" or name in sys.modules
        if not (ours or (built_in_env_module(name) is not None and installed_zoo() is None)):
            yield name


def _modules_of_ids(config: object) -> Iterator[str]:
    for section in mappings_in(config):
        env_id = section.get("env_id")
        if isinstance(env_id, str) and ":" in env_id:
            yield env_id.rpartition(":")[0]


def modules_of(config: Mapping[str, Any]) -> Iterator[OwnModule]:
    """Yield the modules that register or define the names in a config, except those of this package."""
    for name in import_names_of(config):
        if name.partition(".")[0] not in ("ding", "dizoo"):
            yield module_named(name)
    for value in iter_nested(config):
        if isinstance(value, (type, FunctionType)) and _is_users(file_of(sys.modules.get(value.__module__))):
            yield module_named(value.__module__)
    for type_ in _types(config):
        for registry in registries.values():
            for name in (type_, f"{type_}_command"):
                file = registry.query_details([name])[name][0] if name in registry else "?"
                if os.path.isfile(file) and not Path(file).absolute().is_relative_to(_PACKAGE):
                    yield module_of_file(file)
    yield from _env_module(config.get("env", {}))


def _env_module(env: object) -> Iterator[OwnModule]:
    """Yield the module that registers a Gymnasium env: that of its class."""
    gymnasium = sys.modules.get("gymnasium")
    env_id = env.get("env_id") if isinstance(env, Mapping) else None
    if gymnasium is None or not isinstance(env_id, str):
        return
    spec = gymnasium.registry.get(env_id.rpartition(":")[2])
    if spec is None:
        return
    entry = spec.entry_point
    module = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
    if module and module.partition(".")[0] not in ("gymnasium", "ding", "ale_py", "minigrid"):
        yield module_named(module)


def _types(config: Mapping[str, Any]) -> Iterator[str]:
    for section in mappings_in(config):
        if isinstance(section.get("type"), str):
            yield section["type"].removesuffix("_command")


def _is_users(file: str) -> bool:
    """Return whether a file belongs to neither this package, nor an installed package, nor Python."""
    roots = [str(_PACKAGE), *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))]
    return bool(file) and not any(Path(file).is_relative_to(root) for root in roots)
