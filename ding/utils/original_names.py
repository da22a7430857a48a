"""Import names of DI-engine 0.5 that are defined elsewhere here, or that are not implemented.

The names are listed in ``original_names.json``. :mod:`ding.utils.exports` installs :class:`OriginalNames` as the first
finder of modules; it handles the modules in these tables and leaves all others to Python.

- A module in ``MOVED`` is imported as the module here with the same content, under both names. For widely imported
  modules, a stub (``from <module> import *``) serves type checkers.
- A name in ``MOVED_NAMES`` is taken from the other module.
- A module in ``NOT_BUILT`` raises a ``ModuleNotFoundError`` that names the part it belongs to, and its names raise an
  ``ImportError``. ``ding migrate`` reports both.

:class:`ZooModules`, the last finder, does the same for env modules of DI-engine's zoo where ``dizoo`` is not installed.
The package ``dizoo`` of this distribution only makes such an import work before ``ding`` was imported.
"""

import importlib
import importlib.util
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from functools import cache, partial
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

_log = logging.getLogger(__name__)


def _read() -> dict[str, Any]:
    """Return the tables of ``original_names.json``. (JSON, because Python 3.10 cannot read TOML.)"""
    tables: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return tables


def _entries_of(part: dict[str, Any]) -> Iterator[str]:
    """Yield a part's modules and names (full names), exported names, and types (``"registry:type"``)."""
    yield from part.get("modules", [])
    yield from part.get("exports", [])
    for module, names in part.get("names", {}).items():
        yield from (f"{module}.{name}" for name in names)
    for registry, types in part.get("types", {}).items():
        yield from (f"{registry}:{name}" for name in types)


_TABLES = _read()
MOVED: dict[str, str] = _TABLES["moved_modules"]
"""Full name of a module in DI-engine -> the module here that has its content."""

MOVED_NAMES: dict[str, str] = _TABLES["moved_names"]
"""Full name in DI-engine (its module under the name here) -> the module here that has it."""

NOT_BUILT: dict[str, list[str]] = {part["part"]: list(_entries_of(part)) for part in _TABLES["not_built"]}
"""Part of DI-engine that is not implemented -> its modules and everything below them, its exported names, names of
other modules in full, and types as ``"registry:type"``.
"""

RENAMED: dict[str, str] = _TABLES["renamed_exports"]
"""Exported name of DI-engine before 0.5 -> its name since then."""

_PARTS = {entry: part for part, entries in NOT_BUILT.items() for entry in entries}
# Modules that exist here but lack some of DI-engine's names.
_INCOMPLETE = {
    *(name.rpartition(".")[0] for name in (*_PARTS, *MOVED_NAMES)),
    *_TABLES["modules_that_lack_exports"],
}


def missing_part(name: str) -> str | None:
    """Return the part of ``NOT_BUILT`` that contains a module or name (full), an exported name, or a type."""
    while name not in _PARTS and "." in name:
        name = name.rpartition(".")[0]
    return _PARTS.get(name)


def missing_text(package: str, name: str) -> str | None:
    """Return the message for a name or module that is not implemented, or was renamed in DI-engine 0.5; None for other
    names.
    """
    if name in RENAMED:
        return (
            f"{package} has no {name!r}: it is called {RENAMED[name]!r} since DI-engine 0.5; ding migrate replaces it"
        )
    part = missing_part(name) or missing_part(f"{MOVED.get(package, package)}.{name}")
    return part and f"{package} has no {name!r} in this version: it belongs to {part}, which is not built"


def missing_type(registry: str, name: str) -> str | None:
    """Return the message for a type of a registry (short name) that is not implemented; None for other types."""
    part = missing_part(f"{registry}:{name}")
    return part and f"{name!r} belongs to {part}, which is not built"


class _Alias(Loader):
    """Loader of a module in ``MOVED``: the other module itself, also under this name."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(MOVED[module.__name__])


class _Incomplete(SourceFileLoader):
    """Loader of a module of this package that lacks some of DI-engine's names: these resolve elsewhere or raise an
    error.
    """

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        # Lazily exporting packages call :func:`missing_text` themselves.
        vars(module).setdefault("__getattr__", partial(_original_name, module.__name__))
        # A package in DI-engine may be a module here: imports below it reach `OriginalNames` too.
        vars(module).setdefault("__path__", [])


def _original_name(module: str, name: str) -> object:
    """Resolve a name missing from a module: return one of ``MOVED_NAMES``, raise an error for any other."""
    home = MOVED_NAMES.get(f"{module}.{name}")
    if home is not None:
        return getattr(importlib.import_module(home), name)
    text = missing_text(module, name)
    if text is not None:
        # Python would replace the text of an AttributeError in "from module import name".
        raise ImportError(text, name=module)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


class OriginalNames:
    """Finds the modules of ``MOVED``, raises ``ModuleNotFoundError`` for those of ``NOT_BUILT``."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("ding."):
            return None
        if name in MOVED:
            return ModuleSpec(name, _Alias())
        if name in _INCOMPLETE:
            spec = PathFinder.find_spec(name, path, target)
            if spec is not None and isinstance(spec.loader, SourceFileLoader):
                spec.loader = _Incomplete(spec.loader.name, spec.loader.path)
            return spec
        part = missing_part(name)
        if part is not None:
            text = f"there is no {name} in this version: it belongs to {part}, which is not built"
            raise ModuleNotFoundError(text, name=name)
        return None


def built_in_env_module(name: str) -> str | None:
    """Return the module of ``ding.envs.zoo`` for a module (or package ``envs``) of ``dizoo``; None if there is none."""
    *folders, last = name.split(".")
    if folders[:1] != ["dizoo"]:
        return None
    if last == "envs":
        last = f"{folders[-1]}_env"
    elif last == "utils" and folders[-1] == "envs":
        last = f"{folders[-2]}_utils"
    home = f"ding.envs.zoo.{'mtcar_env' if last == 'mountain_car_env' else last}"
    return home if importlib.util.find_spec(home) is not None else None


def installed_zoo() -> ModuleSpec | None:
    """Return the location of an installed DI-engine zoo ``dizoo``, or None."""
    specs = (PathFinder.find_spec("dizoo", [entry]) for entry in sys.path)
    return next((spec for spec in specs if spec is not None and not _is_of_this_package(spec)), None)


def _is_of_this_package(zoo: ModuleSpec) -> bool:
    """Return whether a package ``dizoo`` is the one of this distribution, which may be installed more than once."""
    return zoo.origin is not None and (Path(zoo.origin).parents[1] / "ding" / "utils" / Path(__file__).name).is_file()


def take_the_place_of_a_zoo(name: str) -> None:
    """Replace this module by DI-engine's own zoo, or by a package whose modules :class:`ZooModules` finds."""
    spec = installed_zoo() or ModuleSpec(name, _ZooLoader(None, True), is_package=True)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    if spec.loader is not None:
        spec.loader.exec_module(module)


@cache
def _warn_of_zoo(name: str, home: str) -> None:
    _log.warning("%s cannot be imported, as no dizoo is installed; the built-in env of %s is used", name, home)


class _ZooLoader(Loader):
    """Loader of a module of ``dizoo``: the env module here, a package with its names, or else an empty package."""

    def __init__(self, home: str | None, is_package: bool) -> None:
        self.home, self._is_package = home, is_package

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        if self.home is None:
            return
        found = importlib.import_module(self.home)
        _warn_of_zoo(module.__name__.partition(".envs")[0], self.home)
        if self._is_package:
            vars(module).update({name: value for name, value in vars(found).items() if not name.startswith("__")})
        else:
            sys.modules[module.__name__] = found


class ZooModules:
    """Finds modules of DI-engine's zoo ``dizoo`` that are env modules here; the last finder, after an installed zoo."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "dizoo":
            return None
        zoo = sys.modules.get("dizoo")
        if zoo is not None and not isinstance(getattr(zoo, "__loader__", None), _ZooLoader):
            return None
        last = name.rpartition(".")[2]
        home = built_in_env_module(name)
        if home is None and (name.count(".") > 2 or last in ("envs", "config", "entry")):
            text = f"'dizoo' is not installed, and ding.envs.zoo has no env module of the name of {name!r}"
            raise ModuleNotFoundError(text, name="dizoo")
        is_package = home is None or last == "envs"
        return ModuleSpec(name, _ZooLoader(home, is_package), is_package=is_package)


def install() -> None:
    """Make :class:`OriginalNames` the first finder, and :class:`ZooModules` the last one."""
    if OriginalNames not in sys.meta_path:
        sys.meta_path.insert(0, OriginalNames)
    if ZooModules not in sys.meta_path:
        sys.meta_path.append(ZooModules)
