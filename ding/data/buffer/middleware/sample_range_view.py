"""Restrict sampling to a fixed part of a buffer."""

from collections.abc import Callable
from functools import partial
from typing import Any

from ding.data.buffer.buffer import Buffer, Middleware, batch_aware
from ding.data.buffer.errors import SampleArgumentError


def sample_range_view(buffer_: Buffer, start: int | None = None, end: int | None = None) -> Middleware:
    """Sample from the records at the places ``[start, end)`` only, the oldest one being 0.

    Negative bounds count from the end, the newest record being -1. They are resolved when a sample is drawn. A
    ``sample_range`` of the caller is applied within the view.

    Args:
        buffer_: Buffer to sample from.
        start: First place, or ``None``.
        end: Place after the last one, or ``None``.

    Raises:
        SampleArgumentError: Both are ``None``.
    """
    if start is None and end is None:
        raise SampleArgumentError("sample_range_view needs start or end")
    # Not a closure: in a copy of the buffer, it must refer to the copy.
    return batch_aware(partial(_narrow, buffer_, slice(start, end)))


def _narrow(buffer: Buffer, part: slice, action: str, chain: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
    if action != "sample":
        return chain(*args, **kwargs)
    places = range(buffer.count())[part]
    inner = args[3] if len(args) > 3 else kwargs.pop("sample_range", None)
    if inner is not None:
        places = places[inner]
    sample_range = slice(places.start, places.stop, places.step)
    if places.step < 0 and places.stop < 0:
        sample_range = slice(places.start, None, places.step)
    if len(args) > 3:
        return chain(*args[:3], sample_range, *args[4:], **kwargs)
    return chain(*args, sample_range=sample_range, **kwargs)
