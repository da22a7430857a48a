"""What a sharded buffer says to a shard and what that answers, and both as JSON.

A *shard* knows rows and their priorities, but no chunk: it has the numbers under which the buffer knows these. With
each answer it sends the figures that the buffer needs to draw, so that nobody has to ask for them.
"""

from typing import Any, Protocol

import msgspec
import numpy as np
from msgspec import Struct

from ding.parallel.messages import pack_array, unpack_array


class ShardLost(Exception):
    """A shard does not answer: what it held is lost."""


class Push(Struct, frozen=True, tag=True):
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


class Draw(Struct, frozen=True, tag=True):
    """Draw rows of B batches, each once more used; those that were used often enough leave.

    The answer has the columns ``chunk, row, unique_id, slot, priority, weight, staleness, use``.

    Attributes:
        points: float64 ``[N]``, of the cumulative sum of the weights here.
        sizes, iters: int64 ``[B]``: how many of the points are those of a batch, and the train iteration of that.
    """

    points: np.ndarray
    sizes: np.ndarray
    iters: np.ndarray


class Update(Struct, frozen=True, tag=True):
    """Set the priorities (float64 ``[N]``) of rows by int64 ``[N]`` unique ids and slots, except of those that left."""

    ids: np.ndarray
    slots: np.ndarray
    priority: np.ndarray


class Expire(Struct, frozen=True, tag=True):
    """Remove the rows that are too old for this train iteration."""

    cur_iter: int


class Drop(Struct, frozen=True, tag=True):
    """Remove the rows of the chunk of this number."""

    chunk: int


class Report(Struct, frozen=True, tag=True):
    """Answer with the columns ``ids, priorities, uses`` of all rows."""


class Restore(Struct, frozen=True, tag=True):
    """Take over what an earlier shard reported of rows that are here."""

    ids: np.ndarray
    priorities: np.ndarray
    uses: np.ndarray


Message = Push | Draw | Update | Expire | Drop | Report | Restore


class Answer(Struct, frozen=True):
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
    left: np.ndarray = msgspec.field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    columns: dict[str, np.ndarray] = msgspec.field(default_factory=dict)


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


def to_json(value: Message | Answer) -> dict[str, Any]:
    """As what JSON has, each array by `pack_array`."""
    entries: dict[str, Any] = msgspec.to_builtins(value, enc_hook=pack_array)
    return entries


def message_of_json(value: object) -> Message:
    """The message of :func:`to_json`; raises ``ValueError``: it has not the form of one."""
    message: Message = msgspec.convert(value, Message, dec_hook=_array)
    return message


def answer_of_json(value: object) -> Answer:
    """The answer of :func:`to_json`; raises ``ValueError``: it has not the form of one."""
    return msgspec.convert(value, Answer, dec_hook=_array)


def _array(kind: type[Any], value: object) -> np.ndarray:
    return unpack_array(value)
