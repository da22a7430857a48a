"""Splitting batches among several learners, and merging what these say."""

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ding.parallel.messages import ROW_KEYS, pack_infos, unpack_infos

# What all learners agree on: the first one speaks for all.
_SAME_FOR_ALL = ("learner_step", "buffer_id", "task_id", "learner_done")


def merge_info(info: list[Any]) -> dict[str, Any] | list[Any]:
    """Merge values of several learners, by the type of the first one.

    ``None``, numbers and texts become a list, lists are concatenated, dicts are merged by key, where
    ``learner_step, buffer_id, task_id, learner_done`` are those of the first learner.

    Raises:
        TypeError: a value of another type.
        ValueError: nothing to merge.
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
    """Demands that all learners share: the sizes of each position add up, as many as the least one has."""
    return [
        {"batch_size": sum(one["batch_size"] for one in same), "cur_learner_iter": same[0]["cur_learner_iter"]}
        for same in zip(*demands)
    ]


def split_batch(batch: Mapping[str, Any], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Consecutive parts of a batch, each with the chunks that it needs.

    Raises:
        ValueError: the sizes do not add up to the rows of the batch.
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
    """Consecutive parts of a list.

    Raises:
        ValueError: the sizes do not add up to its length.
    """
    if sum(sizes) != len(data):
        raise ValueError(f"{len(data)} samples cannot be split into {list(sizes)}")
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    return [list(data[end - size : end]) for size, end in zip(sizes, ends)]


def merge_reports(reports: Sequence[Mapping[str, Any]], info_ack: int) -> dict[str, Any]:
    """One report of several learners that learn in step.

    An info is passed on when every learner has reported its own of that number; the run is done when all are.
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
