"""The data plane and the weight plane, as the workers of the parallel mode see them.

The concurrency contract of both: every method may be called from several threads and processes at once; what a call
did is visible to the others when it has returned; a reader never sees a half of anything.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, TypedDict

from ding.data.transition_batch import TransitionBatch


class ChunkRef(TypedDict):
    """What is told of a chunk instead of its data. JSON can hold it."""

    chunk: str
    """The id. The checksum of the data is a part of it."""
    rows: int
    """Number of transitions."""
    bytes: int
    """Size in the plane."""


AnyRef: TypeAlias = "ChunkRef | Mapping[str, Any] | str"
"""A ref, anything with its keys, or only the id."""


class PlaneStats(NamedTuple):
    """What a data plane did since it was made; counted per object, not per folder."""

    put_chunks: int
    put_rows: int
    put_bytes: int
    got_chunks: int
    cache_hits: int
    cached_bytes: int
    released_chunks: int
    quarantined_chunks: int
    refused_puts: int
    """Puts that failed for want of space or rights."""


class DataPlane(Protocol):
    """Carries batches of transitions by reference."""

    def put(self, batch: TransitionBatch, meta: "Mapping[str, Any] | None" = None) -> ChunkRef:
        """Store a batch (at least one row) with what JSON can hold in ``meta``, and return its reference.

        Raises:
            StorageError: there is no space or no right to write; nothing is left behind, and the same call may succeed
                later.
            BadFrame: the batch has no safe form.
        """

    def get(self, ref: AnyRef) -> TransitionBatch:
        """The batch, with columns that may share memory with those of other calls: read them, do not write.

        Raises:
            BadId: the id is no plain name.
            ChunkMissing: the chunk was released, or never put.
            ChunkBroken: its bytes changed; it was put into quarantine.
        """

    def meta(self, ref: AnyRef) -> dict[str, Any]:
        """What was given to :meth:`put` as ``meta``; raises as :meth:`get` does."""

    def release(self, refs: "Iterable[AnyRef]") -> int:
        """Delete chunks; those that are gone already are passed over. Returns how many were deleted."""

    def chunks(self) -> list[str]:
        """The ids of all chunks that there are now, in no order."""

    def stats(self) -> PlaneStats:
        """A snapshot of the counters."""

    def close(self) -> None:
        """Drop what is cached. The chunks stay."""


class Weights(NamedTuple):
    """A version of a policy."""

    version: int
    state: dict[str, Any]
    """The state dict as it was published; the tensors are the receiver's own."""
    meta: dict[str, Any]


class WeightPlane(Protocol):
    """Carries the versions of one policy from its learner to all who play it."""

    def publish(self, state: "Mapping[str, Any]", version: int, meta: "Mapping[str, Any] | None" = None) -> None:
        """Make ``state`` (a nested dict of tensors and plain values) the newest version.

        A publisher that went on from an older checkpoint may publish a smaller number than before: the last publication
        is the newest version, whatever its number.

        Raises:
            StorageError: there is no space or no right to write; the version before stays the newest.
            BadFrame: the state has no safe form.
        """

    def fetch(self, newer_than: int = -1, timeout_s: float = 0.0) -> "Weights | None":
        """The newest version, unless it has the number ``newer_than``; waits for one up to ``timeout_s``.

        Returns ``None`` when there is none in time, or when the plane is closed.
        """

    def newest(self) -> "int | None":
        """The number of the newest version, ``None`` before the first."""

    def hint(self) -> None:
        """Wake the waiters of this object at once: somebody heard that there is a new version."""

    def close(self) -> None:
        """Wake the waiters; later calls of :meth:`fetch` do not wait."""


def writer_of(chunk: str) -> str:
    """The name of the writer that the id of a chunk begins with; ``''`` when it has none."""
    return chunk.rpartition(".")[0].rpartition("-")[0]


def chunk_id(ref: AnyRef) -> Any:
    """The id in a ref, not checked."""
    return ref.get("chunk") if isinstance(ref, Mapping) else ref
