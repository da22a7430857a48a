"""Loaders of single values: what Loader makes of a value, operators, types, numbers, text."""

import math
import re

import pytest

from ding.utils.loader import (
    Loader,
    check,
    check_only,
    enum,
    fcall,
    fpartial,
    interval,
    is_callable,
    is_negative,
    is_positive,
    is_type,
    keep,
    mcmp,
    method,
    minus,
    minus_with,
    mmulti,
    msum,
    multi,
    negative,
    non_negative,
    non_positive,
    numeric,
    optional,
    plus,
    positive,
    power,
    power_with,
    prop,
    raw,
    regrep,
    rematch,
    to_type,
)
from ding.utils.loader import divide as div
from ding.utils.loader import divide_with as div_with
from ding.utils.loader.base import CAPTURE_EXCEPTIONS, ILoaderClass

NAN, INF = math.nan, math.inf


def large(value: float) -> bool:
    return value > 2


@pytest.mark.parametrize(
    ("loader", "value", "expected"),
    [
        # What Loader makes of a value.
        (Loader(keep()), 3, 3),
        (Loader(int), True, True),
        (Loader((large, "small")), 3, 3),
        (Loader((large, lambda v: v * 2, "small")), 3, 6),
        (Loader((is_positive(), "negative")), 3, 3),
        (Loader(lambda v: v + 1), 3, 4),
        (Loader(True), 3, 3),
        (Loader(None), None, None),
        (Loader("constant"), 3, "constant"),
        (Loader([1]), 3, [1]),
        # Operators.
        (Loader(int) & plus(1), 3, 4),
        (int & is_positive(), 1, 1),
        (Loader(int) & 5, 3, 5),
        (Loader(int) | str, "a", "a"),
        (str | Loader(int), 2, 2),
        (None | Loader(int), None, None),
        ("first" | is_positive(), 2, "first"),
        (is_positive() | "second", -2, "second"),
        (plus(1) >> multi(2), 3, 8),
        (5 >> multi(2), 3, 10),
        (plus(1) >> (lambda v: v * 2), 3, 8),
        (Loader(int) | Loader(str) >> plus("x"), "a", "ax"),
        # utils.
        (keep(), 3, 3),
        (raw(int), 3, int),
        (raw(len), 3, len),
        (optional(int), None, None),
        (optional(int), 3, 3),
        (check_only(plus(1)), 3, 3),
        (check(is_positive()), 3, True),
        (check(is_positive()), -3, False),
        # types.
        (is_type(int), 3, 3),
        (to_type(int), "3", 3),
        (is_callable(), len, len),
        (prop("real"), 3, 3),
        (method("upper") >> fcall(), "abc", "ABC"),
        (fcall("12", base=3), int, 5),
        (fpartial("12", base=3) >> fcall(), int, 5),
        # Kinds and bounds of numbers.
        (numeric(), 3.5, 3.5),
        (numeric(), True, True),
        (numeric(), INF, INF),
        (numeric(inf_ok=False), 3.5, 3.5),
        (numeric(int_ok=False), 3.5, 3.5),
        (numeric(float_ok=False), 3, 3),
        (interval(), 3, 3),
        (interval(), -INF, -INF),
        (interval(left_ok=False, right_ok=False), INF, INF),
        (interval(1, 3), 1, 1),
        (interval(1, 3), 3, 3),
        (interval(3, 3), 3, 3),
        (interval(1, 3, False, False), 2, 2),
        (interval(1), 100, 100),
        (interval(right=1), 0, 0),
        (interval(1, 3, eps=0.1), 0.95, 0.95),
        (interval(1, 3, eps=0.1), 3.05, 3.05),
        (interval(1, 3, left_ok=False, eps=0.1), 1.2, 1.2),
        (is_negative(), -1, -1),
        (is_positive(), 2.5, 2.5),
        (non_negative(), 0, 0),
        (non_positive(), 0, 0),
        # Arithmetic and comparisons.
        (negative(), 3, -3),
        (positive(), -3, -3),
        (plus(2), 3, 5),
        (plus(negative()), 3, 0),
        (plus("a"), "b", "ba"),
        (minus(2), 3, 1),
        (minus_with(2), 3, -1),
        (minus_with(lambda v: v * 10), 3, 27),
        (multi(2), 3, 6),
        (div(2), 3, 1.5),
        (div_with(2), 4, 0.5),
        (div_with(keep()), 3, 1.0),
        (power(2), 3, 9),
        (power_with(2), 3, 8),
        (power_with(negative()), 3, -27),
        (msum(), 3, 0),
        (msum(keep(), plus(1), abs), 3, 10),
        (mmulti(), 3, 1),
        (mmulti(keep(), plus(1)), 3, 12),
        (mcmp(1), 3, 3),
        (mcmp(1, "<", 2), 3, 3),
        (mcmp(1, "<", keep(), "<=", 3), 3, 3),
        (mcmp(1, "!=", 2, "==", 2, ">", 1, ">=", 1), 3, 3),
        # Text.
        (enum("a", "b"), "a", "a"),
        (enum(1, 2), 1, "1"),
        (enum("A", "b", case_sensitive=False), "a", "a"),
        (enum("a", "b", case_sensitive=False), "A", "a"),
        (rematch("a+"), "aaa", "aaa"),
        (rematch(re.compile("a+", re.IGNORECASE)), "AAA", "AAA"),
        (regrep("a+"), "baac", "aa"),
        (regrep("b(a+)c", 1), "xbaac", "aa"),
        (regrep("b(?P<name>a+)c", "name"), "xbaac", "aa"),
    ],
)
def test_a_value_passes(loader, value, expected) -> None:
    assert loader(value) == loader.load(value) == expected
    assert type(loader(value)) is type(expected)
    assert loader.check(value) is True


@pytest.mark.parametrize(
    ("loader", "value", "error", "text"),
    [
        (Loader(int), "a", TypeError, "type not match, 'int' expected but 'str' found"),
        (Loader((large, "small")), 1, ValueError, "small"),
        (Loader((large, lambda v: IndexError(f"{v} is small"))), 1, IndexError, "1 is small"),
        (Loader((large, IndexError("small"))), 1, IndexError, "small"),
        (
            Loader((large, 5)),
            3,
            TypeError,
            "Unknown type of exception, func, exception or str expected but 'int' found.",
        ),
        (Loader((large, lambda v: v * 2, "small")), 1, ValueError, "small"),
        (Loader((check(is_positive()), "negative")), -3, ValueError, "negative"),
        (Loader(False), 3, ValueError, "assertion false"),
        (Loader(None), 3, TypeError, "type not match, none expected but 'int' found"),
        (Loader(int) & 5, "a", TypeError, "type not match, 'int' expected but 'str' found"),
        (Loader(int) | str, 2.5, TypeError, "type not match, 'str' expected but 'float' found"),
        (str | Loader(int), 2.5, TypeError, "type not match, 'int' expected but 'float' found"),
        (optional(int), "a", TypeError, "type not match, none expected but 'str' found"),
        (is_type(int), "a", TypeError, "type not match, 'int' expected but 'str' found"),
        (to_type(int), "a", ValueError, "invalid literal for int() with base 10: 'a'"),
        (is_callable(), 3, TypeError, "the value must be callable, got 3"),
        (prop("foo"), 3, AttributeError, "attribute 'foo' expected but not found"),
        (method("foo"), 3, TypeError, "type 'int' not support function 'foo'"),
        (method("real"), 3, TypeError, "type 'int' not support function 'real'"),
        (fcall(), 3, TypeError, "'int' object is not callable"),
        (numeric(), "a", TypeError, "int or float expected but 'a' found"),
        (numeric(), NAN, ValueError, "a number expected but nan found"),
        (numeric(float_ok=False), NAN, ValueError, "a number expected but nan found"),
        (numeric(inf_ok=False), -INF, ValueError, "a finite number expected but -inf found"),
        (numeric(int_ok=False), True, TypeError, "float expected but True found"),
        (numeric(float_ok=False), INF, TypeError, "int expected but inf found"),
        (interval(1, 3), 0, ValueError, "a number >= 1 expected but 0 found"),
        (interval(1, 3), 4, ValueError, "a number <= 3 expected but 4 found"),
        (interval(1, 3, left_ok=False), 1, ValueError, "a number > 1 expected but 1 found"),
        (interval(1, 3, right_ok=False), 3, ValueError, "a number < 3 expected but 3 found"),
        (interval(1, 3, False, eps=0.1), 1.05, ValueError, "a number > 1 expected but 1.05 found"),
        (interval(1, 3, eps=0.1), 3.2, ValueError, "a number <= 3 expected but 3.2 found"),
        (interval(1, 3), NAN, ValueError, "a number >= 1 expected but nan found"),
        (interval(1, 3), "a", TypeError, "unsupported operand type(s) for -: 'str' and 'int'"),
        (is_negative(), 0, ValueError, "a negative number expected but 0 found"),
        (is_positive(), 0, ValueError, "a positive number expected but 0 found"),
        (non_negative(), -1, ValueError, "a non-negative number expected but -1 found"),
        (non_positive(), 1, ValueError, "a non-positive number expected but 1 found"),
        (div(0), 3, ZeroDivisionError, "division by zero"),
        (msum(keep(), 2), 3, TypeError, "'int' object is not callable"),
        (mmulti(2, keep()), 3, TypeError, "'int' object is not callable"),
        (mcmp(7, "<=", 5), 3, ValueError, "comparison failed for 7 <= 5"),
        (mcmp(1, "<", keep(), "<=", 3), 4, ValueError, "comparison failed for 4 <= 3"),
        (mcmp("a", "==", "b"), 4, ValueError, "comparison failed for 'a' == 'b'"),
        (enum("a", "b"), "c", ValueError, "unknown enum value 'c'"),
        (enum("a", "b"), "A", ValueError, "unknown enum value 'A'"),
        (rematch("a+"), "aab", ValueError, "a full match of 'a+' expected but 'aab' found"),
        (regrep("a+"), "bbb", ValueError, "a match of 'a+' expected but 'bbb' found"),
        (regrep("a+", 2), "a", IndexError, "no such group"),
    ],
)
def test_a_value_does_not_pass(loader, value, error, text) -> None:
    with pytest.raises(error) as caught:
        loader(value)
    assert type(caught.value) is error
    assert caught.value.args[0] == text
    assert loader.check(value) is False


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Loader((large,)), ValueError, r"\(predicate, exception\) or \(predicate, load, exception\)"),
        (lambda: is_type("int"), TypeError, "type_ must be a type, got 'int'"),
        (lambda: numeric(int_ok=False, float_ok=False), ValueError, "both are false"),
        (lambda: interval(3, 1), ValueError, "left=3 and right=1"),
        (lambda: mcmp(1, "<"), ValueError, "Count of items should be odd number but 2 found."),
        (lambda: mcmp(1, "~", 2), KeyError, "unknown comparison '~'"),
        (lambda: rematch(3), TypeError, "regexp must be a str or a compiled pattern, got 3"),
        (lambda: regrep(3), TypeError, "regexp must be a str or a compiled pattern, got 3"),
    ],
)
def test_what_no_loader_is_made_of(make, error, text) -> None:
    with pytest.raises(error, match=text):
        make()


def test_a_subclass_of_the_base_is_a_loader() -> None:
    class Half(ILoaderClass):
        def _load(self, value):
            return value / 2

    half = Half()
    assert Loader(half) is half
    assert (int & half >> plus(1))(4) == 3.0


def test_an_interrupt_is_no_failed_check() -> None:
    def interrupt(value: object) -> None:
        raise KeyboardInterrupt

    assert (Exception,) == CAPTURE_EXCEPTIONS
    with pytest.raises(KeyboardInterrupt):
        (Loader(interrupt) | keep()).check(3)
