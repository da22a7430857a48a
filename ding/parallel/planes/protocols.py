"""The data plane and the weight plane, as the workers of the parallel mode see them.

The concurrency contract of both: every method may be called from several threads and processes at once; what a call
did is visible to the others when it has returned; a reader never sees a half of anything.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, TypedDict

from ding.data.transition_batch import TransitionBatch

EVALUATED = "evaluated"
"""The policy id under which the evaluations of a run publish the weights that they judged."""


class ChunkRef(TypedDict):
    """The reference of a chunk, which messages carry instead of its data. JSON can hold it."""

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

    put_chunks: int = 0
    put_rows: int = 0
    put_bytes: int = 0
    got_chunks: int = 0
    released_chunks: int = 0
    quarantined_chunks: int = 0
    refused_puts: int = 0
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
        """Return the batch; its columns are the caller's own.

        Raises:
            BadId: the id is no plain name.
            ChunkMissing: the chunk was released, or never put.
            ChunkBroken: its bytes changed; it was put into quarantine.
        """

    def describe(self, ref: AnyRef) -> ChunkRef:
        """Return what a chunk says of itself, without reading its data; raises as :meth:`get` does."""

    def meta(self, ref: AnyRef) -> dict[str, Any]:
        """Return what was given to :meth:`put` as ``meta``; raises as :meth:`get` does."""

    def release(self, refs: "Iterable[AnyRef]") -> int:
        """Delete chunks; those that were deleted before are passed over. Returns how many were deleted."""

    def chunks(self) -> list[str]:
        """Return the ids of all present chunks, in no order."""

    def stats(self) -> PlaneStats:
        """Return a snapshot of the counters."""


class Weights(NamedTuple):
    """A version of a policy."""

    version: int
    state: dict[str, Any]
    """The state dict as it was published; the tensors are the receiver's own."""
    meta: dict[str, Any]


def check_version(version: object) -> None:
    """Raise a ``ValueError`` unless ``version`` is an int of at least 0."""
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise ValueError(f"a version must be an int of at least 0, found {version!r}")


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
        """Return the newest version, unless it has the number ``newer_than``; wait for one up to ``timeout_s``.

        Returns ``None`` when there is none in time, or when the plane is closed.
        """

    def newest(self) -> "int | None":
        """Return the number of the newest version, ``None`` before the first."""

    def hint(self) -> None:
        """Wake the waiters of this object at once: the caller heard of a new version."""

    def close(self) -> None:
        """Wake the waiters; later calls of :meth:`fetch` do not wait."""


class Planes(Protocol):
    """One backend over the two places of a run: that of its data and that of its policies."""

    @property
    def policy_folder(self) -> "str | None":
        """Folder in which checkpoints may lie beside the published versions; ``None``: there are no files."""

    def data(self, writer: "str | None" = None, max_bytes: "int | None" = None) -> DataPlane:
        """Return a data plane.

        Args:
            writer: begins the ids of its chunks; must be its own. By default a random name.
            max_bytes: a put that would exceed it raises :class:`StorageFull`.
        """

    def weights(self, policy_id: str) -> WeightPlane:
        """Return the weight plane of a policy; raises :class:`BadId` when ``policy_id`` is no plain name."""
