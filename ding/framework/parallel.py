"""The messenger of a process in a run of several: events by topic over a message queue, and the start of such a run.

node          a process of the run; its number is ``node_id``
topology      who dials whom. ``mesh``: each node all nodes before it. ``star``: each node the first one. ``alone``:
              only the addresses of ``attach_to``. A connection carries messages both ways; nobody passes them on
router        the :class:`Parallel` of a process
"""

import logging
import math
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ding.framework.event_loop import EventLoop
from ding.framework.message_queue import MQ
from ding.parallel.planes import frames
from ding.utils import MQ_REGISTRY, SingletonMetaclass

logger = logging.getLogger(__name__)

Listener = Callable[..., Any]

KIND = "event"
MAX_UNHEARD = 64
"""Newest messages per topic that wait for the first listener of their topic."""
CONNECT_TIMEOUT_S = 30.0


class Parallel(metaclass=SingletonMetaclass):
    """The router of this process; inactive unless the process was started by :meth:`runner`.

    Concurrency: listeners are called on the threads of an :class:`EventLoop`. A message that arrives before its topic
    has a listener waits for the first one. A message that was emitted with ``retain`` is sent again to each node that
    connects later.

    Attributes:
        is_active: whether this process is one of several.
        node_id: its number in the run.
        local_id: its number among the processes that were started together.
        labels: words that say what the process is for.
    """

    def __init__(self) -> None:
        self.is_active = False
        self.node_id: int | None = None
        self.local_id: int | None = None
        self.labels: set[str] = set()
        self.attach_to: list[str] = []
        self.max_retries: float = math.inf
        self._retries = 0
        self._mq: MQ | None = None
        self._loop = EventLoop("parallel")
        self._unheard: dict[str, deque[tuple[list[Any], dict[str, Any]]]] = {}
        self._retained: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._listener: threading.Thread | None = None

    def start(
        self,
        node_id: int,
        mq_type: str = "socket",
        local_id: int = 0,
        labels: Iterable[str] | None = None,
        attach_to: Iterable[str] = (),
        num_peers: int = 0,
        **mq_kwargs: Any,
    ) -> "Parallel":
        """Connect this process with the others, and wait until ``num_peers`` of them are there.

        Raises:
            TimeoutError: they are not there after :data:`CONNECT_TIMEOUT_S`.
        """
        self.node_id, self.local_id = node_id, local_id
        self.labels, self.attach_to = set(labels or ()), list(attach_to)
        self._loop = EventLoop(f"parallel_{node_id}")
        self._mq = MQ_REGISTRY.build(mq_type, attach_to=self.attach_to, on_peer=self._send_retained, **mq_kwargs)
        self.is_active = True
        self._mq.listen()
        self._listener = threading.Thread(target=self.listen, name="router", daemon=True)
        self._listener.start()
        if not self._mq.wait_for_peers(num_peers, CONNECT_TIMEOUT_S):
            self.stop()
            raise TimeoutError(f"node {node_id}: fewer than {num_peers} nodes connected within {CONNECT_TIMEOUT_S} s")
        return self

    def stop(self) -> None:
        """Disconnect; a second call does nothing. :meth:`start` may follow."""
        if not self.is_active:
            return
        self.is_active = False
        assert self._mq is not None
        self._mq.stop()
        if self._listener is not None and self._listener is not threading.current_thread():
            self._listener.join(1.0)
        self._loop.stop()
        with self._lock:
            self._unheard, self._retained = {}, {}

    def __enter__(self) -> "Parallel":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def on(self, event: str, fn: Listener) -> None:
        """Call ``fn`` with the arguments of each message of this topic."""
        self._subscribe(event)
        with self._lock:
            self._loop.on(event, fn)
            self._deliver_unheard(event)

    def once(self, event: str, fn: Listener) -> None:
        """Call ``fn`` with the arguments of the next message of this topic."""
        self._subscribe(event)
        with self._lock:
            self._loop.once(event, fn)
            self._deliver_unheard(event)

    def off(self, event: str) -> None:
        """Remove the listeners of the topics that match."""
        self._loop.off(event)
        if self._mq is not None:
            self._mq.unsubscribe(event)

    def emit(self, event: str, *args: Any, retain: bool = False, **kwargs: Any) -> None:
        """Send a message to the connected nodes; does nothing when the router is inactive.

        Args:
            args, kwargs: plain values, arrays, tensors, and dicts and lists of them.
            retain: send it to nodes that connect later, too, until the next one of its topic.

        Raises:
            TypeError: an argument cannot be sent; the message says where it is.
        """
        if not self.is_active:
            return
        assert self._mq is not None
        data = frames.pack([list(args), kwargs], KIND)
        if retain:
            with self._lock:
                self._retained[event] = data
        self._mq.publish(event, data)

    def listen(self) -> None:
        """Receive messages until the queue is stopped."""
        assert self._mq is not None
        while message := self._mq.recv():
            topic, data = message
            try:
                args, kwargs = frames.unpack(data, KIND, zlib.crc32(data)).tree
            except ValueError as error:
                logger.warning("a message of topic %r is broken and was dropped: %s", topic, error)
                continue
            with self._lock:
                if self._loop.listened(topic):
                    self._loop.emit(topic, *args, **kwargs)
                else:
                    self._unheard.setdefault(topic, deque(maxlen=MAX_UNHEARD)).append((args, kwargs))

    def get_attch_to_len(self) -> int:
        """Return the number of addresses that this node dialled."""
        return len(self.attach_to)

    def _subscribe(self, event: str) -> None:
        if self._mq is not None:
            self._mq.subscribe(event)

    def _deliver_unheard(self, event: str) -> None:
        for args, kwargs in self._unheard.pop(event, ()):
            self._loop.emit(event, *args, **kwargs)

    def _send_retained(self, send: Callable[[str, bytes], None]) -> None:
        with self._lock:
            retained = dict(self._retained)
        for topic, data in retained.items():
            send(topic, data)
