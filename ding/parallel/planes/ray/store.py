"""Actor that stores the frames of a run, and its client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, TimeoutError
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ding.parallel.planes.errors import ChunkMissing, StorageError, StorageFull
from ding.parallel.planes.frames import header_bytes
from ding.parallel.planes.ray.store_socket import Answer, Frame, StoreSocket, serve
from ding.parallel.ray_cluster import SMALL_BYTES, require_ray

_T = TypeVar("_T")

STORE = "store"
"""Name of the store among the actors of a run."""

_CALL_S = 60.0
_SOCKET = "store.sock"
_BY_SOCKET = frozenset(("write", "read", "head", "delete", "publish", "fetch"))
# Maximum number of concurrent calls; each waiting reader of a policy is one.
_MANY = 10_000

Held: TypeAlias = "np.ndarray | list[Any]"
"""A small frame as uint8 ``[n]``; or the reference of a large one, in a list, so that Ray transfers the reference and
not the frame."""


class Head(NamedTuple):
    """Header of a chunk, and the size of its frame in bytes."""

    text: bytes
    nbytes: int


class _Chunk(NamedTuple):
    held: Held
    head: Head


class Version(NamedTuple):
    """A version of a policy in the store."""

    number: int
    crc: int
    held: Held


class _Board:
    """Newest version of a policy, and the event of the next one."""

    def __init__(self) -> None:
        self.newest: Version | None = None
        self.next = asyncio.Event()

    def publish(self, version: Version) -> None:
        self.newest = version
        self.next.set()
        self.next = asyncio.Event()

    def newer_than(self, number: int) -> Version | None:
        return None if self.newest is None or self.newest.number == number else self.newest


class FrameStore:
    """Frames of a run. An asynchronous actor in which readers of policies wait for the next version.

    Args:
        folder: Folder of the run, for the socket; ``None``: no socket.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._ray: Any = require_ray()
        self._path = None if folder is None else os.path.join(folder, _SOCKET)
        self._server: asyncio.Future[asyncio.Server] | None = None
        self._chunks: dict[str, _Chunk] = {}
        self._boards: defaultdict[str, _Board] = defaultdict(_Board)

    async def write(self, chunk: str, frame: np.ndarray) -> None:
        """Store a frame, uint8 ``[n]``; a large one as an object of this process."""
        head = frame[: 8 + header_bytes(frame.data, len(frame))].tobytes()
        self._chunks[chunk] = _Chunk(self._hold(frame), Head(head, len(frame)))

    async def read(self, chunk: str) -> Held | None:
        """Return a frame or its reference; ``None`` if it does not exist."""
        found = self._chunks.get(chunk)
        return None if found is None else found.held

    async def head(self, chunk: str) -> Head | None:
        """Return the header of a frame; ``None`` if it does not exist."""
        found = self._chunks.get(chunk)
        return None if found is None else found.head

    async def delete(self, chunks: list[str]) -> int:
        """Delete frames; return the number of those that existed."""
        return sum(self._chunks.pop(chunk, None) is not None for chunk in chunks)

    async def chunks(self) -> list[str]:
        """Return the ids of all chunks."""
        return list(self._chunks)

    async def nbytes(self) -> int:
        """Return the total size of all chunks in bytes."""
        return sum(chunk.head.nbytes for chunk in self._chunks.values())

    async def publish(self, policy_id: str, number: int, crc: int, frame: np.ndarray) -> None:
        """Make a frame the newest version of a policy."""
        self._boards[policy_id].publish(Version(number, crc, self._hold(frame)))

    async def newest(self, policy_id: str) -> int | None:
        """Return the number of the newest version of a policy; ``None`` before the first."""
        newest = self._boards[policy_id].newest
        return None if newest is None else newest.number

    async def fetch(self, policy_id: str, newer_than: int, wait_s: float) -> Version | None:
        """Return the newest version of a policy unless it has this number; wait up to ``wait_s`` for another one."""
        board = self._boards[policy_id]
        if board.newer_than(newer_than) is None and wait_s:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(board.next.wait(), wait_s)
        return board.newer_than(newer_than)

    async def socket_path(self) -> str | None:
        """Start listening on the socket and return its path; ``None`` if there is none."""
        if self._path is not None:
            self._server = self._server or asyncio.ensure_future(serve(self._path, self._answer))
            await self._server
        return self._path

    async def _answer(self, method: str, args: list[Any], frame: bytes) -> Answer:
        if method not in _BY_SOCKET:
            return None
        found = await getattr(self, method)(*args, *([np.frombuffer(frame, np.uint8)] if frame else []))
        value, held = ((found.number, found.crc), found.held) if isinstance(found, Version) else (None, found)
        if isinstance(held, np.ndarray):
            return value, held.data
        if isinstance(held, Head):
            return held.nbytes, held.text
        return None if isinstance(held, list) else (held, b"")

    def _hold(self, frame: np.ndarray) -> Held:
        return frame if len(frame) <= SMALL_BYTES else [self._ray.put(frame)]


def start_store(namespace: str, folder: str | None = None, **options: Any) -> object:
    """Start the store of a run and return its handle; it ends with this process.

    Args:
        namespace: Namespace of the run.
        folder: Folder of the run, accessible only to its user; processes on the store's node use a socket in it.
        options: Options of the actor, such as ``scheduling_strategy``.
    """
    own = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "max_concurrency": _MANY}
    # Recording each of these short calls for a dashboard would cost too much.
    own |= {"enable_task_events": False, **options}
    actor = require_ray().remote(FrameStore).options(name=STORE, namespace=namespace, **own)
    store = actor.remote(folder)
    require_ray().get(store.nbytes.remote(), timeout=_CALL_S)
    return store


def stop_store(store: Any) -> None:
    """End the store and free its frames."""
    require_ray().kill(store)


class StoreClient:
    """Synchronous calls of the store of a run. They block while Ray restarts the store.

    Args:
        namespace: Namespace of the run.

    Raises:
        StorageError: The store does not exist.
    """

    def __init__(self, namespace: str) -> None:
        self._ray: Any = require_ray()
        try:
            self._store = self._ray.get_actor(STORE, namespace=namespace)
        except ValueError as error:
            raise StorageError(f"there is no store of the run {namespace!r}: {error}") from error
        self._place = f"the store of {namespace}"
        self._socket = _socket_of(namespace, self._ray, self._store)

    def call(self, method: str, *args: object) -> Any:
        """Call a method of :class:`FrameStore`.

        Raises:
            StorageFull: The object store has no space.
            StorageError: There is no answer.
        """
        with self._errors():
            found = self._by_socket(method, args).result(_CALL_S)
            if found is not None:
                return _found(found)
            return self._ray.get(getattr(self._store, method).remote(*args), timeout=_CALL_S)

    def begin(self, method: str, *args: object) -> Future[Any]:
        """Call a method and return a future of its answer for :meth:`result`."""
        answer: Future[Any] = Future()

        def take(done: Future[Answer]) -> None:
            found = done.result()
            if found is not None:
                answer.set_result(_found(found))
                return
            try:
                by_actor: Future[Any] = getattr(self._store, method).remote(*args).future()
            except Exception as error:  # noqa: BLE001 - Ray's error after its end goes to the waiting caller
                answer.set_exception(error)
                return
            by_actor.add_done_callback(lambda done: _pass_on(done, answer))

        self._by_socket(method, args).add_done_callback(take)
        return answer

    def _by_socket(self, method: str, args: tuple[Any, ...]) -> Future[Answer]:
        """Call a method through the socket, if the socket accepts it."""
        frame = args[-1] if args and isinstance(args[-1], np.ndarray) else None
        if method in _BY_SOCKET and frame is None:
            return self._socket.begin(method, args)
        if method in _BY_SOCKET and frame is not None and len(frame) <= SMALL_BYTES:
            return self._socket.begin(method, args[:-1], frame.data)
        refused: Future[Answer] = Future()
        refused.set_result(None)
        return refused

    def result(self, answer: Future[_T]) -> _T:
        """Return a completed answer. Raises like :meth:`call`."""
        with self._errors():
            return answer.result(0.0)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (self._ray.exceptions.ObjectStoreFullError, self._ray.exceptions.OutOfDiskError) as error:
            raise StorageFull(f"{self._place} has no space left: release chunks ({error})") from error
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.GetTimeoutError, TimeoutError) as error:
            raise StorageError(f"{self._place} does not answer: {error}") from error

    def frame(self, held: Held | None, what: str) -> memoryview:
        """Return a frame in its memory, which may be shared.

        Raises:
            ChunkMissing: The frame does not exist, or no longer.
        """
        if held is None:
            raise ChunkMissing(f"there is no {what}")
        if not isinstance(held, list):
            return held.data
        try:
            return memoryview(self._ray.get(held[0], timeout=_CALL_S))
        except (self._ray.exceptions.ObjectLostError, self._ray.exceptions.GetTimeoutError) as error:
            raise ChunkMissing(f"{what} was lost: {error}") from error


_sockets: dict[tuple[int, str], StoreSocket] = {}
_sockets_lock = threading.Lock()


def _socket_of(namespace: str, ray: Any, store: Any) -> StoreSocket:
    """Return the connection of this process to a store, which persists for the lifetime of the store."""

    def find() -> str | None:
        # Waits while Ray restarts the store.
        # Ray's errors are ignored: the actor exists for all calls and reports them again.
        with contextlib.suppress(Exception):
            path: str | None = ray.get(store.socket_path.remote()) if ray.is_initialized() else None
            return path
        return None

    with _sockets_lock:
        key = os.getpid(), namespace
        return _sockets.get(key) or _sockets.setdefault(key, StoreSocket(find))


def _found(answer: tuple[Any, Frame]) -> object:
    """Return the result of a method of :class:`FrameStore`, from its answer through the socket."""
    value, frame = answer
    if not len(frame):
        return value
    if isinstance(value, int):
        return Head(bytes(frame), value)
    held = np.frombuffer(frame, np.uint8)
    return held if value is None else Version(value[0], value[1], held)


def _pass_on(done: Future[Any], answer: Future[Any]) -> None:
    error = done.exception()
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(done.result())
