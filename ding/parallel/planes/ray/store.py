"""The actor that holds the frames of a run, and how planes talk to it."""

from typing import Any, NamedTuple

import numpy as np

from ding.parallel.planes.errors import ChunkMissing, StorageError, StorageFull
from ding.parallel.planes.frames import header_bytes
from ding.parallel.ray_cluster import require_ray

STORE = "store"
"""The name of the store among the actors of a run."""

_CALL_S = 60.0
_MANY = 1000


class _Chunk(NamedTuple):
    objects: list[Any]
    """The reference of the frame. In a list, so that Ray passes on the reference and not the frame."""
    head: bytes
    nbytes: int


class _Version(NamedTuple):
    number: int
    crc: int
    objects: list[Any]


class FrameStore:
    """The frames of a run. An actor with methods that do not wait, one at a time."""

    def __init__(self) -> None:
        self._ray: Any = require_ray()
        self._chunks: dict[str, _Chunk] = {}
        self._newest: dict[str, _Version] = {}

    async def write(self, chunk: str, frame: np.ndarray) -> None:
        """Keep a frame, uint8 ``[n]``, as an object of this process."""
        head = frame[: 8 + header_bytes(frame.data, len(frame))].tobytes()
        self._chunks[chunk] = _Chunk([self._ray.put(frame)], head, len(frame))

    async def read(self, chunk: str) -> "list[Any] | None":
        """Return the reference of a frame, in a list; None when it is not here."""
        found = self._chunks.get(chunk)
        return None if found is None else found.objects

    async def head(self, chunk: str) -> "tuple[bytes, int] | None":
        """Return the head of a frame and the number of all its bytes; None when it is not here."""
        found = self._chunks.get(chunk)
        return None if found is None else (found.head, found.nbytes)

    async def delete(self, chunks: list[str]) -> int:
        """Forget frames; returns how many of them were here."""
        return sum(self._chunks.pop(chunk, None) is not None for chunk in chunks)

    async def chunks(self) -> list[str]:
        """Return the ids of all chunks."""
        return list(self._chunks)

    async def nbytes(self) -> int:
        """Return the number of bytes of all chunks."""
        return sum(chunk.nbytes for chunk in self._chunks.values())

    async def publish(self, policy_id: str, version: int, crc: int, frame: np.ndarray) -> None:
        """Make a frame the newest version of a policy."""
        self._newest[policy_id] = _Version(version, crc, [self._ray.put(frame)])

    async def newest(self, policy_id: str) -> "tuple[int, int, list[Any]] | None":
        """Return number, checksum and reference of the newest version of a policy; None before the first."""
        return self._newest.get(policy_id)


def start_store(namespace: str, **options: Any) -> Any:
    """Start the store of a run and return its handle; it ends with this process.

    Args:
        namespace: the name of the run.
        options: of the actor, such as ``scheduling_strategy``.
    """
    own = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "max_concurrency": _MANY, **options}
    actor = require_ray().remote(FrameStore).options(name=STORE, namespace=namespace, **own)
    store = actor.remote()
    require_ray().get(store.nbytes.remote(), timeout=_CALL_S)
    return store


def stop_store(store: Any) -> None:
    """End the store; its frames are freed."""
    require_ray().kill(store)


class StoreClient:
    """Calls of the store of a run, each answered before it returns. While Ray restarts the store, they wait.

    Args:
        namespace: the name of the run.

    Raises:
        StorageError: there is no such store.
    """

    def __init__(self, namespace: str) -> None:
        self._ray: Any = require_ray()
        try:
            self._store = self._ray.get_actor(STORE, namespace=namespace)
        except ValueError as error:
            raise StorageError(f"there is no store of the run {namespace!r}: {error}") from error
        self._place = f"the store of {namespace}"

    def call(self, method: str, *args: object) -> Any:
        """Call a method of :class:`FrameStore`.

        Raises:
            StorageFull: the object store has no space.
            StorageError: there is no answer.
        """
        try:
            return self._ray.get(getattr(self._store, method).remote(*args), timeout=_CALL_S)
        except (self._ray.exceptions.ObjectStoreFullError, self._ray.exceptions.OutOfDiskError) as error:
            raise StorageFull(f"{self._place} has no space left: release chunks ({error})") from error
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.GetTimeoutError) as error:
            raise StorageError(f"{self._place} does not answer: {error}") from error

    def frame(self, objects: "list[Any] | None", what: str) -> memoryview:
        """Return a frame as it lies in shared memory.

        Raises:
            ChunkMissing: it is not there, or no more.
        """
        if objects is None:
            raise ChunkMissing(f"there is no {what}")
        try:
            return memoryview(self._ray.get(objects[0], timeout=_CALL_S))
        except (self._ray.exceptions.ObjectLostError, self._ray.exceptions.GetTimeoutError) as error:
            raise ChunkMissing(f"{what} was lost: {error}") from error
