"""Fast path to the store for processes on its node: a Unix socket in the folder of the run.

An actor call passes through several threads of Ray on both sides and costs 2 to 3 ms of CPU; a call through the socket
costs 0.1 ms on an idle machine, and a run on one node collects a third more transitions. The socket transfers small
messages: two sizes, a JSON text, and a frame, in both directions. Calls that the socket does not answer go to the
actor: from another node, with a large frame, or after a loss.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias

Frame: TypeAlias = bytes | memoryview
Answer: TypeAlias = tuple[Any, Frame] | None
"""JSON value and a frame, which may be empty; ``None``: call the actor instead."""
Answerer: TypeAlias = Callable[[str, list[Any], bytes], Awaitable[Answer]]

_SIZES = struct.Struct("<II")
# Seconds that an unresponsive store may block a caller.
_SEND_S = 5
_PAUSE_S = 0.1


async def serve(path: str, answer: Answerer) -> asyncio.Server:
    """Listen in this event loop.

    Args:
        path: Path of the socket; the permissions of its folder determine who may connect.
        answer: Called with method name, arguments and frame; if it raises, the actor will raise the same error.
    """

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def reply(number: int, method: str, args: list[Any], frame: bytes) -> None:
            found: Answer = None
            with contextlib.suppress(Exception):
                found = await answer(method, args, frame)
            value, held = found or (None, b"")
            writer.write(_packed([number, found is not None, value], held))

        waiting: set[asyncio.Task[None]] = set()
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                size, frame_size = _SIZES.unpack(await reader.readexactly(_SIZES.size))
                number, method, args = json.loads(await reader.readexactly(size))
                task = asyncio.ensure_future(reply(number, method, args, await reader.readexactly(frame_size)))
                waiting.add(task)
                task.add_done_callback(waiting.discard)
        writer.close()
        for task in waiting:
            task.cancel()

    return await asyncio.start_unix_server(talk, path)


class StoreSocket:
    """Connection of a caller, opened and, after a loss, reopened in a separate thread.

    Args:
        find: Returns the path of the socket, or ``None`` if there is none (any more); may block.
    """

    def __init__(self, find: Callable[[], str | None]) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._pending: dict[int, Future[Answer]] = {}
        self._numbers = itertools.count()
        threading.Thread(target=self._run, name="store-socket", daemon=True).start()

    def begin(self, method: str, args: Sequence[Any], frame: Frame = b"") -> Future[Answer]:
        """Call a method and return a future of its answer, which is ``None`` without a connection, or if that is lost.

        Args:
            method: Name of the method.
            args: JSON values.
            frame: Bytes to send.
        """
        answer: Future[Answer] = Future()
        with self._lock:
            if self._socket is not None:
                number = next(self._numbers)
                self._pending[number] = answer
                try:
                    self._socket.sendall(_packed([number, method, args], frame))
                except OSError:
                    with contextlib.suppress(OSError):
                        self._socket.shutdown(socket.SHUT_RDWR)
                return answer
        answer.set_result(None)
        return answer

    def _run(self) -> None:
        while (path := self._find()) is not None:
            with socket.socket(socket.AF_UNIX) as end:
                try:
                    end.connect(path)
                except OSError:
                    # The store is on another node.
                    return
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", _SEND_S, 0))
                with self._lock:
                    self._socket = end
                self._read(end)
            time.sleep(_PAUSE_S)

    def _read(self, end: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError, ValueError, LookupError):
            while True:
                size, frame_size = _SIZES.unpack(_exactly(end, _SIZES.size))
                body = _exactly(end, size + frame_size)
                number, is_found, value = json.loads(bytes(body[:size]))
                with self._lock:
                    answer = self._pending.pop(number)
                answer.set_result((value, body[size:]) if is_found else None)
        with self._lock:
            self._socket, lost = None, list(self._pending.values())
            self._pending.clear()
        for answer in lost:
            answer.set_result(None)


def _exactly(end: socket.socket, size: int) -> memoryview:
    data = bytearray(size)
    if end.recv_into(data, size, socket.MSG_WAITALL) != size:
        raise EOFError
    return memoryview(data)


def _packed(words: list[Any], frame: Frame) -> bytes:
    text = json.dumps(words, separators=(",", ":")).encode()
    return b"".join((_SIZES.pack(len(text), len(frame)), text, frame))
