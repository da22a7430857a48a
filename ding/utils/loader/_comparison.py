"""Chains of comparisons, such as ``1, "<", x, "<=", 3``: operands separated by operators."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "!=": operator.ne,
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def check_chain(items: Sequence[Any]) -> None:
    """Check the form of a chain.

    Raises:
        ValueError: an even number of items.
        KeyError: an operator is unknown.
    """
    if len(items) % 2 == 0:
        raise ValueError(f"Count of items should be odd number but {len(items)} found.")
    unknown = [item for item in items[1::2] if item not in OPERATORS]
    if unknown:
        raise KeyError(f"unknown comparison {unknown[0]!r}, expected one of {' '.join(OPERATORS)}")


def failing_link(items: Sequence[Any]) -> str | None:
    """Return the first comparison that does not hold, as text; None where all hold."""
    for left, symbol, right in zip(items[:-1:2], items[1::2], items[2::2], strict=True):
        if not OPERATORS[symbol](left, right):
            return f"{left!r} {symbol} {right!r}"
    return None
