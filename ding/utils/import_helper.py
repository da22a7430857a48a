"""Imports for their side effects, and of optional dependencies."""

import importlib
import importlib.util
import logging
import re
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType

from ding.utils.errors import UserMistake
from ding.utils.original_names import built_in_env_module
from ding.utils.own_code import importing, note_imported

log = logging.getLogger(__name__)


class MissingExtraError(ImportError, UserMistake):
    """A package of an extra is not installed; the message names the extra."""


def import_module(modules: Iterable[str]) -> None:
    """Import each named module, so that its registrations take effect.

    The names come only from the local config, never from a message of another process. Env modules of DI-engine's zoo
    ``dizoo`` that cannot be imported, because ``dizoo`` or ``gym`` is missing, are replaced by the modules of the same
    name in :mod:`ding.envs.zoo`.
    """
    if isinstance(modules, str):
        raise TypeError(f"import_names must be a list of module names, got the text {modules!r}")
    for name in modules:
        try:
            with importing(name):
                importlib.import_module(name)
            note_imported(name)
        except ModuleNotFoundError as error:
            home = built_in_env_module(name)
            if home is not None:
                _import_built_in(name, home, str(error))
            elif error.name == "dizoo":
                message = f"'dizoo' is not installed, and ding.envs.zoo has no env module of the name of {name!r}"
                raise ModuleNotFoundError(message, name="dizoo") from error
            else:
                raise


@cache
def _import_built_in(name: str, home: str, reason: str) -> None:
    """Import ``home``, the module of ``ding.envs.zoo`` for the module ``name`` of ``dizoo``."""
    importlib.import_module(home)
    log.warning("import_names: %s cannot be imported (%s); the built-in env of %s is used", name, reason, home)


def require_extra(module: str, extra: str, least: tuple[int, ...] = ()) -> ModuleType:
    """Import and return ``module``, which the extra ``ding[extra]`` installs.

    Args:
        least: The oldest accepted version, such as ``(2, 60)``.

    Raises:
        MissingExtraError: The module is missing or too old; the message says what to install.
    """
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module!r} could not be imported ({error}); install it with: {install_line(extra)}",
            name=module,
        ) from error
    version = str(getattr(found, "__version__", ""))
    if tuple(map(int, re.findall(r"\d+", version)[: len(least)])) < least:
        needed = ".".join(map(str, least))
        raise MissingExtraError(
            f"{module!r} is {version}, and {needed} or newer is needed; install it with: {install_line(extra)}",
            name=module,
        )
    return found


def install_line(extra: str) -> str:
    """Return the command that installs an extra: with the constraints in a checkout, as packages elsewhere."""
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "constraints.txt").is_file():
        folder = checkout if checkout != Path.cwd() else Path()
        return f"pip install -c {folder / 'constraints.txt'} -e '{folder}[{extra}]'"
    try:
        requirements = metadata.requires("ding") or []
    except metadata.PackageNotFoundError:
        requirements = []
    named = [one.partition(";")[0].strip() for one in requirements if re.search(rf"extra == ['\"]{extra}['\"]", one)]
    return f"pip install {' '.join(map(repr, named))}" if named else f"pip install 'ding[{extra}]'"


def import_yaml() -> ModuleType:
    """Import and return PyYAML, which only YAML files need.

    Raises:
        ImportError: PyYAML is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module("yaml")
    except ImportError as error:
        raise ImportError("yaml files need PyYAML: pip install pyyaml") from error


def _try_import(module: str) -> ModuleType | None:
    try:
        return importlib.import_module(module)
    except ImportError:
        log.debug("the optional module %r is not installed", module)
        return None


def try_import_ceph() -> ModuleType | None:
    """Return the ``ceph`` client module, or None where it is not installed."""
    return _try_import("ceph")


def try_import_mc() -> ModuleType | None:
    """Return the ``mc`` (memcached) client module, or None where it is not installed."""
    return _try_import("mc")


def try_import_redis() -> ModuleType | None:
    """Return the ``redis`` client module, or None where it is not installed."""
    return _try_import("redis")


def try_import_rediscluster() -> ModuleType | None:
    """Return the ``rediscluster`` client module, or None where it is not installed."""
    return _try_import("rediscluster")


def try_import_link() -> ModuleType | None:
    """Return the ``linklink`` communication module, or None where it is not installed."""
    return _try_import("linklink")
