"""Matching the priorities that a policy computed with the buffer entries of its samples."""

from collections.abc import Mapping, Sequence
from typing import Any

from ding.data import TransitionBatch


def pop_priority_info(log_vars: list[dict[str, Any]], data: Any) -> dict[str, Any]:
    """Take ``priority`` out of the last log dict and add the ids by which the buffer finds the samples again.

    Args:
        log_vars: what the policy returned; ``priority`` is removed from each dict.
        data: the samples it was given. The ids of a :class:`~ding.data.TransitionBatch` are read from its columns.

    Returns:
        ``{}`` without a priority, else ``{'priority', 'replay_buffer_idx', 'replay_unique_id'}``, where the ids are
        ``None`` for samples that have none.

    Raises:
        TypeError: there are priorities, but ``data`` is no sequence of samples.
    """
    priority = None
    for item in log_vars:
        priority = item.pop("priority", None)
    if priority is None:
        return {}
    return {
        "priority": priority,
        "replay_buffer_idx": _ids(data, "replay_buffer_idx"),
        "replay_unique_id": _ids(data, "replay_unique_id"),
    }


def _ids(data: Any, key: str) -> Any:
    if isinstance(data, TransitionBatch):
        column = data.columns.get(key)
        return [None] * len(data) if column is None else column
    if not isinstance(data, Sequence) or not all(isinstance(sample, Mapping) for sample in data):
        raise TypeError(
            f"policy.forward returned 'priority' for data without samples ({type(data).__name__}): "
            "expected a list of dicts or a TransitionBatch"
        )
    return [sample.get(key) for sample in data]
