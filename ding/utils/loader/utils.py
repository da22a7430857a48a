"""Loaders that wrap other loaders, and the two simplest."""

from typing import Any

from ding.utils.loader.base import ILoaderClass, Loader


def keep() -> ILoaderClass:
    """Return the value unchanged."""
    return Loader(lambda v: v)


def raw(value: Any) -> ILoaderClass:
    """Return this constant for every value, even if it is a type, a function or a loader."""
    return Loader(lambda v: value)


def optional(loader: object) -> ILoaderClass:
    """Apply the loader, or return None for None."""
    return Loader(loader) | None


def check_only(loader: object) -> ILoaderClass:
    """Return the value unchanged if the loader accepts it."""
    return Loader(loader) & keep()


def check(loader: object) -> ILoaderClass:
    """Return whether the loader accepts the value, as a bool."""
    return Loader(Loader(loader).check)
