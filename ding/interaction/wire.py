"""JSON as it crosses the control plane: UTF-8, no ``NaN`` or ``Infinity`` literals, bounded nesting.

A float that is not finite travels as ``{"$float": "inf"}`` (or ``"-inf"``, ``"nan"``) and arrives as the float again,
because configs are full of infinite limits. Numpy scalars and arrays and torch tensors travel as plain numbers and
lists, messages (``ding.interaction.messages``) as objects.
"""

from __future__ import annotations

import json
import math
import os
import re
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from ding.interaction.config import MAX_JSON_DEPTH
from ding.interaction.errors import WireError

_FLOAT_KEY = "$float"
_NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
# A string (closed or cut off, so that no body makes the search start over), an opening or a closing bracket.
_BRACKETS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)


def dumps(value: object) -> bytes:
    """``value`` as compact JSON.

    Raises:
        WireError: something in it has no JSON form, or it contains itself.
    """
    try:
        try:
            text = json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain)
        except ValueError:
            text = json.dumps(_tagged(value), allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(f"a {type(value).__name__} cannot be sent as JSON: {error}") from error
    return text.encode("utf-8")


def loads(body: bytes, max_depth: int = MAX_JSON_DEPTH) -> Any:
    """The value of a JSON body.

    Raises:
        WireError: the body is no strict JSON in UTF-8, or nests deeper than ``max_depth``.
    """
    _check_depth(body, max_depth)
    try:
        text = body.decode("utf-8")
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            object_hook=_untagged if _FLOAT_KEY in text else None,
        )
    except (ValueError, RecursionError) as error:
        raise WireError(f"the body is no JSON: {type(error).__name__}") from error


def _plain(value: object) -> Any:
    if isinstance(value, Struct):
        return asdict(value)
    to_list = getattr(value, "tolist", None)
    if callable(to_list):
        return to_list()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _tagged(value: object) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else {_FLOAT_KEY: str(float(value))}
    if isinstance(value, dict):
        return {key: _tagged(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tagged(child) for child in value]
    if value is None or isinstance(value, (str, int)):
        return value
    return _tagged(_plain(value))


def _untagged(value: dict[str, Any]) -> Any:
    if len(value) == 1:
        name = value.get(_FLOAT_KEY)
        if isinstance(name, str) and name in _NON_FINITE:
            return _NON_FINITE[name]
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number overflows")
    return number


def _check_depth(body: bytes, max_depth: int) -> None:
    if body.count(b"[") + body.count(b"{") <= max_depth:
        return
    depth = 0
    for match in _BRACKETS.finditer(body):
        first = body[match.start()]
        if first in b"[{":
            depth += 1
            if depth > max_depth:
                raise WireError(f"the body nests deeper than {max_depth} levels")
        elif first in b"]}":
            depth -= 1
