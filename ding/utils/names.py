"""Suggestions for misspelt names. Imports no array library, to keep the command line fast."""

import difflib
from collections.abc import Collection, Iterable

from ding.utils.errors import InvalidArgumentError

_MAX_LISTED = 30


def nearest(name: object, candidates: Iterable[object]) -> str | None:
    """Return the candidate most similar to ``name``, or None if none is close."""
    found = difflib.get_close_matches(str(name), [str(candidate) for candidate in candidates], n=1)
    return found[0] if found else None


def did_you_mean(name: object, candidates: Iterable[object]) -> str:
    """Return the end of an error message about an unknown name: a blank, the nearest and the known names."""
    known = sorted(str(candidate) for candidate in candidates)
    if not known:
        return " No names are known."
    close = nearest(name, known)
    hint = f" Did you mean {close!r}?" if close is not None else ""
    return f"{hint} Known names: {listed(known)}."


def listed(names: Iterable[object]) -> str:
    """Return the names in their order for a message, truncated if there are many."""
    known = sorted(str(name) for name in names)
    more = f", ... ({len(known)} in all)" if len(known) > _MAX_LISTED else ""
    return f"{', '.join(known[:_MAX_LISTED])}{more}"


def check_choice(
    key: str, value: object, choices: Collection[object], error: type[Exception] = InvalidArgumentError
) -> None:
    """Raise ``error``, which lists the choices and the nearest one, unless ``value`` is one of them."""
    if value not in choices:
        raise error(f"{key}={value!r} is unknown.{did_you_mean(value, choices)}")
