"""Configs: types that this package lacks, unused keys, and values and numbers that differ here."""

import ast
import re

from ding.config import (
    ConfigError,
    ConfigImportError,
    UnknownKeyError,
    UnknownTypeError,
    compile_config,
    compile_config_parallel,
)
from ding.config.resolve import RENAMED_POLICIES
from ding.entry.migrate.numbers import changed_numbers
from ding.entry.migrate.script import Script
from ding.entry.migrate.static import StaticDict, is_whole, known_section, module_values, sections
from ding.utils.original_names import built_in_env_module

# Modules that are not imported, because they do not belong to DI-engine.
_FOREIGN = re.compile(r"(?!ding\.|dizoo\.)")


def migrate_configs(script: Script) -> None:
    """Replace and report the findings in the configs of a file."""
    values = module_values(script.tree)
    dicts = {name: value for name, value in values.items() if isinstance(value, StaticDict)}
    creates = {name: value for name, value in dicts.items() if _is_create_config(value)}
    mains = {name: value for name, value in dicts.items() if name not in creates and _is_main_config(value)}
    seen: set[int] = set()
    for name, main in mains.items():
        if id(main) not in seen:
            seen.add(id(main))
            _scalar_parts(script, main)
            create = _partner(name, mains, creates)
            if create is not None:
                _rename_type(script, create["policy"])
                _check(script, main, create, values.get("system_config"))


def _is_create_config(value: StaticDict) -> bool:
    return "env_manager" in value and isinstance(value.get("policy"), StaticDict) and "type" in value["policy"]


def _is_main_config(value: StaticDict) -> bool:
    return isinstance(value.get("policy"), StaticDict) and "env" in value


def _partner(name: str, mains: dict[str, StaticDict], creates: dict[str, StaticDict]) -> StaticDict | None:
    """Return the create config of a main config: the only one, or that with its name."""
    if len({id(value) for value in creates.values()}) == 1:
        return next(iter(creates.values()))
    same = [other for other, value in mains.items() if value is mains[name]]
    for each in same:
        for partner in ("create_config", each.replace("main_config", "create_config"), f"{each[:-7]}_create_config"):
            if partner in creates and (partner != "create_config" or "main_config" in same):
                return creates[partner]
    return None


def _scalar_parts(script: Script, main: StaticDict) -> None:
    """Report observation parts that are single numbers, which reach the encoder in the form of the space."""
    for path, section, key in sections(main):
        if ".obs_shape." in path and section[key] == []:
            script.note(section.nodes[key], f"{path}: an encoder gets such a part as [B, 1] here (DI-engine: [B])")


def _rename_type(script: Script, policy: StaticDict) -> None:
    new = RENAMED_POLICIES.get(str(policy["type"]))
    if new is not None and isinstance(policy.nodes["type"], ast.Constant):
        script.replace(policy.nodes["type"], repr(new))
        policy["type"] = new


def _check(script: Script, main: StaticDict, create: StaticDict, system: object) -> None:
    """Compile the configs like a run, but without user modules, and report errors."""
    plain_main, plain_create = known_section(main), known_section(create)
    own = False
    for section in filter(lambda each: isinstance(each, dict), plain_create.values()):
        names = [str(name) for name in section.get("import_names", [])]
        section["import_names"] = [built_in_env_module(name) or name for name in names if _FOREIGN.match(name) is None]
        own = own or len(section["import_names"]) < len(names)
    try:
        if isinstance(system, StaticDict):
            compile_config_parallel(plain_main, plain_create, known_section(system), save_cfg=False, strict=True)
        else:
            compile_config(plain_main, create_cfg=plain_create, auto=True, save_cfg=False, strict=True)
    except UnknownKeyError as error:
        for text in error.texts:
            script.note(_node_of(main, text), f"config key {text}")
    except ConfigImportError:
        pass  # reported at the name of the module
    except ConfigError as error:
        # A user module may register the type; values that the tree does not show may be all that is missing.
        if not own and (isinstance(error, UnknownTypeError) or (is_whole(main) and is_whole(create))):
            script.leave(_node_of(create, str(error)) or _node_of(main, str(error)), str(error))
    for text in changed_numbers(plain_main, plain_create):
        script.note(_node_of(main, "policy"), text)


def _node_of(config: StaticDict, text: str) -> ast.expr | None:
    """Return the expression of the key whose path, or a prefix of it, a text starts with."""
    found = re.match(r"(?:create_config\.)?([\w.]*\w)", text)
    parts = found.group(1).split(".") if found else []
    nodes = {path: section.nodes.get(key) for path, section, key in sections(config)}
    paths = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((nodes[path] for path in paths if nodes.get(path) is not None), None)
