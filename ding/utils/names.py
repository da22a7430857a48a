"""Names in messages: the known one that a user may have meant. Imports no array library: the command starts with it."""

import difflib
from collections.abc import Collection, Iterable

from ding.utils.errors import InvalidArgumentError

_MAX_LISTED = 30


def nearest(name: object, candidates: Iterable[object]) -> str | None:
    """Return the candidate that reads most like ``name``, or None when none comes close."""
    found = difflib.get_close_matches(str(name), [str(candidate) for candidate in candidates], n=1)
    return found[0] if found else None


def did_you_mean(name: object, candidates: Iterable[object]) -> str:
    """Return the end of an error message about an unknown name, with a leading blank: the nearest name and the known
    ones.
    """
    known = sorted(str(candidate) for candidate in candidates)
    if not known:
        return " No names are known."
    close = nearest(name, known)
    hint = f" Did you mean {close!r}?" if close is not None else ""
    return f"{hint} Known names: {listed(known)}."


def listed(names: Iterable[object]) -> str:
    """Return the names in their order, the first of many, for a message."""
    known = sorted(str(name) for name in names)
    more = f", ... ({len(known)} in all)" if len(known) > _MAX_LISTED else ""
    return f"{', '.join(known[:_MAX_LISTED])}{more}"


def check_choice(
    key: str, value: object, choices: Collection[object], error: type[Exception] = InvalidArgumentError
) -> None:
    """Raise ``error``, which names the choices and the nearest one, unless ``value`` is one of them."""
    if value not in choices:
        raise error(f"{key}={value!r} is unknown.{did_you_mean(value, choices)}")
