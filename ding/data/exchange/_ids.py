"""Names that come from other processes, before they become parts of a path."""

import re
import uuid

from ding.data.exchange.errors import BadId

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")


def check_id(value: object, what: str) -> str:
    """``value``, when it is a plain name: letters, digits, ``_``, ``-`` and (not first) ``.``, at most 120 characters.

    Raises:
        BadId: it is something else. The message shows a short form of it only.
    """
    if isinstance(value, str) and _ID.fullmatch(value):
        return value
    shown = repr(value)[:60] if isinstance(value, str) else type(value).__name__
    raise BadId(f"{what} must be 1 to 120 letters, digits, '_', '-' or '.', and not begin with '.'; found {shown}")


def new_writer_name() -> str:
    """A name that no other writer has."""
    return f"w{uuid.uuid4().hex[:12]}"
