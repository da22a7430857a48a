"""Message queue over a shared redis server, for machines that cannot connect to each other directly.

Wire format: published data is ``32 bytes of HMAC over channel and rest | 32 hex digits of the sender | data``; messages
with a wrong HMAC come from processes without the token of the run and are dropped. Channels are ``<run>:all:<topic>``
and ``<run>:<node>:<topic>``, where ``<run>`` is derived from the token, so that runs do not interfere.
"""

import contextlib
import hashlib
import hmac
import logging
import secrets
import threading
from collections.abc import Callable
from typing import Any

from ding.framework.message_queue.mq import MQ
from ding.utils import require_extra

logger = logging.getLogger(__name__)

MAC_BYTES = 32
NAME_BYTES = 32
_HERE = "__here__"


class RedisMQ(MQ):
    """Publishes to a redis server and receives the messages of the run; requires the extra ``redis``.

    Concurrency: any thread may call the methods; :meth:`recv` from one thread.

    Args:
        redis_host: Host of the server; by default this machine.
        redis_port: Port of the server.
        token: Secret of the run.
        on_peer: Called with a function ``send(topic, data)`` for each newly discovered process.

    Raises:
        ImportError: The package ``redis`` is missing; the message explains the installation.
    """

    def __init__(
        self,
        redis_host: str | None = None,
        redis_port: int | None = None,
        token: str = "",
        on_peer: Callable[[Callable[[str, bytes], None]], None] | None = None,
        **kwargs: Any,
    ) -> None:
        redis = require_extra("redis", "redis")
        self._key = token.encode()
        self._on_peer = on_peer
        self._name = secrets.token_hex(NAME_BYTES // 2)
        self._run = hashlib.sha256(b"ding:" + self._key).hexdigest()[:16]
        self._client = redis.Redis(host=redis_host or "127.0.0.1", port=int(redis_port or 6379))
        self._errors: tuple[type[Exception], ...] = (redis.exceptions.ConnectionError, OSError, ValueError)
        self._received: Any = None
        self._peers: set[str] = set()
        self._changed = threading.Condition()
        self._stopped = threading.Event()

    def listen(self) -> None:
        """Subscribe, and announce this process to the others of the run.

        Raises:
            redis.exceptions.ConnectionError: The server cannot be reached.
        """
        self._received = self._client.pubsub()
        self._received.psubscribe(f"{self._run}:all:*", f"{self._run}:{self._name}:*")
        self.publish(_HERE, b"")

    def publish(self, topic: str, data: bytes) -> None:
        self._send("all", topic, data)

    def subscribe(self, topic: str) -> None:
        """Do nothing: every topic is received."""

    def unsubscribe(self, topic: str) -> None:
        """Do nothing: every topic is received."""

    def recv(self) -> tuple[str, bytes] | None:
        while not self._stopped.is_set():
            try:
                message = self._received.get_message(timeout=None)
            except self._errors as error:
                if not self._stopped.is_set():
                    logger.error("the connection to the redis server ended: %s", error)
                return None
            if message is None or not message["type"].endswith("message"):  # confirmation of the subscription
                continue
            if opened := self._opened(message["channel"], message["data"]):
                sender, topic, data = opened
                self._note(sender)
                if topic != _HERE:
                    return topic, data
        return None

    def wait_for_peers(self, num_peers: int, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: len(self._peers) >= num_peers, timeout_s)

    def stop(self) -> None:
        if self._stopped.is_set():
            return
        self._stopped.set()
        with contextlib.suppress(*self._errors):
            self._send(self._name, _HERE, b"")  # wakes recv
        self._client.close()

    def _send(self, node: str, topic: str, data: bytes) -> None:
        channel = f"{self._run}:{node}:{topic}"
        rest = self._name.encode() + data
        self._client.publish(channel, self._mac(channel.encode(), rest) + rest)

    def _mac(self, channel: bytes, rest: bytes) -> bytes:
        return hmac.digest(self._key, len(channel).to_bytes(4, "big") + channel + rest, "sha256")

    def _opened(self, channel: bytes, wire: bytes) -> tuple[str, str, bytes] | None:
        """Return sender, topic and data; ``None`` for own messages and those without a valid HMAC."""
        mac, rest = wire[:MAC_BYTES], wire[MAC_BYTES:]
        if len(rest) < NAME_BYTES or not hmac.compare_digest(mac, self._mac(channel, rest)):
            logger.warning("a message on %r does not know the token of this run and is dropped", channel)
            return None
        sender, data = rest[:NAME_BYTES].decode(), rest[NAME_BYTES:]
        return None if sender == self._name else (sender, channel.decode().split(":", 2)[2], data)

    def _note(self, sender: str) -> None:
        """Answer a new process, and send it the retained messages."""
        with self._changed:
            if sender in self._peers:
                return
            self._peers.add(sender)
            self._changed.notify_all()
        self._send(sender, _HERE, b"")
        if self._on_peer is not None:
            self._on_peer(lambda topic, data: self._send(sender, topic, data))
