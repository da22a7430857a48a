"""Imports for their side effect, and imports of what only an extra installs."""

import importlib
import logging
from collections.abc import Iterable
from types import ModuleType

log = logging.getLogger(__name__)


class MissingExtraError(ImportError):
    """A package is not installed that only an extra brings; the message names the extra."""


def import_module(modules: Iterable[str]) -> None:
    """Import each named module, so that what it registers is there.

    The names come from the local config only, never from a message of another process.
    """
    if isinstance(modules, str):
        raise TypeError(f"import_names must be a list of module names, got the text {modules!r}")
    for name in modules:
        importlib.import_module(name)


def require_extra(module: str, extra: str) -> ModuleType:
    """Import and return ``module``, which the extra ``ding[extra]`` installs.

    Raises:
        MissingExtraError: the module is missing; the message says what to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module!r} could not be imported ({error}); install it with: pip install 'ding[{extra}]'",
            name=module,
        ) from error


def _try_import(module: str) -> ModuleType | None:
    try:
        return importlib.import_module(module)
    except ImportError:
        log.debug("the optional module %r is not installed", module)
        return None


def try_import_ceph() -> ModuleType | None:
    """The ``ceph`` client module, or None where it is not installed."""
    return _try_import("ceph")


def try_import_mc() -> ModuleType | None:
    """The ``mc`` (memcached) client module, or None where it is not installed."""
    return _try_import("mc")


def try_import_redis() -> ModuleType | None:
    """The ``redis`` client module, or None where it is not installed."""
    return _try_import("redis")


def try_import_rediscluster() -> ModuleType | None:
    """The ``rediscluster`` client module, or None where it is not installed."""
    return _try_import("rediscluster")


def try_import_link() -> ModuleType | None:
    """The ``linklink`` communication module, or None where it is not installed."""
    return _try_import("linklink")
