"""Exports of packages: each exported name is listed once, in the stub ``__init__.pyi`` next to ``__init__.py``.

1. The stub, which type checkers read too, holds one line for each name: ``from ding.x.module import Name as Name``.
   ``from ding.x.part import *`` exports the names in the stub of the subpackage ``ding.x.part``.
2. The ``__init__.py`` ends with ``__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)``; its docstring
   describes the package. It holds no other code, because type checkers read the stub instead. A public module that
   re-exports other modules has a stub in the same way.
3. A module is imported when one of its names is first used. A module that fills a registry on import is either imported
   in ``__init__.py`` or registered there by ``register_lazily(REGISTRY, "alias", "ding.x.module:Class")``.
4. A name equal to the name of its module is imported at once, because the module would hide it later.
5. Names of DI-engine that are not built are listed in :mod:`ding.utils.original_names`; importing one raises an
   ``ImportError`` that says so. ``absent`` matches further names that look like DI-engine's.
"""

import ast
import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path

from ding.utils.names import nearest
from ding.utils.original_names import install, missing_text
from ding.utils.registry import Registry

install()


def lazy_exports(
    package: str, file: str, absent: str = "$^"
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package according to its stub.

    Args:
        package: ``__name__`` of the package.
        file: ``__file__`` of the package; the stub is next to it.
        absent: Regular expression. An unexported name that starts with a match raises an ``ImportError``, because
            Python would replace the text of an ``AttributeError`` in ``from package import name``.
    """
    homes = _homes(package, Path(file).with_suffix(".pyi"))
    namespace = vars(sys.modules[package])

    def load(name: str) -> object:
        if name in homes:
            return namespace.setdefault(name, getattr(importlib.import_module(homes[name]), name))
        missing = missing_text(package, name)
        if missing is not None:
            raise ImportError(missing, name=package)
        close = None if name.startswith("_") else nearest(name, homes)
        hint = "" if close is None else f"; did you mean {close!r}?"
        if re.match(absent, name):
            raise ImportError(f"{package} has no {name!r} in this version{hint}", name=package)
        raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")

    for name, module in homes.items():
        if module == f"{package}.{name}":
            namespace[name] = getattr(importlib.import_module(module), name)
    return load, lambda: sorted({*namespace, *homes}), sorted(homes)


def register_lazily(registry: Registry, alias: str, target: str) -> None:
    """Register ``"pkg.mod:Class"``, unless the alias is taken because the module was imported before its package."""
    if alias not in registry:
        registry.register(alias, target)


def _homes(package: str, stub: Path) -> dict[str, str]:
    """Return exported name -> full name of the defining module."""
    homes: dict[str, str] = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        for alias in node.names:
            if alias.name == "*":
                below = stub.parent.joinpath(*node.module.removeprefix(f"{package}.").split("."))
                below = below / "__init__.pyi" if below.is_dir() else below.with_suffix(".pyi")
                homes.update(dict.fromkeys(_homes(node.module, below), node.module))
            else:
                homes[alias.asname or alias.name] = node.module
    return homes
