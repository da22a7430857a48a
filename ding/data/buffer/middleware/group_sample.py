"""Reduce each sampled group to a part of it."""

from collections.abc import Callable
from typing import Any

from ding.data.buffer._core import Records
from ding.data.buffer.buffer import Middleware, batch_aware
from ding.data.buffer.errors import NotEnoughDataError, SampleArgumentError
from ding.data.replay.priorities import Draws


def group_sample(size_in_group: int, ordered_in_group: bool = True, max_use_in_group: bool = True) -> Middleware:
    """Return ``size_in_group`` records of each sampled group. Requires ``groupby`` in ``sample``.

    Args:
        size_in_group: Number of records.
        ordered_in_group: Whether to return a random window of consecutive records, instead of a random subset in random
            order.
        max_use_in_group: Whether windows must fit into the group. Otherwise they begin anywhere, so those near its end
            are shorter.

    Raises:
        SampleArgumentError: ``size_in_group`` is not positive.
    """
    if size_in_group < 1:
        raise SampleArgumentError(f"size_in_group must be positive, got {size_in_group}")
    draws = Draws()

    def part(group: Records) -> Records:
        total = len(group)
        if ordered_in_group:
            starts = max(0, total - size_in_group) + 1 if max_use_in_group else total
            start = int(draws.generator.integers(starts))
            return group[start : start + size_in_group]
        if total < size_in_group:
            raise NotEnoughDataError(f"asked for {size_in_group} records of a group, it has {total}")
        return [group[i] for i in draws.generator.choice(total, size_in_group, replace=False).tolist()]

    @batch_aware
    def pick(action: str, chain: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
        if action != "sample":
            return chain(*args, **kwargs)
        if (args[5] if len(args) > 5 else kwargs.get("groupby")) is None:
            raise SampleArgumentError("group_sample needs groupby, the meta key that holds the group of a record")
        return [part(group) for group in chain(*args, **kwargs)]

    return pick
