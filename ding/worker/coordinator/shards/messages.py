"""What a sharded buffer says to a shard and what that answers, and both as JSON.

A *shard* knows rows and their priorities, but no chunk: it has the numbers under which the buffer knows these. With
each answer it sends the figures that the buffer needs to draw, so that nobody has to ask for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np

from ding.parallel.messages import pack_array, unpack_array


class ShardLost(Exception):
    """A shard does not answer: what it held is lost."""


@dataclass(frozen=True)
class Push:
    """Take all rows of C chunks.

    Attributes:
        chunks, first_ids, rows, iters: int64 ``[C]``: number, unique id of the first row, number of rows, train
            iteration of collection.
        priority: float64 of all rows, NaN for the largest so far; empty when no row has one.
        largest: the largest priority in all shards.
    """

    chunks: np.ndarray
    first_ids: np.ndarray
    rows: np.ndarray
    iters: np.ndarray
    priority: np.ndarray
    largest: float


@dataclass(frozen=True)
class Draw:
    """Draw rows of B batches, each once more used; those that were used often enough leave.

    The answer has the columns ``chunk, row, unique_id, slot, priority, weight, staleness, use``.

    Attributes:
        points: float64 ``[N]``, of the cumulative sum of the weights here.
        sizes, iters: int64 ``[B]``: how many of the points are those of a batch, and the train iteration of that.
    """

    points: np.ndarray
    sizes: np.ndarray
    iters: np.ndarray


@dataclass(frozen=True)
class Update:
    """Set the priorities (float64 ``[N]``) of rows by int64 ``[N]`` unique ids and slots, except of those that left."""

    ids: np.ndarray
    slots: np.ndarray
    priority: np.ndarray


@dataclass(frozen=True)
class Expire:
    """Remove the rows that are too old for this train iteration."""

    cur_iter: int


@dataclass(frozen=True)
class Drop:
    """Remove the rows of the chunk of this number."""

    chunk: int


@dataclass(frozen=True)
class Report:
    """Answer with the columns ``ids, priorities, uses`` of all rows."""


@dataclass(frozen=True)
class Restore:
    """Take over what an earlier shard reported of rows that are here."""

    ids: np.ndarray
    priorities: np.ndarray
    uses: np.ndarray


Message = Push | Draw | Update | Expire | Drop | Report | Restore


@dataclass(frozen=True)
class Answer:
    """What a shard holds, and what a message asks for.

    Attributes:
        rows: number of rows.
        mass: sum of their weights.
        smallest: the smallest weight; infinite without rows.
        largest: the largest priority so far.
        dropped: priorities of an update that came for rows that had left.
        left: int64 ``[2 * K]``: numbers of chunks of which rows have left since the last answer, and how many rows of
            each, one pair behind the other.
        columns: arrays by name.
    """

    rows: int = 0
    mass: float = 0.0
    smallest: float = float("inf")
    largest: float = 1.0
    dropped: int = 0
    left: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    columns: dict[str, np.ndarray] = field(default_factory=dict)


class ShardLink(Protocol):
    """A shard, or the way to one. Used by one thread at a time.

    Attributes:
        remote: whether several should be asked at once, because their answers are waited for.
    """

    remote: bool

    def ask(self, message: Message) -> Answer:
        """Have a message done, and return the answer to it.

        Raises:
            ShardLost: there was none; the shard is not asked again.
        """

    def close(self) -> None:
        """The shard is not needed any more. Never raises."""


_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Push, Draw, Update, Expire, Drop, Report, Restore)}


def message_to_json(message: Message) -> dict[str, Any]:
    """``{'name', 'fields'}``."""
    return {"name": type(message).__name__, "fields": _packed(message)}


def message_of_json(name: str, values: Mapping[str, Any]) -> Message:
    """The message of :func:`message_to_json`.

    Raises:
        ValueError: it has not the form of one.
    """
    if name not in _KINDS:
        raise ValueError(f"there is no message {name[:40]!r} to a shard")
    message: Message = _unpacked(_KINDS[name], values)
    return message


def answer_to_json(answer: Answer) -> dict[str, Any]:
    """The fields of an answer."""
    return _packed(answer)


def answer_of_json(values: Mapping[str, Any]) -> Answer:
    """The answer of :func:`answer_to_json`.

    Raises:
        ValueError: it has not the form of one.
    """
    answer: Answer = _unpacked(Answer, values)
    return answer


def _packed(value: Message | Answer) -> dict[str, Any]:
    return {name: _plain(part) for name, part in vars(value).items()}


def _plain(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: _plain(one) for name, one in part.items()}
    return pack_array(part) if isinstance(part, np.ndarray) else part


def _unpacked(kind: type[Any], values: Mapping[str, Any]) -> Any:
    parts: dict[str, Any] = {}
    for one in fields(kind):
        value = values.get(one.name)
        if one.type is np.ndarray:
            parts[one.name] = unpack_array(value)
        elif one.name == "columns" and isinstance(value, Mapping):
            parts[one.name] = {name: unpack_array(column) for name, column in value.items()}
        elif one.type in (int, float) and isinstance(value, (int, float)):
            parts[one.name] = one.type(value)
        else:
            raise ValueError(f"{kind.__name__}.{one.name} of a shard must be {one.type}, found {str(value)[:40]!r}")
    return kind(**parts)
