"""Messages between a sharded buffer and a shard, with their JSON form.

A *shard* indexes rows and their priorities, but no chunks: it uses the chunk numbers of the buffer. Each answer
contains the figures that the buffer needs to sample, so that no extra requests are necessary.
"""

from typing import Any, Protocol

import msgspec
import numpy as np
from msgspec import Struct

from ding.parallel.messages import pack_array, unpack_array


class ShardLost(Exception):
    """A shard does not answer; its rows are lost."""


class Push(Struct, frozen=True, tag=True):
    """Push all rows of C chunks.

    Attributes:
        chunks, first_ids, rows, iters: int64 ``[C]``: number, unique id of the first row, number of rows, train
            iteration of collection.
        priority: float64, one per row, NaN for the largest so far; empty if no row has one.
        largest: Largest priority of all shards.
    """

    chunks: np.ndarray
    first_ids: np.ndarray
    rows: np.ndarray
    iters: np.ndarray
    priority: np.ndarray
    largest: float


class Draw(Struct, frozen=True, tag=True):
    """Sample rows of B batches, increment their use counts, and remove rows that reach the maximum.

    The answer has the columns ``chunk, row, unique_id, slot, priority, weight, staleness, use``.

    Attributes:
        points: float64 ``[N]``, positions in the cumulative sum of the weights of this shard.
        sizes, iters: int64 ``[B]``: number of points and train iteration of each batch.
    """

    points: np.ndarray
    sizes: np.ndarray
    iters: np.ndarray


class Update(Struct, frozen=True, tag=True):
    """Set the priorities (float64 ``[N]``) of rows by unique ids and slots (int64 ``[N]``), except rows that left."""

    ids: np.ndarray
    slots: np.ndarray
    priority: np.ndarray


class Expire(Struct, frozen=True, tag=True):
    """Remove the rows that are too old at this train iteration."""

    cur_iter: int


class Drop(Struct, frozen=True, tag=True):
    """Remove the rows of the chunk with this number."""

    chunk: int


class Report(Struct, frozen=True, tag=True):
    """Request the columns ``ids, priorities, uses`` of all rows."""


class Restore(Struct, frozen=True, tag=True):
    """Restore the report of an earlier shard, for rows that exist."""

    ids: np.ndarray
    priorities: np.ndarray
    uses: np.ndarray


Message = Push | Draw | Update | Expire | Drop | Report | Restore


class Answer(Struct, frozen=True):
    """State of a shard and the result of a message.

    Attributes:
        rows: Number of rows.
        mass: Sum of their weights.
        smallest: Smallest weight; infinite without rows.
        largest: Largest priority so far.
        dropped: Number of priorities of an update whose rows had left.
        left: int64 ``[2 * K]``: alternating chunk numbers and counts of the rows that left since the last answer.
        columns: Arrays by name.
    """

    rows: int = 0
    mass: float = 0.0
    smallest: float = float("inf")
    largest: float = 1.0
    dropped: int = 0
    left: np.ndarray = msgspec.field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    columns: dict[str, np.ndarray] = msgspec.field(default_factory=dict)


class ShardLink(Protocol):
    """A shard, or the connection to one. Used by one thread at a time.

    Attributes:
        remote: Whether requests to several shards should run concurrently, because they wait for answers.
    """

    remote: bool

    def ask(self, message: Message) -> Answer:
        """Process a message and return the answer.

        Raises:
            ShardLost: There is no answer; the shard must not be used again.
        """

    def close(self) -> None:
        """Release the shard. Never raises."""


def to_json(value: Message | Answer) -> dict[str, Any]:
    """Convert to JSON values, with arrays encoded by `pack_array`."""
    entries: dict[str, Any] = msgspec.to_builtins(value, enc_hook=pack_array)
    return entries


def message_of_json(value: object) -> Message:
    """Return the message of :func:`to_json`; raises ``ValueError`` if ``value`` is malformed."""
    message: Message = msgspec.convert(value, Message, dec_hook=_array)
    return message


def answer_of_json(value: object) -> Answer:
    """Return the answer of :func:`to_json`; raises ``ValueError`` if ``value`` is malformed."""
    return msgspec.convert(value, Answer, dec_hook=_array)


def _array(kind: type[Any], value: object) -> np.ndarray:
    return unpack_array(value)
