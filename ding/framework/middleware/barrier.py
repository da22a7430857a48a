"""Barriers: neighbouring processes wait for each other. For debugging, as all go at the pace of the slowest."""

from collections.abc import Iterator

from ding.framework._barrier import BarrierContext as BarrierContext
from ding.framework._barrier import BarrierRuntime as BarrierRuntime
from ding.framework.context import Context
from ding.framework.middleware._roles import between_processes
from ding.framework.task import current_task


@between_processes
class Barrier:
    """Waits for all connected processes in the forward phase, and again in the backward phase.

    All of them must use the same number of barriers. In a run of one process it does nothing.

    Args:
        attch_from_nums: number of processes that dial this one; those that it dials itself are known.
        timeout: in seconds, of each wait.

    Raises:
        TimeoutError: by the middleware: not all of them came in time.
    """

    def __init__(self, attch_from_nums: int, timeout: float = 60) -> None:
        self._task = current_task()
        self._num_peers = self._task.get_attch_to_len() + attch_from_nums
        self._timeout = timeout
        self._runtime = self._task.router.get_barrier_runtime()

    def __call__(self, ctx: Context) -> Iterator[None]:
        self._wait()
        yield
        self._wait()

    def _wait(self) -> None:
        self._runtime.wait(self._num_peers, self._timeout, given_up=lambda: self._task.finish)
