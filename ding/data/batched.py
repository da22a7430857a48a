"""The mark of policy methods that take and return columns."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ding.data.env_batch import EnvBatch

Method = TypeVar("Method", bound=Callable[..., Any])

_MARK = "__ding_batched__"
_FORWARD_NAMES = frozenset({"_forward_collect", "_forward_eval", "forward"})


def batched(method: Method) -> Method:
    """Mark a policy method as one that takes and returns columns.

    The mark belongs to the function, not to its name: a subclass that overrides the method without the mark gets the
    classic calls (one dict per environment or transition), whatever its parent does.

    A forward method (``_forward_collect``, ``_forward_eval``, ``forward``) may still be called the classic way, with a
    plain dict ``{env_id: obs}``: it is then given an :class:`~ding.data.EnvBatch`, and its result is turned into a
    plain dict. Other methods are only marked; their bodies serve both forms.
    """
    if method.__name__ not in _FORWARD_NAMES:
        setattr(method, _MARK, True)
        return method

    @functools.wraps(method)
    def forward(self: object, data: Mapping[int, Any], *args: Any, **kwargs: Any) -> Any:
        if isinstance(data, EnvBatch):
            return method(self, data, *args, **kwargs)
        return method(self, EnvBatch.from_dict(data), *args, **kwargs).to_dict()

    setattr(forward, _MARK, True)
    return forward  # type: ignore[return-value]


def is_batched(method: object) -> bool:
    """Whether a function or bound method carries the mark of :func:`batched`."""
    return bool(getattr(method, _MARK, False))
