"""Message queue over direct sockets between processes, without a server: the default of ``ditask``.

Wire format: a connection starts with a mutual proof of the run's token, so that no data of a stranger is parsed::

    both      nonce (32 random bytes)
    dialling  HMAC-SHA256(token, "dial" | nonce of the dialling side | nonce of the accepting side)
    accepting HMAC-SHA256(token, "accept" | the same nonces), after it has checked the proof of the dialling side

A stranger is admitted only with a proof for its side. It cannot obtain one by dialling: the accepting side proves
nothing to a stranger and never creates a proof for the dialling side. A stranger that is dialled could relay the
connection back to the same process; therefore nonces that this process has just sent are rejected. The proof is not
bound to an address, and the data is not encrypted: an attacker between two processes of the run can relay their proofs
and change the data. After the proofs, frames follow::

    u32 length of the topic | topic | u64 length of the data | data

Addresses are ``ipc:///path`` (a socket file that only the user can access) and ``tcp://host:port``. The dialling side
retries until the other side is up, so the processes of a run may start in any order.
"""

import contextlib
import hmac
import logging
import os
import queue
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ding.framework.message_queue.mq import MQ

logger = logging.getLogger(__name__)

NONCE_BYTES = 32
PROOF_BYTES = 32
MAX_TOPIC_BYTES = 4096
MAX_DATA_BYTES = 1 << 32
MAX_WAITING = 256
"""Maximum number of messages that wait for a slow process, or for :meth:`SocketMQ.recv`."""
HANDSHAKE_TIMEOUT_S = 5.0
"""Time-out of the whole handshake, in seconds."""
MAX_STRANGERS = 64
"""Maximum number of accepted connections without a proof of the token; each costs a thread and a file descriptor, of
which a process often has 1024. Beyond it the oldest is closed: a process of the run needs only milliseconds for its
proof and redials, so it is admitted even if strangers hold many connections."""
ACCEPT_PAUSE_S = 0.1
"""Pause after a failed accept: a missing resource, such as a file descriptor, is not available at once."""
SEND_TIMEOUT_S = 60.0
"""Time that a message waits for a process that does not read; then the connection is closed."""
CLOSING_TIMEOUT_S = 0.5
DIAL_INTERVAL_S = 0.05
_TOPIC = struct.Struct("!I")
_DATA = struct.Struct("!Q")


class MessageQueueError(Exception):
    """The connection violates the protocol; the message explains how."""


class SocketMQ(MQ):
    """Exchanges messages with the processes that it dialled and those that dialled it.

    Concurrency: each connection has a reader and a writer thread; any thread may call the methods. ``publish`` blocks
    while :data:`MAX_WAITING` messages wait for one of the peers (back-pressure); a peer that does not read for
    :data:`SEND_TIMEOUT_S` is disconnected.

    Args:
        listen_to: Own address.
        attach_to: Addresses to dial.
        token: Secret of the run; processes without it are rejected.
        on_peer: Called with a function ``send(topic, data)`` for each new peer, before any other message to it.
    """

    def __init__(
        self,
        listen_to: str,
        attach_to: Iterable[str] | None = None,
        token: str = "",
        on_peer: Callable[[Callable[[str, bytes], None]], None] | None = None,
        **kwargs: Any,
    ) -> None:
        self.listen_to = listen_to
        self.attach_to = list(attach_to or ())
        self._token = token.encode()
        self._on_peer = on_peer
        self._inbox: queue.Queue[tuple[str, bytes] | None] = queue.Queue(MAX_WAITING)
        self._peers: set[_Peer] = set()
        self._strangers: list[_Peer] = []  # oldest first
        self._nonces = _OpenNonces()
        # Also counts processes that have disconnected again.
        self._num_left = 0
        self._lock = threading.Condition()
        self._stopped = threading.Event()
        self._server: socket.socket | None = None

    @property
    def num_peers(self) -> int:
        """Number of connected processes."""
        return len(self._peers)

    def listen(self) -> None:
        """Bind the own address and dial the others.

        Raises:
            OSError: The address cannot be bound; the message names it.
        """
        self._server = _bound(self.listen_to)
        threading.Thread(target=self._accept, name="mq-accept", daemon=True).start()
        for address in self.attach_to:
            threading.Thread(target=self._dial, args=(address,), name="mq-dial", daemon=True).start()

    def publish(self, topic: str, data: bytes) -> None:
        with self._lock:
            peers = list(self._peers)
        for peer in peers:
            peer.send(topic, data)

    def subscribe(self, topic: str) -> None:
        """Do nothing: every topic is received."""

    def unsubscribe(self, topic: str) -> None:
        """Do nothing: every topic is received."""

    def recv(self) -> tuple[str, bytes] | None:
        return None if self._stopped.is_set() and self._inbox.empty() else self._inbox.get()

    def wait_for_peers(self, num_peers: int, timeout_s: float) -> bool:
        with self._lock:
            return self._lock.wait_for(lambda: len(self._peers) + self._num_left >= num_peers, timeout_s)

    def stop(self) -> None:
        if self._stopped.is_set():
            return
        self._stopped.set()
        if self._server is not None:
            # Closing alone does not wake the accepting thread.
            with contextlib.suppress(OSError):
                self._server.shutdown(socket.SHUT_RDWR)
            self._server.close()
            if self.listen_to.startswith("ipc://"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.listen_to.removeprefix("ipc://"))
        with self._lock:
            peers = list(self._peers)
            for stranger in self._strangers:
                stranger.hang_up()
        for peer in peers:
            peer.close()
        with contextlib.suppress(queue.Full):  # otherwise recv sees the flag
            self._inbox.put_nowait(None)

    def _accept(self) -> None:
        """Accept until the queue is stopped. Lost connections or missing descriptors do not end the loop."""
        assert self._server is not None
        is_failing = False
        while not self._stopped.is_set():
            try:
                connection, _ = self._server.accept()
                self._meet(connection)
                is_failing = False
            except (OSError, RuntimeError) as error:
                if not is_failing and not self._stopped.is_set():
                    logger.warning("cannot accept a connection at %s, tries again: %s", self.listen_to, error)
                is_failing = True
                self._stopped.wait(ACCEPT_PAUSE_S)

    def _meet(self, connection: socket.socket) -> None:
        """Serve a connection in its own thread, once there are fewer than :data:`MAX_STRANGERS`.

        Raises:
            RuntimeError: No thread can be started.
        """
        peer = _Peer(connection, dials=False)
        with self._lock:
            if len(self._strangers) >= MAX_STRANGERS:
                self._strangers[0].hang_up()
            self._lock.wait_for(lambda: len(self._strangers) < MAX_STRANGERS)
            self._strangers.append(peer)
        try:
            threading.Thread(target=self._serve, args=(peer,), name="mq-peer", daemon=True).start()
        except RuntimeError:
            peer.close()
            self._no_stranger(peer)
            raise

    def _no_stranger(self, peer: "_Peer") -> None:
        with self._lock:
            if peer in self._strangers:
                self._strangers.remove(peer)
                self._lock.notify_all()

    def _dial(self, address: str) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(OSError):  # also if there is no free file descriptor
                self._serve(_Peer(_connected(address), dials=True))
            self._stopped.wait(DIAL_INTERVAL_S)

    def _serve(self, peer: "_Peer") -> None:
        """Shake hands, then read until the connection ends."""
        try:
            peer.shake_hands(self._token, self._nonces)
            self._no_stranger(peer)
            if self._on_peer is not None:
                self._on_peer(peer.send)
            with self._lock:
                if self._stopped.is_set():
                    return
                self._peers.add(peer)
                self._lock.notify_all()
            for message in peer.messages():
                self._inbox.put(message)
        except (MessageQueueError, OSError) as error:
            if not self._stopped.is_set():
                logger.warning("a connection at %s ended: %s", self.listen_to, error)
        finally:
            with self._lock:
                self._num_left += peer in self._peers
                self._peers.discard(peer)
            peer.close()
            self._no_stranger(peer)


class _OpenNonces:
    """Nonces that this process has sent in unfinished handshakes."""

    def __init__(self) -> None:
        self._open: set[bytes] = set()

    def __contains__(self, nonce: bytes) -> bool:
        return nonce in self._open

    @contextlib.contextmanager
    def new(self) -> Iterator[bytes]:
        """Yield a new nonce, which is sent and verified only within the context."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        self._open.add(nonce)
        try:
            yield nonce
        finally:
            self._open.discard(nonce)


class _Peer:
    """A connection that this process dialled or accepted."""

    def __init__(self, connection: socket.socket, dials: bool) -> None:
        self._connection = connection
        self._dials = dials
        self._outbox: queue.Queue[tuple[str, bytes] | None] = queue.Queue(MAX_WAITING)
        self._closed = threading.Event()
        self._writer: threading.Thread | None = None

    def shake_hands(self, token: bytes, nonces: _OpenNonces) -> None:
        """Prove knowledge of the token to the other side, verify its proof, then start writing.

        Raises:
            MessageQueueError: The other side does not know the token, uses another protocol, or is too slow.
        """
        deadline = time.monotonic() + HANDSHAKE_TIMEOUT_S
        try:
            with nonces.new() as own:
                self._prove(token, own, nonces, deadline)
        except TimeoutError as error:
            raise MessageQueueError(f"no handshake within {HANDSHAKE_TIMEOUT_S:g} s") from error
        self._connection.settimeout(None)
        self._writer = threading.Thread(target=self._write, name="mq-write", daemon=True)
        self._writer.start()

    def _prove(self, token: bytes, own: bytes, nonces: _OpenNonces, deadline: float) -> None:
        self._connection.sendall(own)
        theirs = self._exactly(NONCE_BYTES, deadline)
        if theirs in nonces:
            raise MessageQueueError(
                "the other side sends a nonce of this process back: a relay, or this process itself"
            )
        both = own + theirs if self._dials else theirs + own
        of_dialling, of_accepting = (hmac.digest(token, side + both, "sha256") for side in (b"dial", b"accept"))
        if not self._dials:
            self._check(of_dialling, deadline)
            self._connection.sendall(of_accepting)
            return
        self._connection.sendall(of_dialling)
        self._check(of_accepting, deadline)

    def _check(self, proof: bytes, deadline: float) -> None:
        try:
            got = self._exactly(PROOF_BYTES, deadline)
        except (MessageQueueError, ConnectionError) as error:
            who = "this process" if self._dials else "the other side"
            raise MessageQueueError(
                f"the connection ended before the proof; perhaps {who} does not know the token of the run"
            ) from error
        if not hmac.compare_digest(got, proof):
            raise MessageQueueError("the other side does not know the token of this run")

    def hang_up(self) -> None:
        """Shut down the connection, which ends its reader."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def send(self, topic: str, data: bytes) -> None:
        """Queue a message; block while the queue is full and the connection open."""
        deadline = time.monotonic() + SEND_TIMEOUT_S
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                self._outbox.put((topic, data), timeout=1.0)
                return
            if time.monotonic() > deadline:
                logger.warning("a process has not read for %.0f s: its connection is closed", SEND_TIMEOUT_S)
                self.close()

    def messages(self) -> "Iterable[tuple[str, bytes]]":
        """Yield the messages of the other side until it closes the connection."""
        while True:
            first = self._connection.recv(1)
            if not first:
                return
            (length,) = _TOPIC.unpack(first + self._exactly(_TOPIC.size - 1))
            if length > MAX_TOPIC_BYTES:
                raise MessageQueueError(f"a topic of {length} bytes; at most {MAX_TOPIC_BYTES} are read")
            topic = self._exactly(length).decode()
            (length,) = _DATA.unpack(self._exactly(_DATA.size))
            if length > MAX_DATA_BYTES:
                raise MessageQueueError(f"a message of {length} bytes; at most {MAX_DATA_BYTES} are read")
            yield topic, self._exactly(length)

    def close(self) -> None:
        """Close the connection after a short wait for queued messages; the threads end afterwards."""
        self._closed.set()
        with contextlib.suppress(queue.Full):
            self._outbox.put_nowait(None)
        if self._writer is not None:
            self._writer.join(CLOSING_TIMEOUT_S)
        self.hang_up()
        self._connection.close()

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # the reader thread reports it
            while message := self._outbox.get():
                topic, data = message[0].encode(), message[1]
                self._connection.sendall(_TOPIC.pack(len(topic)) + topic + _DATA.pack(len(data)))
                self._connection.sendall(data)

    def _exactly(self, length: int, deadline: float | None = None) -> bytes:
        data = bytearray(length)
        view = memoryview(data)
        while view:
            if deadline is not None:
                # A socket's time-out is per call: a sender of single bytes could extend it indefinitely.
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                self._connection.settimeout(left)
            got = self._connection.recv_into(view)
            if not got:
                raise MessageQueueError("the connection ended in the middle of a message")
            view = view[got:]
        return bytes(data)


def _socket_for(address: str) -> socket.socket:
    if address.startswith("ipc://"):
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A machine without power sends nothing: let the kernel probe it.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return connection


def _connected(address: str) -> socket.socket:
    connection = _socket_for(address)
    try:
        connection.connect(_target(address))
    except OSError:
        connection.close()
        raise
    return connection


def _remove_dead(address: str) -> None:
    """Remove the socket file of a killed process."""
    if address.startswith("ipc://"):
        with _socket_for(address) as probe:
            try:
                probe.connect(_target(address))
            except ConnectionRefusedError:
                os.unlink(address.removeprefix("ipc://"))
            except OSError:
                return


def _target(address: str) -> str | tuple[str, int]:
    kind, _, rest = address.partition("://")
    if kind == "ipc":
        return rest
    host, _, port = rest.rpartition(":")
    if kind != "tcp" or not port.isdigit():
        raise ValueError(f"an address is ipc:///path or tcp://host:port, got {address!r}")
    return host, int(port)


def _bound(address: str) -> socket.socket:
    _remove_dead(address)
    server = _socket_for(address)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        old_mask = os.umask(0o177)
        try:
            server.bind(_target(address))
        finally:
            os.umask(old_mask)
        server.listen()
    except OSError as error:
        server.close()
        raise OSError(error.errno, f"cannot listen on {address}: {error.strerror}") from error
    return server
