"""Names and registry entries that import their module when they are first used.

They keep ``import ding.worker`` cheap, and a worker whose extra is not installed out of the way of the others.
"""

import importlib
from collections.abc import Mapping
from typing import Any

from ding.utils import Registry, did_you_mean


def load_export(package: str, modules: Mapping[str, str], name: str, namespace: dict[str, Any]) -> Any:
    """The object that a package exports as ``name``; it is put into ``namespace``, so that this happens once.

    Args:
        package: full name of the package.
        modules: exported name -> module below the package.
        name: what is asked for.
        namespace: ``globals()`` of the package.

    Raises:
        AttributeError: the package does not export the name; the nearest known one is told.
    """
    if name not in modules:
        hint = "" if name.startswith("_") else did_you_mean(name, modules)
        raise AttributeError(f"module {package!r} has no attribute {name!r}.{hint}")
    value = getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
    namespace[name] = value
    return value


def register_lazily(registry: Registry, alias: str, target: str) -> None:
    """Register ``"pkg.mod:Class"``, unless the alias is taken (the module itself was imported before its package)."""
    if alias not in registry:
        registry.register(alias, target)
