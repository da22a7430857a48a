"""Split batches among several learners and merge their reports."""

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ding.parallel.messages import ROW_KEYS, pack_infos, unpack_infos

# Keys on which all learners agree: take the value of the first one.
_SAME_FOR_ALL = ("learner_step", "buffer_id", "task_id", "learner_done")


def merge_info(info: list[Any]) -> dict[str, Any] | list[Any]:
    """Merge the values of several learners according to the type of the first one.

    ``None``, numbers and strings are collected in a list, lists are concatenated, and dicts are merged by key, where
    ``learner_step, buffer_id, task_id, learner_done`` are taken from the first learner.

    Raises:
        TypeError: A value has another type.
        ValueError: ``info`` is empty.
    """
    if not info:
        raise ValueError("merge_info needs the info of at least one learner")
    first = info[0]
    if first is None or isinstance(first, (numbers.Integral, numbers.Real, str)):
        return info
    if isinstance(first, (list, tuple)):
        return [value for one in info for value in one]
    if isinstance(first, Mapping):
        return {
            key: value if key in _SAME_FOR_ALL else merge_info([one[key] for one in info])
            for key, value in first.items()
        }
    raise TypeError(f"merge_info cannot merge values of type {type(first).__name__}")


def merge_demands(demands: Sequence[Sequence[Mapping[str, int]]]) -> list[dict[str, int]]:
    """Merge demands: add up the sizes at each position, up to the length of the shortest demand."""
    return [
        {"batch_size": sum(one["batch_size"] for one in same), "cur_learner_iter": same[0]["cur_learner_iter"]}
        for same in zip(*demands)
    ]


def split_batch(batch: Mapping[str, Any], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Split a batch into consecutive parts, each with the chunks that its rows reference.

    Raises:
        ValueError: The sizes do not add up to the number of rows.
    """
    if sum(sizes) != len(batch["rows"]):
        raise ValueError(f"a batch of {len(batch['rows'])} rows cannot be split into {list(sizes)}")
    parts, begin = [], 0
    for size in sizes:
        end = begin + size
        rows = np.asarray(batch["rows"][begin:end], dtype=np.int64).reshape(-1, 2)
        used, positions = np.unique(rows[:, 0], return_inverse=True)
        part = {
            **batch,
            "chunks": [batch["chunks"][position] for position in used.tolist()],
            "rows": np.stack([positions.reshape(-1), rows[:, 1]], axis=1),
        }
        part.update({key: batch[key][begin:end] for key in ROW_KEYS if batch.get(key) is not None})
        parts.append(part)
        begin = end
    return parts


def split_list(data: Sequence[Any], sizes: Sequence[int]) -> list[list[Any]]:
    """Split a list into consecutive parts.

    Raises:
        ValueError: The sizes do not add up to the length of the list.
    """
    if sum(sizes) != len(data):
        raise ValueError(f"{len(data)} samples cannot be split into {list(sizes)}")
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    return [list(data[end - size : end]) for size, end in zip(sizes, ends)]


def merge_reports(reports: Sequence[Mapping[str, Any]], info_ack: int) -> dict[str, Any]:
    """Merge the reports of several learners that train in lockstep.

    An info is passed on once every learner has reported the info with that number. The run is done once all learners
    are.
    """
    by_seq = [{info["seq"]: info["info"] for info in unpack_infos(report)} for report in reports]
    common = sorted(set.intersection(*(set(infos) for infos in by_seq)))
    done = all(report.get("done") for report in reports)
    merged: dict[str, Any] = {
        "demand": merge_demands([report.get("demand") or [] for report in reports]),
        **pack_infos(
            [
                {"seq": seq, "info": merge_info([_mergeable(infos[seq]) for infos in by_seq])}
                for seq in common
                if seq > info_ack
            ]
        ),
        "loaded": min(report.get("loaded", 0) for report in reports),
        "broken_chunks": sorted({chunk for report in reports for chunk in report.get("broken_chunks") or []}),
        "done": done,
    }
    if "policy_version" in reports[0]:
        merged["policy_version"] = reports[0]["policy_version"]
    if done:
        merged["final"] = reports[0].get("final", {})
    return merged


def _mergeable(info: Mapping[str, Any]) -> dict[str, Any]:
    priorities = {key: list(value) for key, value in (info.get("priority_info") or {}).items()}
    return {"priority_info": priorities, **{key: info[key] for key in ("learner_step", "learner_done") if key in info}}
