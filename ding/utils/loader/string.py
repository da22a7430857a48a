"""Loaders of strings."""

import re
from typing import Any

from ding.utils.loader.base import ILoaderClass, Loader


def enum(*items: object, case_sensitive: bool = True) -> ILoaderClass:
    """Check that the text of the value equals that of one of the items (else ``ValueError``).

    Args:
        items: Allowed values, compared by ``str``.
        case_sensitive: If False, case is ignored and the result is in lower case.
    """

    def text_of(value: object) -> str:
        return str(value) if case_sensitive else str(value).lower()

    allowed = {text_of(item) for item in items}

    def load(value: Any) -> str:
        if text_of(value) not in allowed:
            raise ValueError(f"unknown enum value {value!r}")
        return text_of(value)

    return Loader(load)


def rematch(regexp: str | re.Pattern[str]) -> ILoaderClass:
    """Check that a regular expression matches the whole value (else ``ValueError``).

    Raises:
        TypeError: ``regexp`` is neither a string nor a pattern; on loading: the value is not a string.
    """
    pattern = _pattern(regexp)

    def load(value: Any) -> object:
        if pattern.fullmatch(value) is None:
            raise ValueError(f"a full match of {pattern.pattern!r} expected but {value!r} found")
        return value

    return Loader(load)


def regrep(regexp: str | re.Pattern[str], group: int | str = 0) -> ILoaderClass:
    """Return a group of the first match of a regular expression in the value (``ValueError`` without a match).

    Raises:
        TypeError: ``regexp`` is neither a string nor a pattern; on loading: the value is not a string.
        IndexError: On loading: the expression has no such group.
    """
    pattern = _pattern(regexp)

    def load(value: Any) -> object:
        found = pattern.search(value)
        if found is None:
            raise ValueError(f"a match of {pattern.pattern!r} expected but {value!r} found")
        return found.group(group)

    return Loader(load)


def _pattern(regexp: str | re.Pattern[str]) -> re.Pattern[str]:
    if not isinstance(regexp, str | re.Pattern):
        raise TypeError(f"regexp must be a str or a compiled pattern, got {regexp!r}")
    return re.compile(regexp)
