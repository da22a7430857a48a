"""Expressions of a value: ``norm(keep()) * 2 + 1 > 5`` is a function of the value that returns True above 2.

``norm(x)`` creates the first expression; operators and the functions of this module combine expressions. An expression
is callable, so it can be used as a loader: ``Loader((norm(keep()) % 2 == 0, "even number expected"))``.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import reduce, wraps
from typing import Any

from ding.utils.loader._comparison import check_chain, failing_link
from ding.utils.loader.base import ILoaderClass


def normfunc(func: Callable[..., Any]) -> Callable[..., "INormClass"]:
    """Lift a function to expressions: the result accepts the arguments of :func:`norm` and returns an expression.

    ``normfunc(max)(norm(keep()), 5)(3)`` is 5. All arguments are evaluated before the call.
    """

    @wraps(func)
    def expression(*args: object, **kwargs: object) -> "INormClass":
        positional = [norm(arg) for arg in args]
        named = {name: norm(arg) for name, arg in kwargs.items()}
        return _FunctionNorm(
            lambda v: func(*(arg(v) for arg in positional), **{name: arg(v) for name, arg in named.items()})
        )

    return expression


def _both_sides(function: Callable[[Any, Any], Any]) -> tuple[Callable[..., "INormClass"], Callable[..., "INormClass"]]:
    """Return the methods of an operator, with the expression as left and as right operand."""
    expression = normfunc(function)
    return expression, lambda self, other: expression(other, self)


class INormClass(ABC):
    """An expression of a value; calling it evaluates it. Subclasses implement ``_call``.

    The operators, comparisons among them, return expressions: ``a == b`` is one, and an expression has no hash.
    ``and``, ``or``, ``not``, ``in`` and ``is`` cannot be overloaded: use :func:`land` and the functions after it.
    """

    @abstractmethod
    def _call(self, value: Any) -> object:
        """Evaluate the expression for a value."""

    def __call__(self, value: Any) -> Any:
        return self._call(value)

    __add__, __radd__ = _both_sides(operator.add)
    __sub__, __rsub__ = _both_sides(operator.sub)
    __mul__, __rmul__ = _both_sides(operator.mul)
    __matmul__, __rmatmul__ = _both_sides(operator.matmul)
    __truediv__, __rtruediv__ = _both_sides(operator.truediv)
    __floordiv__, __rfloordiv__ = _both_sides(operator.floordiv)
    __mod__, __rmod__ = _both_sides(operator.mod)
    __pow__, __rpow__ = _both_sides(operator.pow)
    __lshift__, __rlshift__ = _both_sides(operator.lshift)
    __rshift__, __rrshift__ = _both_sides(operator.rshift)
    __and__, __rand__ = _both_sides(operator.and_)
    __or__, __ror__ = _both_sides(operator.or_)
    __xor__, __rxor__ = _both_sides(operator.xor)
    __invert__ = normfunc(operator.invert)
    __pos__ = normfunc(operator.pos)
    __neg__ = normfunc(operator.neg)
    __lt__ = normfunc(operator.lt)
    __le__ = normfunc(operator.le)
    __gt__ = normfunc(operator.gt)
    __ge__ = normfunc(operator.ge)
    __eq__ = normfunc(operator.eq)  # type: ignore[assignment]
    __ne__ = normfunc(operator.ne)  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class _FunctionNorm(INormClass):
    """An expression evaluated by a function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def _call(self, value: Any) -> object:
        return self._function(value)


def norm(value: object) -> INormClass:
    """Convert a loader to an expression of its result; anything else becomes a constant.

    Expressions are returned unchanged. Types and functions are constants too: :func:`normfunc` calls functions.
    """
    if isinstance(value, INormClass):
        return value
    if isinstance(value, ILoaderClass):
        return _FunctionNorm(value)
    return _FunctionNorm(lambda v: value)


@normfunc
def lnot(x: object) -> bool:
    """``not x``."""
    return not x


@normfunc
def land(*items: Any) -> bool:
    """Return the first false item, else the last one; True without items. All items are evaluated."""
    return reduce(lambda x, y: x and y, items, True)


@normfunc
def lor(*items: Any) -> bool:
    """Return the first true item, else the last one; False without items. All items are evaluated."""
    return reduce(lambda x, y: x or y, items, False)


@normfunc
def lin(container: Any, item: Any) -> bool:
    """``item in container``."""
    return item in container


@normfunc
def lis(a: object, b: object) -> bool:
    """``a is b``."""
    return a is b


@normfunc
def lisnot(a: object, b: object) -> bool:
    """``a is not b``."""
    return a is not b


@normfunc
def lsum(*items: Any) -> Any:
    """The sum of the items."""
    return sum(items)


@normfunc
def lcmp(first: Any, *items: Any) -> bool:
    """Whether a chain of comparisons holds, as in ``lcmp(1, "<", norm(keep()), "<=", 3)``.

    Raises:
        ValueError: On evaluation: an operator lacks an operand.
        KeyError: On evaluation: an operator is unknown.
    """
    check_chain([first, *items])
    return failing_link([first, *items]) is None
