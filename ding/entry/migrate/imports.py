"""Imports of packages that are others here, and names of ``ding`` that are not there.

====================== ==============================================================================================
``gym``                becomes ``gymnasium``; its MuJoCo envs are reported
``pettingzoo.mpe``     becomes ``mpe2``
``dizoo`` envs         become those of :mod:`ding.envs.zoo`
``dizoo`` configs      become modules beside the script, where a file of that name is there
``ditk.logging``       becomes ``logging``; ``basicConfig`` where the level of its root logger is set, which is shown
``ding``               a name that has another name here is imported under both; one that is not there is reported
others                 what pip installs with DI-engine and not with this package is reported where it is not there
====================== ==============================================================================================
"""

import ast
import contextlib
import importlib
import re
from collections.abc import Iterator
from types import ModuleType

from ding.entry.migrate.module import Module
from ding.entry.migrate.script import Script
from ding.utils.import_helper import built_in_env_module
from ding.utils.names import nearest
from ding.utils.original_names import missing_text

# Full old name -> its name since DI-engine 0.4 or 0.5, in the same module.
RENAMED = {"ding.policy.SACDiscretePolicy": "DiscreteSACPolicy"}
_OTHERS = {
    "treetensor": "trees of tensors are dicts with attribute access here (TransitionBatch.columns, ctx.train_data)",
    "ditk": "only its logging has a counterpart here: Python's",
    "mujoco_py": "the envs of gymnasium use the package mujoco",
    "d4rl": "its data sets are read from the published HDF5 files (docs/migration.md)",
}
_MPE = "pettingzoo.mpe"
_MUJOCO = "gym.envs.mujoco"
_MUJOCO_TEXT = (
    "the classes of gymnasium.envs.mujoco are others (AntEnv is in ant_v5): they take an observation_space, and have "
    "data and model in place of sim"
)
# What pip installs with DI-engine and not with this package, by the names of their modules.
_BROUGHT = {
    *("hickle", "trueskill", "requests", "responses", "tabulate", "yaml", "enum_tools", "urlobject", "pynng", "redis"),
    *("mpire", "einops", "sniffio", "matplotlib", "wandb", "yapf"),
}


def migrate_imports(script: Script, module: Module) -> None:
    """Replace and report imports, attributes of imported modules, and texts that name modules."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                _import(script, alias)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            _import_from(script, node)
    for chain, name in _attribute_chains(script.tree, module):
        _attribute(script, chain, name)
    parts = {id(part) for node in ast.walk(script.tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            _module_name(script, node, node.value, id(node) not in parts)


def _import(script: Script, alias: ast.alias) -> None:
    package = alias.name.partition(".")[0]
    if _is_below(alias.name, _MUJOCO):
        script.leave(alias, f"{alias.name}: {_MUJOCO_TEXT}")
    elif _is_below(alias.name, _MPE):
        if alias.asname and find(_mpe2(alias.name)) is not None:
            script.replace(alias, f"{_mpe2(alias.name)} as {alias.asname}")
        else:
            script.leave(alias, _mpe_text(alias.name))
    elif package == "gym":
        new = alias.name.replace("gym", "gymnasium", 1)
        if find(new) is None:
            script.leave(alias, f"{new}: there is no such module")
        elif alias.asname:
            script.replace(alias, f"{new} as {alias.asname}")
        else:
            script.replace(alias, "gymnasium as gym")
    elif package == "dizoo":
        home = _dizoo_module(script, alias.name)
        if home is None or not alias.asname:
            script.leave(alias, _dizoo_text(alias.name))
        else:
            script.replace(alias, f"{home} as {alias.asname}")
    elif package == "ding":
        _report_missing(script, alias, alias.name)
    else:
        _report_other(script, alias, alias.name)


def _import_from(script: Script, node: ast.ImportFrom) -> None:
    module = str(node.module)
    package = module.partition(".")[0]
    names = [alias.name for alias in node.names]
    if any(_is_below(name, _MUJOCO) for name in (module, *(f"{module}.{name}" for name in names))):
        script.leave(node, f"{module}: {_MUJOCO_TEXT}")
    elif _is_below(module, _MPE):
        missing = [name for name in names if name != "*" and find(f"{_mpe2(module)}.{name}") is None]
        for name in missing:
            script.leave(node, _mpe_text(f"{module}.{name}"))
        if not missing:
            script.replace_in(node, re.escape(module), _mpe2(module))
    elif package == "gym":
        new = module.replace("gym", "gymnasium", 1)
        missing = [name for name in names if name != "*" and find(f"{new}.{name}") is None]
        for name in missing:
            script.leave(node, f"{new} has no {name!r}")
        if not missing:
            script.replace_in(node, r"\bgym\b", "gymnasium")
    elif package == "dizoo":
        home = _dizoo_module(script, module)
        if home is None or (home.startswith("ding.") and any(find(f"{home}.{name}") is None for name in names)):
            script.leave(node, _dizoo_text(module))
        else:
            script.replace_in(node, re.escape(module), home)
    elif module == "ditk" and names == ["logging"]:
        asname = node.names[0].asname
        script.replace(node, f"import logging as {asname}" if asname else "import logging")
        _show_root_logger(script, asname or "logging")
    elif package == "ding":
        for alias in node.names:
            new = RENAMED.get(f"{module}.{alias.name}", "")
            if new and find(f"{module}.{alias.name}") is None and find(f"{module}.{new}") is not None:
                script.replace(alias, f"{new} as {alias.asname or alias.name}")
            elif alias.name != "*":
                _report_missing(script, alias, f"{module}.{alias.name}")
    else:
        _report_other(script, node, module)


def _is_below(name: str, module: str) -> bool:
    return f"{name}.".startswith(f"{module}.")


def _mpe2(name: str) -> str:
    """The name in mpe2 of something in ``pettingzoo.mpe``."""
    return name.replace(_MPE, "mpe2", 1)


def _mpe_text(name: str) -> str:
    new = _mpe2(name)
    if find("mpe2") is None:
        return f"{name}: it is in the package mpe2 now, as {new}; install it and run this again"
    owner, _, last = (_first_missing(new) or "").rpartition(".")
    near = nearest(last, dir(find(owner) or [])) if owner else None
    text = f"{name}: it is in the package mpe2 now"
    return f"{text}; the nearest name is {owner}.{near}" if near else f"{text}, as {new}"


def _show_root_logger(script: Script, logging: str) -> None:
    """The root logger of ditk writes to the console, that of Python nowhere until it is configured."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"{logging}.getLogger().setLevel":
            script.replace(node.func, f"{logging}.basicConfig")
            if node.args:
                script.add_before(node.args[0], "level=")


def _report_other(script: Script, node: ast.AST, module: str) -> None:
    """Report an import of a package that is none of ours."""
    package = module.partition(".")[0]
    if package in _OTHERS:
        script.leave(node, f"{module}: {_OTHERS[package]}")
    elif package in _BROUGHT and find(package) is None:
        script.leave(node, f"{module}: it comes with DI-engine and not with this package; `pip install` it")


def _attribute_chains(tree: ast.AST, module: Module) -> Iterator[tuple[ast.Attribute, str]]:
    """Attributes of imported modules of gym and ding with their full names, the longest of each expression."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            name = module.full_name(node)
            # Of a name that an import statement brings, the statement is reported.
            brought = next((full for full in module.names.values() if full != "gym" and _is_below(name, full)), "")
            if _is_below(brought, _MUJOCO) or _is_below(brought, _MPE):
                continue
            if name.partition(".")[0] in ("gym", "ding") or _is_below(name, _MPE):
                yield node, name


def _attribute(script: Script, node: ast.Attribute, name: str) -> None:
    if _is_below(name, _MPE):
        script.leave(node, _mpe_text(name))
        return
    if _is_below(name, _MUJOCO):
        script.leave(node, f"{name}: {_MUJOCO_TEXT}")
        return
    if name.startswith("gym."):
        name = name.replace("gym", "gymnasium", 1)
    elif not isinstance(find(name.rpartition(".")[0]), ModuleType):
        return  # an attribute of a class or of an object
    missing = _first_missing(name)
    if missing is not None:
        owner, _, last = missing.rpartition(".")
        if isinstance(find(owner), ModuleType):
            script.leave(node, missing_text(owner, last) or f"{owner} has no {last!r}")


def _module_name(script: Script, node: ast.Constant, name: str, whole: bool) -> None:
    """A text that may be the name of a module, as ``import_names`` have it, or (not ``whole``) the beginning of one."""
    if whole and re.fullmatch(r"ding(\.\w+)+", name):
        _report_missing(script, node, name)
    elif whole and re.fullmatch(r"dizoo(\.\w+)+", name):
        home = built_in_env_module(name)
        if home is None:
            script.leave(node, _dizoo_text(name))
        else:
            quote = script.source(node)[-1]
            script.replace(node, f"{quote}{home}{quote}")
    elif whole and re.fullmatch(r"pettingzoo\.mpe(\.\w+)+", name):
        script.leave(node, _mpe_text(name))
    elif name.startswith(("dizoo.", "dizoo/")):
        # A name that is put together when the script runs.
        script.leave(node, f"{name!r}: dizoo is not part of this package")


def _dizoo_module(script: Script, name: str) -> str | None:
    """What to import in place of a module of dizoo; ``None`` where nothing takes its place."""
    if ".config" in name or ".entry" in name:
        last = name.rpartition(".")[2]
        return last if script.path.with_name(f"{last}.py").exists() else None
    return built_in_env_module(name)


def _dizoo_text(name: str) -> str:
    if ".config" in name or ".entry" in name:
        return f"{name}: configs and scripts of dizoo are not part of this package; put the file beside this one"
    return f"{name}: not part of this package, and no built-in env takes its place (docs/migration.md)"


def _report_missing(script: Script, node: ast.AST, name: str) -> None:
    missing = _first_missing(name)
    if missing is None:
        return
    owner, _, last = missing.rpartition(".")
    known = missing_text(owner, last)
    if known is None:
        near = nearest(last, dir(find(owner) or []))
        known = f"{owner} has no {last!r}" + (f"; the nearest name is {near!r}" if near else "")
    script.leave(node, known)


def _first_missing(name: str) -> str | None:
    """The shortest beginning of a full name that is not there."""
    parts = name.split(".")
    beginnings = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return next((each for each in beginnings if find(each) is None), None)


def find(name: str) -> object | None:
    """Return the module, or the attribute of a module or class, of a full name; ``None`` where it is not there.

    What needs an extra that is not installed counts as there.
    """
    owner, _, last = name.rpartition(".")
    found = find(owner) if owner else None
    with contextlib.suppress(ImportError, AttributeError):
        return getattr(found, last)
    try:
        # A module that nothing has imported yet.
        return importlib.import_module(name) if not owner or isinstance(found, ModuleType) else None
    except ModuleNotFoundError:
        return None
    except ImportError as error:
        return error
