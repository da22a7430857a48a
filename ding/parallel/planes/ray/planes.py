"""Both planes of the backend ``ray``."""

import threading
import time
import warnings
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

import numpy as np
import torch

from ding.parallel.planes.data_plane import StoredDataPlane, check_id
from ding.parallel.planes.errors import ChunkMissing
from ding.parallel.planes.frames import Frame, check_head, pack, unpack
from ding.parallel.planes.protocols import Weights, check_version
from ding.parallel.planes.ray.store import StoreClient, Version

# Maximum wait of one call of the store for a version; a departed reader occupies it no longer than this.
_LONG_POLL_S = 10.0

# torch warns once per process about a tensor over read-only memory, such as that of the object store.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.from_numpy(np.frombuffer(b"\0", np.uint8))


class RayPlanes:
    """:class:`~ding.parallel.planes.Planes` of type ``ray``, in a process that is connected to the cluster.

    Args:
        path_data: Name of the run, which identifies its store.
        path_policy: The same; one of both may be ``''``.

    Raises:
        StorageError: The store does not exist.
    """

    policy_folder = None

    def __init__(self, path_data: str, path_policy: str) -> None:
        self._namespace = path_data or path_policy
        self._client = StoreClient(self._namespace)
        self._polls = _Polls(self._client)

    def data(self, writer: "str | None" = None, max_bytes: "int | None" = None) -> StoredDataPlane:
        """See :meth:`Planes.data <ding.parallel.planes.Planes.data>`."""
        return StoredDataPlane(_Objects(self._client), f"the store of {self._namespace}", writer, max_bytes)

    def weights(self, policy_id: str) -> "RayWeightPlane":
        """See :meth:`Planes.weights <ding.parallel.planes.Planes.weights>`."""
        return RayWeightPlane(self._client, policy_id, self._polls)


class _Objects:
    """:class:`~ding.parallel.planes.data_plane.ChunkStore` in the object store of a cluster."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client

    def write(self, chunk: str, frame: bytes) -> None:
        self._client.call("write", chunk, np.frombuffer(frame, np.uint8))

    def read(self, chunk: str) -> Frame:
        return self._client.frame(self._client.call("read", chunk), f"chunk {chunk!r}")

    def notes(self, chunk: str) -> tuple[dict[str, str], int]:
        found = self._client.call("head", chunk)
        if found is None:
            raise ChunkMissing(f"there is no chunk {chunk!r}")
        head, nbytes = found
        return check_head(head[8:], nbytes, "chunk"), nbytes

    def delete(self, chunks: Sequence[str]) -> int:
        return int(self._client.call("delete", list(chunks))) if chunks else 0

    def quarantine(self, chunk: str) -> bool:
        return bool(self.delete([chunk]))

    def chunks(self) -> list[str]:
        return list(self._client.call("chunks"))

    def nbytes(self) -> int:
        return int(self._client.call("nbytes"))


class _Polls:
    """Calls that wait in the store for the next version, one per policy.

    A call whose reader has stopped waiting continues and serves the next reader with the same version: readers come and
    go with the tasks of a collector, or poll once a second.
    """

    def __init__(self, client: StoreClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        # For each policy, the version of its reader, and the pending answer.
        self._pending: dict[str, tuple[int, Future[Version | None]]] = {}

    def next_version(self, policy_id: str, newer_than: int) -> "Future[Version | None]":
        """Return the version that follows ``newer_than``; ``None`` on time-out."""
        with self._lock:
            had, answer = self._pending.get(policy_id, (None, None))
            if answer is not None and had == newer_than:
                return answer
            answer = self._client.begin("fetch", policy_id, newer_than, _LONG_POLL_S)
            self._pending[policy_id] = newer_than, answer
        answer.add_done_callback(lambda done: self._forget(policy_id, done))
        return answer

    def _forget(self, policy_id: str, answer: "Future[Version | None]") -> None:
        with self._lock:
            if self._pending.get(policy_id, (None, None))[1] is answer:
                del self._pending[policy_id]


class RayWeightPlane:
    """:class:`~ding.parallel.planes.WeightPlane` whose newest version is in the store, where readers wait.

    Args:
        client: Client of the store.
        policy_id: Plain name of the policy.
        polls: Pending calls of this process.

    Raises:
        BadId: ``policy_id`` is not a plain name.
    """

    def __init__(self, client: StoreClient, policy_id: str, polls: _Polls) -> None:
        self._client, self._polls = client, polls
        self._policy_id = check_id(policy_id, "a policy id")
        self._publishing, self._closing = threading.Lock(), threading.Lock()
        self._closed: Future[None] = Future()

    def publish(self, state: "Mapping[str, Any]", version: int, meta: "Mapping[str, Any] | None" = None) -> None:
        """See :meth:`WeightPlane.publish <ding.parallel.planes.WeightPlane.publish>`."""
        check_version(version)
        frame = pack(dict(state), "weights", meta)
        with self._publishing:
            self._client.call("publish", self._policy_id, version, zlib.crc32(frame), np.frombuffer(frame, np.uint8))

    def fetch(self, newer_than: int = -1, timeout_s: float = 0.0) -> "Weights | None":
        """See :meth:`WeightPlane.fetch <ding.parallel.planes.WeightPlane.fetch>`."""
        deadline_s = time.monotonic() + timeout_s
        if timeout_s <= 0.0 or self._closed.done():
            return self._weights(self._client.call("fetch", self._policy_id, newer_than, 0.0))
        while True:
            answer: Future[Any] = self._polls.next_version(self._policy_id, newer_than)
            ends: list[Future[Any]] = [answer, self._closed]
            done, _ = wait(ends, max(0.0, deadline_s - time.monotonic()), FIRST_COMPLETED)
            found = self._weights(self._client.result(answer)) if answer in done else None
            if found is not None or answer not in done:
                return found

    def newest(self) -> "int | None":
        """See :meth:`WeightPlane.newest <ding.parallel.planes.WeightPlane.newest>`."""
        newest: int | None = self._client.call("newest", self._policy_id)
        return newest

    def hint(self) -> None:
        """See :meth:`WeightPlane.hint <ding.parallel.planes.WeightPlane.hint>`; publishing wakes the waiters anyway."""

    def close(self) -> None:
        """See :meth:`WeightPlane.close <ding.parallel.planes.WeightPlane.close>`."""
        with self._closing:
            if not self._closed.done():
                self._closed.set_result(None)

    def _weights(self, found: "Version | None") -> "Weights | None":
        if found is None:
            return None
        try:
            # The receiver owns its tensors.
            frame = bytes(self._client.frame(found.held, f"version {found.number} of {self._policy_id}"))
        except ChunkMissing:
            # The store was lost meanwhile, and the next version goes to a new one.
            return None
        return Weights(found.number, *unpack(frame, "weights", found.crc))
