"""What the processes of a run send each other to wait for each other."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

log = logging.getLogger(__name__)

EVENT = "b_req"
_LOOK_S = 0.1


class Router(Protocol):
    """What a barrier needs of the messenger of its process."""

    def on(self, event: str, fn: Callable[..., None]) -> None:
        """Call ``fn`` with the arguments of each message of this topic."""

    def emit(self, event: str, *args: object, retain: bool = False) -> None:
        """Send a message to the connected processes, and later ones."""


class BarrierRuntime:
    """The barriers of one process: it has passed ``epoch`` of them.

    A process that comes to its barrier sends its number and epoch. Who has heard the same epoch, or a later one, from
    all its neighbours goes on. The newest message of each process also reaches neighbours that connect later.

    Args:
        node_id: number of this process.
        max_world_size: not used; accepted for older scripts.
        router: the messenger of this process.
    """

    def __init__(self, node_id: int, max_world_size: int = 100, router: Router | None = None) -> None:
        self.node_id = node_id
        self.epoch = 0
        self._router = router
        self._arrived: dict[int, int] = {}
        self._changed = threading.Condition()
        if router is not None:
            router.on(EVENT, self._hear)

    def wait(self, num_peers: int, timeout: float, given_up: Callable[[], bool] = lambda: False) -> None:
        """Wait until so many neighbours have come to this barrier, too.

        Args:
            num_peers: number of neighbours.
            timeout: in seconds.
            given_up: whether waiting has become useless; looked at several times a second.

        Raises:
            TimeoutError: not all came in time; the message names those that did.
        """
        self.epoch += 1
        if self._router is not None:
            self._router.emit(EVENT, self.node_id, self.epoch, retain=True)
        left_s = timeout
        with self._changed:
            while not self._changed.wait_for(lambda: len(self._here()) >= num_peers, min(_LOOK_S, left_s)):
                left_s -= _LOOK_S
                if given_up():
                    return
                if left_s <= 0:
                    raise TimeoutError(
                        f"barrier {self.epoch} of node {self.node_id}: of {num_peers} neighbours only "
                        f"{self._here()} came within {timeout} s"
                    )

    def _here(self) -> list[int]:
        return [node for node, epoch in self._arrived.items() if epoch >= self.epoch]

    def _hear(self, node_id: int, epoch: int) -> None:
        with self._changed:
            self._arrived[node_id] = epoch
            self._changed.notify_all()


class BarrierContext:
    """Waits at its begin until the neighbours have come to it, too.

    Args:
        runtime: the barriers of this process.
        detect_timeout: seconds to wait.
        expected_peer_num: number of neighbours.

    Raises:
        TimeoutError: at the begin: not all came in time.
    """

    def __init__(self, runtime: BarrierRuntime, detect_timeout: float, expected_peer_num: int = 0) -> None:
        self._runtime, self._timeout, self._num_peers = runtime, detect_timeout, expected_peer_num

    def __enter__(self) -> None:
        self._runtime.wait(self._num_peers, self._timeout)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            log.error("an error within a barrier: %s", error, exc_info=error)
