"""Signatures of constructors and functions."""

import inspect
from collections.abc import Callable
from typing import Any, cast


def takes_argument(creator: object, name: str) -> bool:
    """Return whether a class or function takes an argument of this name; True if it has no signature.

    A constructor with ``**kwargs`` passes them to its parent, whose arguments decide.
    """
    for one in creator.__mro__ if isinstance(creator, type) else (creator,):
        made = vars(one).get("__init__") if isinstance(one, type) else one
        if made is None:
            continue
        if made is object.__init__:
            return False
        try:
            parameters = inspect.signature(cast(Callable[..., Any], made)).parameters
        except (TypeError, ValueError):
            return True
        if name in parameters:
            return True
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            return False
    return True
