"""Loaders of numbers: kinds, bounds, arithmetic and comparisons."""

import math
import operator
from collections.abc import Callable
from typing import Any

from ding.utils.loader._comparison import OPERATORS, check_chain, failing_link
from ding.utils.loader.base import ILoaderClass, Loader


def numeric(int_ok: bool = True, float_ok: bool = True, inf_ok: bool = True) -> ILoaderClass:
    """The value, which must be a number that is not NaN; a bool is an int.

    Args:
        int_ok: allow integers.
        float_ok: allow floats.
        inf_ok: allow infinite floats.

    Raises:
        ValueError: neither kind is allowed; the loader: NaN, or infinite where that is not allowed.
        TypeError: the loader: the value is of another type.
    """
    if not (int_ok or float_ok):
        raise ValueError("int_ok or float_ok must be true, both are false")
    kinds = tuple(kind for kind, ok in ((int, int_ok), (float, float_ok)) if ok)
    allowed = " or ".join(kind.__name__ for kind in kinds)

    def load(value: Any) -> object:
        if isinstance(value, float) and math.isnan(value):
            raise ValueError("a number expected but nan found")
        if not isinstance(value, kinds):
            raise TypeError(f"{allowed} expected but {value!r} found")
        if isinstance(value, float) and math.isinf(value) and not inf_ok:
            raise ValueError(f"a finite number expected but {value!r} found")
        return value

    return Loader(load)


def interval(
    left: float | None = None, right: float | None = None, left_ok: bool = True, right_ok: bool = True, eps: float = 0.0
) -> ILoaderClass:
    """The value, a number between two bounds.

    Args:
        left: lower bound; None for none.
        right: upper bound; None for none.
        left_ok: the lower bound itself passes.
        right_ok: the upper bound itself passes.
        eps: how far a value may lie from a bound to count as equal to it.

    Raises:
        ValueError: ``left > right``; the loader: the value lies outside.
        TypeError: the loader: the value is no number.
    """
    low = -math.inf if left is None else left
    high = math.inf if right is None else right
    if low > high:
        raise ValueError(f"left must not exceed right, got left={left!r} and right={right!r}")

    bounds = (
        (low, ">=" if left_ok or left is None else ">"),
        (high, "<=" if right_ok or right is None else "<"),
    )

    def load(value: Any) -> object:
        for bound, symbol in bounds:
            equal = value == bound or abs(value - bound) <= abs(eps)
            if not (symbol in {">=", "<="} if equal else OPERATORS[symbol](value, bound)):
                raise ValueError(f"a number {symbol} {bound!r} expected but {value!r} found")
        return value

    return Loader(load)


def is_negative() -> ILoaderClass:
    """The value, which must be below 0 (else ``ValueError``)."""
    return _sign(lambda v: v < 0, "negative")


def is_positive() -> ILoaderClass:
    """The value, which must be above 0 (else ``ValueError``)."""
    return _sign(lambda v: v > 0, "positive")


def non_negative() -> ILoaderClass:
    """The value, which must be at least 0 (else ``ValueError``)."""
    return _sign(lambda v: v >= 0, "non-negative")


def non_positive() -> ILoaderClass:
    """The value, which must be at most 0 (else ``ValueError``)."""
    return _sign(lambda v: v <= 0, "non-positive")


def _sign(predicate: Callable[[Any], bool], name: str) -> ILoaderClass:
    return Loader((predicate, lambda v: ValueError(f"a {name} number expected but {v!r} found")))


def negative() -> ILoaderClass:
    """``-value``."""
    return Loader(operator.neg)


def positive() -> ILoaderClass:
    """``+value``."""
    return Loader(operator.pos)


def plus(addend: object) -> ILoaderClass:
    """``value + addend``; as in all arithmetic here, the operand may be a loader, which is applied to the value."""
    return _with_operand(operator.add, addend)


def minus(subtrahend: object) -> ILoaderClass:
    """``value - subtrahend``."""
    return _with_operand(operator.sub, subtrahend)


def minus_with(minuend: object) -> ILoaderClass:
    """``minuend - value``."""
    return _of_operand(operator.sub, minuend)


def multi(multiplier: object) -> ILoaderClass:
    """``value * multiplier``."""
    return _with_operand(operator.mul, multiplier)


def divide(divisor: object) -> ILoaderClass:
    """``value / divisor``."""
    return _with_operand(operator.truediv, divisor)


def divide_with(dividend: object) -> ILoaderClass:
    """``dividend / value``."""
    return _of_operand(operator.truediv, dividend)


def power(index: object) -> ILoaderClass:
    """``value ** index``."""
    return _with_operand(operator.pow, index)


def power_with(base: object) -> ILoaderClass:
    """``base ** value``."""
    return _of_operand(operator.pow, base)


def _with_operand(function: Callable[[Any, Any], Any], operand: object) -> ILoaderClass:
    load = Loader(operand)
    return Loader(lambda v: function(v, load(v)))


def _of_operand(function: Callable[[Any, Any], Any], operand: object) -> ILoaderClass:
    load = Loader(operand)
    return Loader(lambda v: function(load(v), v))


def msum(*items: Callable[[Any], Any]) -> ILoaderClass:
    """The sum of what these loaders, or functions, return for the value."""
    return Loader(lambda v: sum(item(v) for item in items))


def mmulti(*items: Callable[[Any], Any]) -> ILoaderClass:
    """The product of what these loaders, or functions, return for the value."""
    return Loader(lambda v: math.prod(item(v) for item in items))


def mcmp(first: object, *items: object) -> ILoaderClass:
    """The value, for which a chain of comparisons must hold, as in ``mcmp(1, "<", keep(), "<=", 3)``.

    Args:
        first: the first operand: a constant, or a loader, which is applied to the value.
        items: an operator (``!= == < <= > >=``) and an operand, any number of times.

    Raises:
        ValueError: an operator without operand; the loader: a comparison that does not hold.
        KeyError: an unknown operator.
    """
    chain = [first, *items]
    check_chain(chain)
    operands = [Loader(item) for item in chain[::2]]

    def load(value: Any) -> object:
        loaded = list(chain)
        loaded[::2] = [operand(value) for operand in operands]
        failing = failing_link(loaded)
        if failing is not None:
            raise ValueError(f"comparison failed for {failing}")
        return value

    return Loader(load)
