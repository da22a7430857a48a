"""Barriers between neighbouring processes. For debugging: all processes run at the pace of the slowest."""

from collections.abc import Iterator

from ding.framework._barrier import BarrierContext as BarrierContext
from ding.framework._barrier import BarrierRuntime as BarrierRuntime
from ding.framework.context import Context
from ding.framework.middleware._roles import between_processes
from ding.framework.task import current_task


@between_processes
class Barrier:
    """Waits for all connected processes in the forward phase, and again in the backward phase.

    All processes must use the same number of barriers. Has no effect in a single-process run.

    Args:
        attch_from_nums: Number of processes that dial this one; the processes it dials itself are known.
        timeout: Time-out of each wait, in seconds.

    Raises:
        TimeoutError: (by the middleware) Not all processes arrived in time.
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
