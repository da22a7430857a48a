"""Protocols of a coordinator: towards its workers, and between its communication and its decisions.

==================================  ====================================  ==================================
protocol                            implemented by                        used by
==================================  ====================================  ==================================
:class:`WorkerLink`                 a connection of a ``MasterHub``       sessions, ``CommCoordinator``
:class:`WorkerHub`                  ``MasterHub``                         ``CommCoordinator``, aggregator
:class:`RunBuffers`                 ``BufferManager``                     sessions
:class:`CoordinatorCallbacks`       ``Coordinator``, or functions by      sessions, ``CommCoordinator``,
                                    name (:func:`callbacks_of`)           the operator sync
==================================  ====================================  ==================================
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from ding.interaction.messages import Json
from ding.worker.coordinator.tasks.records import Holder


class WorkerLink(Protocol):
    """Connection to one incarnation of a worker. ``call`` may be used by several threads."""

    name: str
    role: str
    holder: Holder

    def call(self, data: Mapping[str, Any], timeout_s: float) -> Json:
        """Send a task and wait for its result.

        Raises:
            WorkerTaskFailed: The worker reported that the task failed.
            WorkerLost: The answer did not arrive in time, or the connection is lost. The worker may have done the task.
        """

    @property
    def alive(self) -> bool:
        """Whether the connection is open, as far as is known."""

    def close(self) -> None:
        """Disconnect; never raises."""


class WorkerHub(Protocol):
    """Creates connections."""

    def start(
        self,
        connected: Callable[[WorkerLink], None],
        disconnected: Callable[[WorkerLink], None],
        left: Callable[[WorkerLink], None] | None = None,
    ) -> None:
        """Listen for workers.

        ``connected`` is called with each worker that enrolled and was connected, ``disconnected`` with each one whose
        connection broke, and ``left`` with each one that signed off; any thread may call them.
        """

    def connect(self, name: str, role: str, host: str, port: int) -> WorkerLink:
        """Connect to a worker at a known address; raises :class:`WorkerLost`."""

    def close(self) -> None:
        """Stop listening and drop all connections."""


class RunBuffers(Protocol):
    """Replay buffers of a run, as used by sessions. Any thread may call the methods."""

    @property
    def rows_taken(self) -> int:
        """Number of rows pushed since the start of the run."""

    def take(self, task_id: str, buffer_id: str, holder: Holder, refs: Sequence[Mapping[str, Any]]) -> int:
        """Take chunks, each exactly once; return the number (``seq``) up to which the worker may drop them."""

    def sample(
        self, buffer_id: str, demand: Sequence[Mapping[str, int]], wait_s: float, closing: threading.Event
    ) -> list[dict[str, Any]]:
        """Return the batches of ``demand`` that are available within ``wait_s``."""

    def grant(
        self, task: Mapping[str, Any], holder: Holder, wait_s: float, closing: threading.Event
    ) -> dict[str, Any] | None:
        """Return the grant of an on-policy run's collector, ``{'id', 'version', 'steps'}``.

        ``{}``: no grant became available within ``wait_s``; ``None``: grants do not apply to this collector.
        """

    def leave(self, task: Mapping[str, Any], holder: Holder) -> None:
        """Record that the collector of this task has no more data."""

    def loaded(self, buffer_id: str, batch: int, broken: Sequence[str]) -> None:
        """Record that the learner has read all batches up to a number and could not read the chunks ``broken``."""

    def discard(self, chunks: Sequence[str]) -> object:
        """Delete the given chunks unless a buffer holds them."""

    def wait_for_data(self, timeout_s: float) -> object:
        """Wait up to ``timeout_s`` seconds for data that a learner may sample."""


class CoordinatorCallbacks(Protocol):
    """Reports and requests of a ``CommCoordinator``.

    Any thread may call the methods, also concurrently.
    """

    @property
    def buffers(self) -> RunBuffers:
        """Buffers that take chunks and provide batches."""

    # Collectors.

    def deal_with_collector_send_data(self, task_id: str, buffer_id: str, data_id: str, data: dict[str, Any]) -> None:
        """Take the metadata of one trajectory segment (the form of DI-engine)."""

    def deal_with_collector_judge_finish(self, task_id: str, data: dict[str, Any]) -> bool:
        """Return whether a collector that reports ``data`` is done."""

    def deal_with_collector_finish_task(self, task_id: str, finished_task: dict[str, Any]) -> None:
        """Record the end of a collector's task."""

    def deal_with_increase_collector(self) -> None:
        """Add one collector."""

    def deal_with_decrease_collector(self) -> None:
        """Remove one collector."""

    def newest_policy(self, task: Mapping[str, Any]) -> dict[str, int]:
        """Return the newest versions of the policies that the collector of ``task`` plays."""

    # Learners.

    def deal_with_learner_get_data(
        self, task_id: str, buffer_id: str, batch_size: int, cur_learner_iter: int
    ) -> list[Any] | None:
        """Return a batch as a list of metadata (DI-engine's form), or ``None`` if there are too few."""

    def deal_with_learner_send_info(self, task_id: str, buffer_id: str, info: dict[str, Any]) -> None:
        """Process the info of a train iteration."""

    def deal_with_learner_judge_finish(self, task_id: str, info: dict[str, Any]) -> bool:
        """Return whether a learner that reports ``info`` is done."""

    def deal_with_learner_finish_task(self, task_id: str, finished_task: dict[str, Any]) -> None:
        """Record the end of a learner's task."""

    def deal_with_policy_version(self, task: Mapping[str, Any], version: int) -> None:
        """Record a published policy version."""

    # All workers.

    def workers_changed(self) -> None:
        """Record that a worker connected, disconnected, or ended its task."""

    def broken(self, error: Exception) -> None:
        """Record a failure of the coordinator (its commander or journal), which no worker can repair."""


class _NoBuffers:
    """Placeholder for callbacks that keep their data in DI-engine's functions."""

    def take(self, task_id: str, buffer_id: str, holder: Holder, refs: Sequence[Mapping[str, Any]]) -> int:
        raise TypeError("these callbacks take no chunks: pass an object with the attribute 'buffers'")

    def sample(
        self, buffer_id: str, demand: Sequence[Mapping[str, int]], wait_s: float, closing: threading.Event
    ) -> list[dict[str, Any]]:
        raise TypeError("these callbacks have no batches of chunks: pass an object with the attribute 'buffers'")

    def grant(self, task: Mapping[str, Any], holder: Holder, wait_s: float, closing: threading.Event) -> None:
        return None

    def leave(self, task: Mapping[str, Any], holder: Holder) -> None:
        pass

    def loaded(self, buffer_id: str, batch: int, broken: Sequence[str]) -> None:
        pass

    def discard(self, chunks: Sequence[str]) -> None:
        pass

    def wait_for_data(self, timeout_s: float) -> None:
        threading.Event().wait(timeout_s)


class _Functions:
    """Callbacks from functions by name; functions that DI-engine lacks have a default."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        self.buffers = _NoBuffers()
        self.__dict__.update(functions)

    def newest_policy(self, task: Mapping[str, Any]) -> dict[str, int]:
        return {}

    def deal_with_policy_version(self, task: Mapping[str, Any], version: int) -> None:
        pass

    def workers_changed(self) -> None:
        pass

    def broken(self, error: Exception) -> None:
        pass


def callbacks_of(callbacks: CoordinatorCallbacks | Mapping[str, Callable[..., Any]]) -> CoordinatorCallbacks:
    """Return ``callbacks`` as an object: it is one already, or a mapping of method names to functions."""
    if isinstance(callbacks, Mapping):
        return cast("CoordinatorCallbacks", _Functions(callbacks))
    return callbacks
