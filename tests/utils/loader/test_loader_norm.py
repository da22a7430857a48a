"""Expressions of a value."""

import operator

import pytest

import ding.utils.loader as loader_package
from ding.utils.loader import (
    Loader,
    keep,
    land,
    lcmp,
    lin,
    lis,
    lisnot,
    lnot,
    lor,
    lsum,
    norm,
    normfunc,
    plus,
    raw,
)
from ding.utils.loader.norm import INormClass

X = norm(keep())
BINARY = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow),
    *(operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor),
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
]


class Matrix:
    def __matmul__(self, other):
        return ("left", other)

    def __rmatmul__(self, other):
        return ("right", other)


@pytest.mark.parametrize("function", BINARY)
@pytest.mark.parametrize(("value", "other"), [(3, 2), (2, 5), (4, 4)])
def test_an_operator_is_that_of_the_value_on_either_side(function, value, other) -> None:
    assert function(X, other)(value) == function(value, other)
    assert function(other, X)(value) == function(other, value)
    assert function(X, X + 1)(value) == function(value, value + 1)
    assert function(X, norm(plus(1)))(value) == function(value, value + 1)


@pytest.mark.parametrize("function", [operator.neg, operator.pos, operator.invert])
def test_an_operator_of_one_operand(function) -> None:
    assert function(X)(3) == function(3)


@pytest.mark.parametrize(
    ("expression", "value", "expected"),
    [
        (norm(5), 3, 5),
        (norm(len), 3, len),
        (norm(int), 3, int),
        (norm(plus(1)), 3, 4),
        (X @ Matrix(), 3, ("right", 3)),
        (norm(raw(Matrix())) @ 3, 3, ("left", 3)),
        (keep() + X, 3, 6),
        (normfunc(max)(X, 5), 7, 7),
        (normfunc(max)(keep(), 5), 3, 5),
        (normfunc(int)("12", base=X), 3, 5),
        (lnot(X), 0, True),
        (lnot(keep()), 3, False),
        (land(), 3, True),
        (land(X, 5), 3, 5),
        (land(X, 5), 0, 0),
        (land(X > 2, X < 3), 3, False),
        (lor(), 3, False),
        (lor(X > 9, X > 8), 3, False),
        (lor(X > 9, X > 2), 3, True),
        (lor(0, X), 3, 3),
        (lin(X, 3), [1, 3], True),
        (lin([1, 3], X), 4, False),
        (lis(X, None), None, True),
        (lis(X, None), 3, False),
        (lisnot(X, None), 3, True),
        (lsum(), 3, 0),
        (lsum(X, 2, keep()), 3, 8),
        (lcmp(X), 3, True),
        (lcmp(1, "<", X, "<", 3), 3, False),
        (lcmp(1, "<", keep(), "<=", 3), 3, True),
    ],
)
def test_an_expression_is_computed(expression, value, expected) -> None:
    assert isinstance(expression, INormClass)
    assert expression(value) == expected
    assert type(expression(value)) is type(expected)


@pytest.mark.parametrize(
    ("expression", "error", "text"),
    [
        (X / 0, ZeroDivisionError, "division by zero"),
        (land(0, X / 0), ZeroDivisionError, "division by zero"),
        (lcmp(1, "<"), ValueError, "Count of items should be odd number but 2 found."),
        (lcmp(5, "<", 2, "~", 3), KeyError, "unknown comparison '~'"),
    ],
)
def test_an_expression_that_cannot_be_computed_is_found_when_it_is_called(expression, error, text) -> None:
    with pytest.raises(error, match=text):
        expression(3)


def test_a_loader_is_made_of_an_expression() -> None:
    even = Loader((X % 2 == 0, "even number expected"))
    assert (even >> X * 10)(4) == 40
    assert (even & X)(4) == 4
    assert not even.check(3)


def test_an_expression_stays_itself_and_has_no_hash() -> None:
    assert norm(X) is X
    with pytest.raises(TypeError, match="unhashable"):
        hash(X)


def test_names_that_are_modules_too_are_the_functions() -> None:
    for name in ("collection", "mapping", "norm"):
        assert getattr(loader_package, name).__name__ == name
    assert "dict" not in loader_package.__all__  # import * does not hide the builtin
