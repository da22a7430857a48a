"""Whether a full name is there: of a module, or of something in one."""

import contextlib
import importlib
from types import ModuleType


def find(name: str) -> object | None:
    """Return the module, or the attribute of a module or class, of a full name; ``None`` where it is not there.

    What needs an extra that is not installed counts as there.
    """
    owner, _, last = name.rpartition(".")
    found = find(owner) if owner else None
    with contextlib.suppress(ImportError, AttributeError):
        result: object | None = getattr(found, last)
        return result
    try:
        # A module that nothing has imported yet.
        return importlib.import_module(name) if not owner or isinstance(found, ModuleType) else None
    except ModuleNotFoundError:
        return None
    except ImportError as error:
        return error


def first_missing(name: str) -> str | None:
    """The shortest beginning of a full name that is not there."""
    parts = name.split(".")
    beginnings = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return next((each for each in beginnings if find(each) is None), None)
