"""``Parallel``: processes of a task and their communication (unrelated to the parallel mode).

node          a process of the run with the number ``node_id``
topology      pattern of connections. ``mesh``: each node dials all earlier nodes. ``star``: each node dials the first
              one. ``alone``: only the addresses of ``attach_to``. Connections are bidirectional; messages are not
              forwarded
router        the :class:`Parallel` of a process
"""

import functools
import importlib
import logging
import math
import socket
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ding.framework._barrier import BarrierRuntime
from ding.framework._nodes import LOCAL_HOST as LOCAL_HOST
from ding.framework._nodes import TOPOLOGIES as TOPOLOGIES
from ding.framework._nodes import Node, NodeJob, addresses, make_nodes, padded
from ding.framework._runner import Runner
from ding.framework.event_loop import EventLoop
from ding.framework.message_queue import MQ
from ding.parallel.launch import RoleContext
from ding.parallel.planes import frames
from ding.utils import MQ_REGISTRY, DistributedWriter, SingletonMetaclass
from ding.utils.seed import set_process_index

logger = logging.getLogger(__name__)

Listener = Callable[..., Any]

KIND = "event"
FINISH = "task.finish"
"""Topic that ends the tasks of a run."""
MAX_UNHEARD_BYTES = 1 << 26
"""Maximum number of messages per topic that wait for its first listener."""
CONNECT_TIMEOUT_S = 30.0
CLOSING_TIMEOUT_S = 1.0


class Parallel(metaclass=SingletonMetaclass):
    """Router of this process; inactive unless the process was started by :meth:`runner`.

    Concurrency: listeners are called in the threads of an :class:`EventLoop`. A message that arrives before its topic
    has a listener waits for the first one. A message emitted with ``retain`` is also sent to each node that connects
    later.

    Attributes:
        is_active: Whether this process is one of several.
        node_id: Number of this process in the run.
        local_id: Number among the processes that were started together.
        labels: Labels of this process.
        auto_recover: Whether this process is restarted after an exception.
        is_supervised: Whether another process handles an exception in this one.
        is_stopping: Whether this process was asked to stop.
        has_finished: Whether a task of this process has finished.
    """

    def __init__(self) -> None:
        self.is_active = False
        self.node_id: int | None = None
        self.local_id: int | None = None
        self.labels: set[str] = set()
        self.attach_to: list[str] = []
        self.auto_recover = False
        self.is_supervised = False
        self.is_stopping = False
        self.has_finished = False
        self._retries = 0
        self._mq: MQ | None = None
        self._loop = _router_loop("parallel")
        self._unheard: dict[str, deque[bytes]] = {}
        self._heard: set[str] = set()
        self._retained: dict[str, bytes] = {}
        self._barriers: BarrierRuntime | None = None
        self._lock = threading.Lock()
        self._listener: threading.Thread | None = None

    @staticmethod
    def runner(
        n_parallel_workers: int,
        mq_type: str = "nng",
        attach_to: "str | Sequence[str] | None" = None,
        protocol: str = "ipc",
        address: str | None = None,
        ports: "int | Sequence[int] | None" = None,
        topology: str = "mesh",
        labels: "Iterable[str] | None" = None,
        node_ids: "int | Sequence[int] | None" = None,
        auto_recover: bool = False,
        max_retries: float = math.inf,
        redis_host: str | None = None,
        redis_port: int | None = None,
        startup_interval: float = 1,
        log_dir: str | None = None,
    ) -> Callable[..., None]:
        """Return a function ``run(main, *args, **kwargs)`` that runs ``main(*args, **kwargs)`` in several processes.

        ``main`` starts once the processes are connected. The run ends when a task has finished in one process (the
        others then complete their iteration) or ``main`` has returned in all. A killed process is restarted. An
        exception in one process ends all of them within seconds, and ``run`` raises it. A single process runs in the
        caller's process.

        Args:
            n_parallel_workers: Number of processes.
            mq_type: Message queue: ``nng`` or ``socket`` (no dependencies), or ``redis``.
            attach_to: Addresses of processes on other machines to dial.
            protocol: ``ipc``, or ``tcp`` for runs on several machines.
            address: Own address for ``tcp``; the default accepts only local connections.
            ports: For ``tcp``, a first port or one port per process.
            topology: ``mesh``, ``star`` or ``alone``; see the module.
            labels: Additional labels of these processes.
            node_ids: Numbers of the processes in the run; by default counted from 0.
            auto_recover: Restart a process after an exception, too.
            max_retries: Maximum number of restarts.
            redis_host, redis_port: Address of the server, for ``redis``.
            startup_interval: Ignored, because processes wait for each other. Accepted for older scripts.
            log_dir: Folder for the output of each process; by default it goes to the terminal.

        Processes of one run share a token: the environment variable ``DING_RUN_TOKEN``, which a run on several machines
        requires; otherwise a new one.

        Raises:
            AssertionError: There are no processes, or the number of ports or ids does not match.
            ValueError: The protocol or topology is unknown, or remote processes are dialled without a token.
        """
        make = functools.partial(
            make_nodes, n_parallel_workers, mq_type, attach_to, protocol, address, ports, topology, labels, node_ids
        )
        servers = {"redis_host": redis_host, "redis_port": redis_port}
        return Runner(functools.partial(make, **servers), _run_node, auto_recover, max_retries, log_dir)

    @property
    def has_lost_state(self) -> bool:
        """Whether this process replaces one that was killed unexpectedly."""
        return self.is_active and self._retries > 0 and not self.auto_recover

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
        """Connect to the other processes, and wait until ``num_peers`` of them are connected.

        Raises:
            TimeoutError: They are not connected after :data:`CONNECT_TIMEOUT_S`.
        """
        self.node_id, self.local_id = node_id, local_id
        self.labels, self.attach_to = set(labels or ()), list(attach_to)
        self._loop = _router_loop(f"parallel_{node_id}")
        self._mq = MQ_REGISTRY.build(mq_type, attach_to=self.attach_to, on_peer=self._send_retained, **mq_kwargs)
        self.is_active = True
        self.is_stopping = self.has_finished = False
        self._mq.listen()
        self._listener = threading.Thread(target=self.listen, name="router", daemon=True)
        self._listener.start()
        if not self._mq.wait_for_peers(num_peers, CONNECT_TIMEOUT_S):
            self.stop()
            raise TimeoutError(f"node {node_id}: fewer than {num_peers} nodes connected within {CONNECT_TIMEOUT_S} s")
        return self

    def stop(self) -> None:
        """Disconnect. Repeated calls have no effect; :meth:`start` may follow."""
        if not self.is_active:
            return
        self.is_active = False
        assert self._mq is not None
        self._mq.stop()
        if self._listener is not None and self._listener is not threading.current_thread():
            # Deliver messages that have arrived, such as the last points of curves.
            self._listener.join(CLOSING_TIMEOUT_S)
            self._loop.drain(CLOSING_TIMEOUT_S)
        self._loop.stop()
        self._barriers = None
        with self._lock:
            self._unheard, self._retained, self._heard = {}, {}, set()

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
        """Send a message to the connected nodes; has no effect if the router is inactive.

        Args:
            args, kwargs: Plain values, arrays, tensors, and dicts and lists of them.
            retain: Also send it to nodes that connect later, until the next message of its topic.

        Raises:
            TypeError: An argument cannot be sent; the message locates it.
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
            with self._lock:
                if self._loop.listened(topic):
                    self._deliver(topic, data)
                elif topic not in self._heard:
                    unheard = self._unheard.setdefault(topic, deque())
                    unheard.append(data)
                    while sum(map(len, unheard)) > MAX_UNHEARD_BYTES and len(unheard) > 1:
                        unheard.popleft()

    def ask_to_stop(self) -> None:
        """Make the tasks of this process finish, as if another process had finished."""
        self.is_stopping = True
        self._loop.emit(FINISH, True)

    def _deliver(self, topic: str, data: bytes) -> None:
        try:
            args, kwargs = frames.unpack(data, KIND, zlib.crc32(data)).tree
        except ValueError as error:
            logger.warning("a message of topic %r is broken and was dropped: %s", topic, error)
        else:
            self._loop.emit(topic, *args, **kwargs)

    def get_barrier_runtime(self) -> BarrierRuntime:
        """Return the barriers of this process.

        Raises:
            RuntimeError: This process is not one of several.
        """
        if self._barriers is None:
            if not self.is_active or self.node_id is None:
                raise RuntimeError("get_barrier_runtime: the router is not active, this process runs alone")
            self._barriers = BarrierRuntime(self.node_id, router=self)
        return self._barriers

    def get_attch_to_len(self) -> int:
        """Return the number of addresses dialled by this node."""
        return len(self.attach_to)

    @staticmethod
    def get_ip() -> str:
        """Return the network address of this machine, or 127.0.0.1 if it has none."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("10.255.255.255", 1))  # nothing is sent
                return str(probe.getsockname()[0])
            except OSError:
                return "127.0.0.1"

    get_node_addrs = staticmethod(addresses)
    padding_param = staticmethod(padded)

    def _subscribe(self, event: str) -> None:
        if self._mq is not None:
            self._mq.subscribe(event)

    def _deliver_unheard(self, event: str) -> None:
        self._heard.add(event)
        for data in self._unheard.pop(event, ()):
            self._deliver(event, data)

    def _send_retained(self, send: Callable[[str, bytes], None]) -> None:
        with self._lock:
            retained = dict(self._retained)
        for topic, data in retained.items():
            send(topic, data)


def _run_node(context: RoleContext) -> bool | None:
    """Main function of a node's process; returns ``True`` if a task has finished."""
    job: NodeJob = context.payload
    node: Node = job.node
    if isinstance(job.main, tuple):
        main = getattr(importlib.import_module(job.main[0]), job.main[1])
    else:
        main = job.main
    router = Parallel()
    router.is_supervised, router.auto_recover = job.is_supervised, job.recovers
    router._retries = job.retries or context.incarnation
    mq_kwargs = {"token": context.token, **node.mq_kwargs}
    num_peers = node.num_peers if context.incarnation == 0 else min(node.num_peers, 1)
    set_process_index(node.node_id, router._retries)
    try:
        with router.start(
            node.node_id, node.mq_type, node.local_id, node.labels, node.attach_to, num_peers, **mq_kwargs
        ):
            context.stop.on_set(router.ask_to_stop)
            main(*job.args, **job.kwargs)
            return router.has_finished or None
    finally:
        set_process_index(0)
        # Exit without the usual finalisation of Python.
        DistributedWriter.reset_root()


def _router_loop(name: str) -> EventLoop:
    """Return the event loop of a router, which all tasks of a process share: a failing listener does not stop it."""
    loop = EventLoop(name)
    loop.stops_at_error = False
    return loop
