"""Interfaces of the data plane and the weight plane.

Concurrency contract of both: several threads and processes may call the methods concurrently; the effect of a call is
visible to others when it has returned; a reader never sees partial data.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, TypedDict

from ding.data.transition_batch import TransitionBatch

EVALUATED = "evaluated"
"""Policy id under which the evaluations of a run publish the evaluated weights."""


class ChunkRef(TypedDict):
    """Reference of a chunk, which messages contain instead of its data. JSON-serialisable."""

    chunk: str
    """Id, which includes the checksum of the data."""
    rows: int
    """Number of transitions."""
    bytes: int
    """Size in bytes in the plane."""


AnyRef: TypeAlias = "ChunkRef | Mapping[str, Any] | str"
"""A reference, a mapping with its keys, or the id alone."""


class PlaneStats(NamedTuple):
    """Counters of a data plane since its creation, per object rather than per folder."""

    put_chunks: int = 0
    put_rows: int = 0
    put_bytes: int = 0
    got_chunks: int = 0
    released_chunks: int = 0
    quarantined_chunks: int = 0
    refused_puts: int = 0
    """Number of puts that failed for lack of space or permission."""


class DataPlane(Protocol):
    """Transfers batches of transitions by reference."""

    def put(self, batch: TransitionBatch, meta: "Mapping[str, Any] | None" = None) -> ChunkRef:
        """Store a batch of at least one row with JSON values in ``meta``, and return its reference.

        Raises:
            StorageError: There is no space or no permission; nothing is left behind, and a retry may succeed.
            BadFrame: The batch has no safe form.
        """

    def get(self, ref: AnyRef) -> TransitionBatch:
        """Return the batch; its columns belong to the caller.

        Raises:
            BadId: The id is not a plain name.
            ChunkMissing: The chunk was released, or never put.
            ChunkBroken: Its bytes have changed; it was quarantined.
        """

    def describe(self, ref: AnyRef) -> ChunkRef:
        """Return the reference of a chunk from its header, without reading the data; raises like :meth:`get`."""

    def meta(self, ref: AnyRef) -> dict[str, Any]:
        """Return the ``meta`` that was passed to :meth:`put`; raises like :meth:`get`."""

    def release(self, refs: "Iterable[AnyRef]") -> int:
        """Delete chunks and return the number deleted; missing chunks are skipped."""

    def chunks(self) -> list[str]:
        """Return the ids of all present chunks, unordered."""

    def stats(self) -> PlaneStats:
        """Return a snapshot of the counters."""


class Weights(NamedTuple):
    """A version of a policy."""

    version: int
    state: dict[str, Any]
    """Published state dict; its tensors belong to the receiver."""
    meta: dict[str, Any]


def check_version(version: object) -> None:
    """Raise a ``ValueError`` unless ``version`` is a non-negative int."""
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise ValueError(f"a version must be an int of at least 0, found {version!r}")


class WeightPlane(Protocol):
    """Transfers the versions of one policy from its learner to its players."""

    def publish(self, state: "Mapping[str, Any]", version: int, meta: "Mapping[str, Any] | None" = None) -> None:
        """Make ``state`` (a nested dict of tensors and plain values) the newest version.

        The last publication is the newest version, whatever its number: a publisher that resumed from an older
        checkpoint may publish smaller numbers than before.

        Raises:
            StorageError: There is no space or no permission; the previous version stays the newest.
            BadFrame: The state has no safe form.
        """

    def fetch(self, newer_than: int = -1, timeout_s: float = 0.0) -> "Weights | None":
        """Return the newest version unless its number is ``newer_than``; wait up to ``timeout_s`` for another one.

        Returns ``None`` on time-out, or when the plane is closed.
        """

    def newest(self) -> "int | None":
        """Return the number of the newest version, ``None`` before the first."""

    def hint(self) -> None:
        """Wake the waiters of this object, because the caller knows of a new version."""

    def close(self) -> None:
        """Wake the waiters; later calls of :meth:`fetch` do not wait."""


class Planes(Protocol):
    """Backend for the data and the policies of a run."""

    @property
    def policy_folder(self) -> "str | None":
        """Folder that may contain checkpoints besides the published versions; ``None``: there are no files."""

    def data(self, writer: "str | None" = None, max_bytes: "int | None" = None) -> DataPlane:
        """Return a data plane.

        Args:
            writer: Prefix of the ids of its chunks; must be unique. By default a random name.
            max_bytes: A put that would exceed this size raises :class:`StorageFull`.
        """

    def weights(self, policy_id: str) -> WeightPlane:
        """Return the weight plane of a policy; raises :class:`BadId` if ``policy_id`` is not a plain name."""
