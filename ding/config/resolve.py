"""Resolution of a ``type`` in a config to its class.

``ding.config`` is below the packages whose defaults it compiles, so it never imports them by statement. Classes are
found through the registries. If a name is not registered yet, the package that registers the built-in classes is
imported by name, once, like an entry of ``import_names``.
"""

import importlib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from easydict import EasyDict

from ding.config.errors import ConfigImportError, ConfigValueError, UnknownTypeError
from ding.utils import did_you_mean, import_module, nearest, registries
from ding.utils.nested import mappings_in
from ding.utils.original_names import missing_type

_ZOO = "ding.envs.zoo"
_HOMES = {
    "env": "ding.envs",
    "env_manager": "ding.envs",
    "policy": "ding.policy",
    "learner": "ding.worker",
    "serial_collector": "ding.worker",
    "serial_evaluator": "ding.worker",
    "parallel_collector": "ding.worker.collector",
    "comm_learner": "ding.worker.learner.comm",
    "comm_collector": "ding.worker.collector.comm",
    "commander": "ding.worker.coordinator",
    "league": "ding.league",
    "buffer": "ding.worker",
    "reward_model": "ding.reward_model",
    "world_model": "ding.world_model",
}
SERIAL_COMMANDER = ("ding.worker", "BaseSerialCommander")


def import_by_name(module: str, attribute: str) -> Any:
    """Return ``attribute`` of ``module``; for default classes on higher floors."""
    return getattr(importlib.import_module(module), attribute)


def class_of(registry: str, section: Mapping[str, Any], where: str) -> type:
    """Return the class that ``section.type`` names.

    Args:
        registry: Short name of the registry (a key of ``ding.utils.registries``).
        section: Config section with ``type`` and, optionally, ``import_names``.
        where: Path of the section, for messages.

    Raises:
        ConfigValueError: ``section`` has no ``type``.
        ConfigImportError: A module of ``import_names`` cannot be imported.
        UnknownTypeError: No class is registered under that name.
    """
    name = section.get("type") if isinstance(section, Mapping) else None
    if not isinstance(name, str):
        raise ConfigValueError(f"{where}.type is missing: it must be the name of a registered {registry}")
    _import_names(section.get("import_names") or [], where)
    return registered(registry, name, where)


def registered(registry: str, name: str, where: str) -> type:
    """Return the class registered as ``name``.

    Raises:
        UnknownTypeError: No class is registered under that name.
    """
    table = registries[registry]
    if name not in table:
        _import_home(registry)
    if name not in table and registry == "env":
        importlib.import_module(_ZOO).import_type(name)
    if name not in table:
        raise UnknownTypeError(_unknown(registry, name, where, list(table)))
    cls: type = table[name]
    return cls


def name_of(registry: str, cls: type) -> str | None:
    """Return the name under which exactly ``cls`` is registered, or ``None``."""
    return registries[registry].name_of(cls)


def import_names_of(node: object) -> Iterator[str]:
    """Yield every entry of ``import_names`` anywhere in a config."""
    for section in mappings_in(node):
        names = section.get("import_names") or []
        yield from names if isinstance(names, (list, tuple)) else [names]


def defaults_of(cls: object, where: str) -> EasyDict:
    """Return ``cls.default_config()``.

    Raises:
        ConfigValueError: The class has no such method.
    """
    method = getattr(cls, "default_config", None)
    if method is None:
        raise ConfigValueError(f"{where}: {getattr(cls, '__name__', cls)} has no default_config()")
    return EasyDict(deepcopy(method()))


def _import_names(names: list[str], where: str) -> None:
    try:
        import_module(names)
    except TypeError as error:
        raise ConfigValueError(f"{where}.import_names: {error}") from error
    except ImportError as error:
        raise ConfigImportError(f"{where}.import_names: {names!r} cannot be imported: {error}") from error


def _import_home(registry: str) -> None:
    home = _HOMES.get(registry)
    if home is None:
        return
    try:
        importlib.import_module(home)
    except ModuleNotFoundError as error:
        if error.name != home:
            raise


#: Policy types in configs of DI-engine that it does not register itself -> registered types.
RENAMED_POLICIES = {"cql_discrete": "discrete_cql", "sac_discrete": "discrete_sac"}


def _unknown(registry: str, name: str, where: str, known: list[str]) -> str:
    shown, suffix = name, "_command"
    if registry == "policy" and name.endswith(suffix):
        # The pipelines append the suffix; the user wrote the plain name.
        shown = name.removesuffix(suffix)
        if shown in registries[registry]:
            return (
                f"{where}.type: {shown!r} is registered, but not {name!r}, which pipelines build: register a subclass "
                "of both it and EpsCommandModePolicy or DummyCommandModePolicy by that name (docs/howto/own_policy.md)"
            )
        known = [item.removesuffix(suffix) for item in known if item.endswith(suffix)]
    if registry == "env":
        known = [*known, *importlib.import_module(_ZOO).MODULES]
    missing = missing_type(registry, shown)
    if missing is not None:
        return f"{where}.type: {missing}"
    if registry == "policy" and shown in RENAMED_POLICIES:
        return f"{where}.type: no policy is registered as {shown!r}, it is {RENAMED_POLICIES[shown]!r} here"
    text = f"{where}.type: no {registry} is registered as {shown!r}.{did_you_mean(shown, known)}"
    if nearest(shown, known) is None:
        text += " Where a file of yours registers it, name its module in import_names, or give that file: -c FILE."
    return text
