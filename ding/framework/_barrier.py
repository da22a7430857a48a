"""Barriers between the processes of a run."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

log = logging.getLogger(__name__)

EVENT = "b_req"
_LOOK_S = 0.1


class Router(Protocol):
    """Messenger interface that a barrier needs."""

    def on(self, event: str, fn: Callable[..., None]) -> None:
        """Call ``fn`` with the arguments of each message of this topic."""

    def emit(self, event: str, *args: object, retain: bool = False) -> None:
        """Send a message to the connected processes; with ``retain`` also to processes that connect later."""


class BarrierRuntime:
    """Barriers of one process, which has passed ``epoch`` of them.

    On reaching a barrier, a process sends its number and epoch. It continues once all its neighbours have reported the
    same or a later epoch. The newest message of each process also reaches neighbours that connect later.

    Args:
        node_id: Number of this process.
        max_world_size: Ignored; accepted for older scripts.
        router: Messenger of this process.
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
        """Wait until ``num_peers`` neighbours have reached this barrier.

        Args:
            num_peers: Number of neighbours.
            timeout: Time-out in seconds.
            given_up: Returns whether to stop waiting; checked several times a second.

        Raises:
            TimeoutError: Not all neighbours arrived in time; the message names those that did.
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
    """Context manager that waits on entry until the neighbours have entered, too.

    Args:
        runtime: Barriers of this process.
        detect_timeout: Time-out in seconds.
        expected_peer_num: Number of neighbours.

    Raises:
        TimeoutError: (on entry) Not all neighbours arrived in time.
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
