"""Both planes of the backend ``ray``."""

import threading
import time
import warnings
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch

from ding.parallel.planes.data_plane import StoredDataPlane, check_id
from ding.parallel.planes.errors import ChunkMissing
from ding.parallel.planes.frames import Frame, check_head, pack, unpack
from ding.parallel.planes.protocols import Weights, check_version
from ding.parallel.planes.ray.store import StoreClient, Version

# How long one call of the store waits for a version; so long it has that of a reader that is gone.
_LONG_POLL_S = 10.0

# torch warns once in a process of a tensor over memory that is read-only, as that of the object store is.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.from_numpy(np.frombuffer(b"\0", np.uint8))


class RayPlanes:
    """The :class:`~ding.parallel.planes.Planes` of type ``ray``, in a process that is connected to the cluster.

    Args:
        path_data: the name of the run, by which its store is found.
        path_policy: the same; one of both may be ``''``.

    Raises:
        StorageError: there is no such store.
    """

    policy_folder = None

    def __init__(self, path_data: str, path_policy: str) -> None:
        self._namespace = path_data or path_policy
        self._client = StoreClient(self._namespace)

    def data(self, writer: "str | None" = None, max_bytes: "int | None" = None) -> StoredDataPlane:
        """See :meth:`Planes.data <ding.parallel.planes.Planes.data>`."""
        return StoredDataPlane(_Objects(self._client), f"the store of {self._namespace}", writer, max_bytes)

    def weights(self, policy_id: str) -> "RayWeightPlane":
        """See :meth:`Planes.weights <ding.parallel.planes.Planes.weights>`."""
        return RayWeightPlane(self._client, policy_id)


class _Objects:
    """The :class:`~ding.parallel.planes.data_plane.ChunkStore` in the object store of a cluster."""

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
        return int(self._client.call("delete", list(chunks)))

    def quarantine(self, chunk: str) -> bool:
        return bool(self.delete([chunk]))

    def chunks(self) -> list[str]:
        return list(self._client.call("chunks"))

    def nbytes(self) -> int:
        return int(self._client.call("nbytes"))


class RayWeightPlane:
    """A :class:`~ding.parallel.planes.WeightPlane` of which the store holds the newest version; readers wait there.

    Args:
        client: of the store.
        policy_id: a plain name.

    Raises:
        BadId: ``policy_id`` is no plain name.
    """

    def __init__(self, client: StoreClient, policy_id: str) -> None:
        self._client = client
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
        while True:
            left_s = 0.0 if self._closed.done() else max(0.0, deadline_s - time.monotonic())
            found = self._fetch(newer_than, min(left_s, _LONG_POLL_S))
            if found is not None or not left_s:
                return found

    def newest(self) -> "int | None":
        """See :meth:`WeightPlane.newest <ding.parallel.planes.WeightPlane.newest>`."""
        newest: int | None = self._client.call("newest", self._policy_id)
        return newest

    def hint(self) -> None:
        """See :meth:`WeightPlane.hint <ding.parallel.planes.WeightPlane.hint>`; here publishing wakes the waiters."""

    def close(self) -> None:
        """See :meth:`WeightPlane.close <ding.parallel.planes.WeightPlane.close>`."""
        with self._closing:
            if not self._closed.done():
                self._closed.set_result(None)

    def _fetch(self, newer_than: int, wait_s: float) -> "Weights | None":
        args = (self._policy_id, newer_than, wait_s)
        found: Version | None = (
            self._client.call_until(self._closed, "fetch", *args) if wait_s else self._client.call("fetch", *args)
        )
        if found is None:
            return None
        try:
            # A receiver owns its tensors.
            frame = bytes(self._client.frame(found.held, f"version {found.number} of {self._policy_id}"))
        except ChunkMissing:
            # The store was lost meanwhile, and the next version comes to another one.
            return None
        return Weights(found.number, *unpack(frame, "weights", found.crc))
