"""Loaders of numbers: kinds, bounds, arithmetic and comparisons."""

import math
import operator
from collections.abc import Callable
from typing import Any

from ding.utils.loader._comparison import OPERATORS, check_chain, failing_link
from ding.utils.loader.base import ILoaderClass, Loader


def numeric(int_ok: bool = True, float_ok: bool = True, inf_ok: bool = True) -> ILoaderClass:
    """Check that the value is a number and not NaN; a bool is an int.

    Args:
        int_ok: Allow integers.
        float_ok: Allow floats.
        inf_ok: Allow infinite floats.

    Raises:
        ValueError: Neither kind is allowed; on loading: the value is NaN, or infinite where that is not allowed.
        TypeError: On loading: the value has another type.
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
    """Check that the value is a number between two bounds.

    Args:
        left: Lower bound; None for no bound.
        right: Upper bound; None for no bound.
        left_ok: Whether the lower bound itself passes.
        right_ok: Whether the upper bound itself passes.
        eps: Distance from a bound within which a value counts as equal to it.

    Raises:
        ValueError: ``left > right``; on loading: the value is out of bounds.
        TypeError: On loading: the value is not a number.
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
    """Check that the value is below 0 (else ``ValueError``)."""
    return _sign(lambda v: v < 0, "negative")


def is_positive() -> ILoaderClass:
    """Check that the value is above 0 (else ``ValueError``)."""
    return _sign(lambda v: v > 0, "positive")


def non_negative() -> ILoaderClass:
    """Check that the value is at least 0 (else ``ValueError``)."""
    return _sign(lambda v: v >= 0, "non-negative")


def non_positive() -> ILoaderClass:
    """Check that the value is at most 0 (else ``ValueError``)."""
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
    """``value + addend``. As in all arithmetic here, the operand may be a loader, which is applied to the value."""
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
    """Sum the results of these loaders, or functions, for the value."""
    return Loader(lambda v: sum(item(v) for item in items))


def mmulti(*items: Callable[[Any], Any]) -> ILoaderClass:
    """Multiply the results of these loaders, or functions, for the value."""
    return Loader(lambda v: math.prod(item(v) for item in items))


def mcmp(first: object, *items: object) -> ILoaderClass:
    """Check a chain of comparisons of the value, such as ``mcmp(1, "<", keep(), "<=", 3)``.

    Args:
        first: First operand: a constant, or a loader, which is applied to the value.
        items: Any number of operators (``!= == < <= > >=``), each followed by an operand.

    Raises:
        ValueError: An operator lacks an operand; on loading: a comparison does not hold.
        KeyError: An operator is unknown.
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
