"""Existence of a module, or of an object in a module, by full name."""

import contextlib
import importlib
from types import ModuleType


def find(name: str) -> object | None:
    """Return the module, or the attribute of a module or class, with a full name; ``None`` if it does not exist.

    Names that need an extra that is not installed count as existing.
    """
    owner, _, last = name.rpartition(".")
    found = find(owner) if owner else None
    with contextlib.suppress(ImportError, AttributeError):
        result: object | None = getattr(found, last)
        return result
    try:
        # A module that has not been imported yet.
        return importlib.import_module(name) if not owner or isinstance(found, ModuleType) else None
    except ModuleNotFoundError:
        return None
    except ImportError as error:
        return error


def first_missing(name: str) -> str | None:
    """Return the shortest prefix of a full name that does not exist."""
    parts = name.split(".")
    beginnings = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return next((each for each in beginnings if find(each) is None), None)
