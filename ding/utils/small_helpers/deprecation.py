"""Marks of functions that will go."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def deprecated(since: str, removed_in: str, up_to: str | None = None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator: each call of the function warns with a ``FutureWarning``, and its docstring has a note.

    Args:
        since: version that deprecated it.
        removed_in: version that will not have it.
        up_to: what to use in its place.
    """

    def mark(fn: Callable[P, T]) -> Callable[P, T]:
        instead = f"; use {up_to}" if up_to else ""
        text = f"deprecated since {since}, to be removed in {removed_in}{instead}"

        @functools.wraps(fn)
        def warned(*args: P.args, **kwargs: P.kwargs) -> T:
            warnings.warn(f"{fn.__module__}.{fn.__name__} is {text}", FutureWarning, stacklevel=2)
            return fn(*args, **kwargs)

        note = f".. deprecated:: {since}\n   To be removed in {removed_in}{instead}.\n\n"
        warned.__doc__ = note + (fn.__doc__ or "")
        return warned

    return mark
