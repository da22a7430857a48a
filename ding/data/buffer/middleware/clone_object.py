"""Copies between the buffer and its user."""

from collections.abc import Callable
from typing import Any

from ding.data.buffer._clone import clone_structure
from ding.data.buffer._records import RecordBatch
from ding.data.buffer.buffer import Middleware, batch_aware


def clone_object() -> Middleware:
    """Store copies of pushed objects, and return copies of stored ones.

    Lists, dicts, tensors, arrays and records are copied (nested), other objects are not. Rows of columns are copies
    anyway.
    """

    @batch_aware
    def clone(action: str, chain: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
        if action == "push":
            return chain(*[clone_structure(arg) for arg in args], **{k: clone_structure(v) for k, v in kwargs.items()})
        if action == "sample":
            sampled = chain(*args, **kwargs)
            # Copies a RecordBatch inside a list of groups, which clone_structure would share.
            return sampled if isinstance(sampled, RecordBatch) else clone_structure(sampled)
        return chain(*args, **kwargs)

    return clone
