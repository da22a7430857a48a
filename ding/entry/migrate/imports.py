"""Imports of packages that have been replaced, and names that are missing in ``ding``.

====================== ==============================================================================================
``gym``                becomes ``gymnasium``; its MuJoCo envs are reported
moved packages         become those of :data:`~ding.entry.migrate.packages.MOVED`
``dizoo`` envs         become those of :mod:`ding.envs.zoo`
other ``dizoo``        become modules next to the script, if a file of that name exists there
modules
``ditk.logging``       becomes ``logging``; ``basicConfig`` where the level of its root logger is set, which is shown
``ding``               a name with another name here is imported under both; a missing one is reported
others                 are reported if :mod:`ding.entry.migrate.packages` has advice
====================== ==============================================================================================
"""

import ast
import re
from collections.abc import Iterator, Sequence
from types import ModuleType

from ding.entry.migrate.lookup import find, first_missing
from ding.entry.migrate.module import Module
from ding.entry.migrate.packages import MUJOCO, MUJOCO_TEXT, is_below, moved, moved_text, needed_text
from ding.entry.migrate.script import Script
from ding.utils.names import nearest
from ding.utils.original_names import RENAMED as RENAMED_EXPORTS
from ding.utils.original_names import built_in_env_module, missing_text

# Full old name -> name since DI-engine 0.4 or 0.5, in the same module.
# Keys and types before 0.5 -> names since then.
_RENAMED_TEXTS = {"final_eval_reward": "eval_episode_return", "final_eval_reward_mean": "eval_episode_return_mean"}
RENAMED = {"ding.policy.SACDiscretePolicy": "DiscreteSACPolicy"}


def migrate_imports(script: Script, module: Module) -> None:
    """Replace and report imports, attributes of imported modules, and strings that name modules."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                _import(script, module, alias)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            _import_from(script, module, node)
    for chain, name in _attribute_chains(script.tree, module):
        _attribute(script, chain, name)
    for node in ast.walk(script.tree):
        if isinstance(node, ast.keyword) and node.arg in _RENAMED_TEXTS:
            script.replace_in(node, node.arg, _RENAMED_TEXTS[node.arg])
    parts = {id(part) for node in ast.walk(script.tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            _module_name(script, module, node, node.value, id(node) not in parts)


def _import(script: Script, module: Module, alias: ast.alias) -> None:
    package = alias.name.partition(".")[0]
    if is_below(alias.name, MUJOCO):
        script.leave(alias, f"{alias.name}: {MUJOCO_TEXT}")
    elif (new := moved(alias.name)) is not None:
        _import_moved(script, alias, new)
    elif package == "gym":
        new = alias.name.replace("gym", "gymnasium", 1)
        if find(new) is None:
            script.leave(alias, f"{new}: there is no such module")
        elif alias.asname:
            script.replace(alias, f"{new} as {alias.asname}")
        else:
            script.replace(alias, "gymnasium as gym")
    elif package == "dizoo":
        new = _dizoo_module(module, alias.name)
        if new == alias.name:
            script.note(alias, _own_text(alias.name))
        elif new is None or not alias.asname:
            script.leave(alias, _dizoo_text(alias.name))
        else:
            script.replace(alias, f"{new} as {alias.asname}")
    elif package == "ding":
        _report_missing(script, alias, alias.name)
    elif (text := needed_text(alias.name)) is not None:
        script.leave(alias, text)


def _import_from(script: Script, home: Module, node: ast.ImportFrom) -> None:
    module = str(node.module)
    package = module.partition(".")[0]
    names = [alias.name for alias in node.names]
    if any(is_below(name, MUJOCO) for name in (module, *(f"{module}.{name}" for name in names))):
        script.leave(node, f"{module}: {MUJOCO_TEXT}")
    elif (new := moved(module)) is not None:
        missing = [name for name in names if name != "*" and find(f"{new}.{name}") is None]
        for name in missing:
            script.leave(node, moved_text(f"{module}.{name}"))
        if not missing:
            script.replace_in(node, re.escape(module), new)
    elif package == "gym":
        new = module.replace("gym", "gymnasium", 1)
        missing = [name for name in names if name != "*" and find(f"{new}.{name}") is None]
        for name in missing:
            script.leave(node, f"{new} has no {name!r}")
        if not missing:
            script.replace_in(node, r"\bgym\b", "gymnasium")
    elif package == "dizoo":
        new = _dizoo_module(home, module, names)
        if new == module:
            script.note(node, _own_text(module))
        elif new is None:
            script.leave(node, _dizoo_text(module))
        else:
            script.replace_in(node, re.escape(module), new)
    elif module == "ditk" and names == ["logging"]:
        asname = node.names[0].asname
        script.replace(node, f"import logging as {asname}" if asname else "import logging")
        _show_root_logger(script, asname or "logging")
    elif package == "ding":
        for alias in node.names:
            new = RENAMED.get(f"{module}.{alias.name}") or RENAMED_EXPORTS.get(alias.name, "")
            if new and find(f"{module}.{alias.name}") is None and find(f"{module}.{new}") is not None:
                script.replace(alias, f"{new} as {alias.asname or alias.name}")
            elif alias.name != "*":
                _report_missing(script, alias, f"{module}.{alias.name}")
    elif (text := needed_text(module)) is not None:
        script.leave(node, text)


def _import_moved(script: Script, alias: ast.alias, new: str) -> None:
    """Replace ``import gym_hybrid`` and similar imports, usually made only for their registrations."""
    top, _, below = alias.name.partition(".")
    used = any(isinstance(node, ast.Name) and node.id == top for node in ast.walk(script.tree))
    if find(new) is None or (below and not alias.asname):
        script.leave(alias, moved_text(alias.name))
    else:
        script.replace(alias, f"{new} as {alias.asname or top}" if alias.asname or used else new)


def _show_root_logger(script: Script, logging: str) -> None:
    """Configure logging: the root logger of ditk writes to the console, that of Python only if configured."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"{logging}.getLogger().setLevel":
            script.replace(node.func, f"{logging}.basicConfig")
            if node.args:
                script.add_before(node.args[0], "level=")


def _attribute_chains(tree: ast.AST, module: Module) -> Iterator[tuple[ast.Attribute, str]]:
    """Yield attributes of imported modules of gym and ding with their full names, the longest of each expression."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            name = module.full_name(node)
            # For a name of an import statement, the statement is reported.
            brought = next((full for full in module.names.values() if full != "gym" and is_below(name, full)), "")
            if is_below(brought, MUJOCO) or moved(brought) is not None:
                continue
            if name.partition(".")[0] in ("gym", "ding") or moved(name) is not None:
                yield node, name


def _attribute(script: Script, node: ast.Attribute, name: str) -> None:
    if moved(name) is not None:
        script.leave(node, moved_text(name))
        return
    if is_below(name, MUJOCO):
        script.leave(node, f"{name}: {MUJOCO_TEXT}")
        return
    if name.startswith("gym."):
        name = name.replace("gym", "gymnasium", 1)
    elif not isinstance(find(name.rpartition(".")[0]), ModuleType):
        return  # an attribute of a class or of an object
    missing = first_missing(name)
    if missing is not None:
        owner, _, last = missing.rpartition(".")
        if node.attr == last and RENAMED_EXPORTS.get(last) and find(f"{owner}.{RENAMED_EXPORTS[last]}") is not None:
            script.replace_in(node, rf"\b{last}$", RENAMED_EXPORTS[last])
        elif isinstance(find(owner), ModuleType):
            script.leave(node, missing_text(owner, last) or f"{owner} has no {last!r}")


def _module_name(script: Script, module: Module, node: ast.Constant, name: str, whole: bool) -> None:
    """Handle a string that may be a module name, as in ``import_names``, or (not ``whole``) a prefix of one."""
    if whole and name in _RENAMED_TEXTS:
        quote = script.source(node)[-1]
        script.replace(node, f"{quote}{_RENAMED_TEXTS[name]}{quote}")
    elif whole and re.fullmatch(r"ding(\.\w+)+", name):
        _report_missing(script, node, name)
    elif whole and re.fullmatch(r"dizoo(\.\w+)+", name):
        home = built_in_env_module(name)
        if home is not None:
            quote = script.source(node)[-1]
            script.replace(node, f"{quote}{home}{quote}")
        elif module.file_of(name) is not None:
            script.note(node, _own_text(name))
        else:
            script.leave(node, _dizoo_text(name))
    elif whole and re.fullmatch(r"pettingzoo\.mpe(\.\w+)+", name):
        script.leave(node, moved_text(name))
    elif name.startswith(("dizoo.", "dizoo/")):
        # A name that is composed at run time.
        script.leave(node, f"{name!r}: dizoo is not part of this package")


def _dizoo_module(module: Module, name: str, needed: Sequence[str] = ()) -> str | None:
    """Return the replacement of a module of dizoo; ``None`` if there is none.

    It is the built-in env module, if that has the required names, or a file next to the script; it is unchanged if the
    user has a folder ``dizoo`` with that module.
    """
    is_env = ".config" not in name and ".entry" not in name
    built_in = built_in_env_module(name) if is_env else None
    if built_in is not None and all(find(f"{built_in}.{each}") is not None for each in needed):
        return built_in
    last = name.rpartition(".")[2]
    beside = last if module.path.with_name(f"{last}.py").exists() else None
    own = name if module.file_of(name) is not None else None
    return (own or beside) if is_env else (beside or own)


def _own_text(name: str) -> str:
    return f"{name}: it stays, as there is a folder dizoo that has it; that must be found when the script runs"


def _dizoo_text(name: str) -> str:
    if ".env" in name:
        return f"{name}: not part of this package, and no built-in env takes its place (docs/migration.md)"
    return f"{name}: not part of this package; put the file beside this one"


def _report_missing(script: Script, node: ast.AST, name: str) -> None:
    missing = first_missing(name)
    if missing is None:
        return
    owner, _, last = missing.rpartition(".")
    known = missing_text(owner, last)
    if known is None:
        near = nearest(last, dir(find(owner) or []))
        known = f"{owner} has no {last!r}" + (f"; the nearest name is {near!r}" if near else "")
    script.leave(node, known)
