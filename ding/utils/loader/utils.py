"""Loaders around other loaders, and the two simplest."""

from typing import Any

from ding.utils.loader.base import ILoaderClass, Loader


def keep() -> ILoaderClass:
    """The value as it is."""
    return Loader(lambda v: v)


def raw(value: Any) -> ILoaderClass:
    """This constant for every value, also where it is a type, a function or a loader."""
    return Loader(lambda v: value)


def optional(loader: object) -> ILoaderClass:
    """What the loader returns, or None for None."""
    return Loader(loader) | None


def check_only(loader: object) -> ILoaderClass:
    """The value as it is, if the loader passes it."""
    return Loader(loader) & keep()


def check(loader: object) -> ILoaderClass:
    """Whether the loader passes the value: a bool."""
    return Loader(Loader(loader).check)
