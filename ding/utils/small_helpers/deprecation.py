"""Mark functions as deprecated."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def deprecated(since: str, removed_in: str, up_to: str | None = None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that makes each call emit a ``FutureWarning`` and adds a note to the docstring.

    Args:
        since: Version that deprecated the function.
        removed_in: Version that removes it.
        up_to: Replacement.
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
