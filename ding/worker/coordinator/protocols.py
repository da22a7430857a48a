"""The seams of a coordinator, as protocols: towards its workers, and between its talking and its deciding part.

==================================  ====================================  ==================================
protocol                            implemented by                        used by
==================================  ====================================  ==================================
:class:`WorkerLink`                 a connection of a ``MasterHub``       sessions, ``CommCoordinator``
:class:`WorkerHub`                  ``MasterHub``                         ``CommCoordinator``, aggregator
:class:`RunBuffers`                 ``BufferManager``                     sessions
:class:`CoordinatorCallbacks`       ``Coordinator``, or functions by      sessions, ``CommCoordinator``,
                                    name (:func:`callbacks_of`)           the sync with an operator
==================================  ====================================  ==================================
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from ding.interaction.messages import Json
from ding.worker.coordinator.tasks.records import Holder


class WorkerLink(Protocol):
    """A connection to one life of a worker. ``call`` may be used by several threads."""

    name: str
    role: str
    holder: Holder

    def call(self, data: Mapping[str, Any], timeout_s: float) -> Json:
        """Send a task and wait for its result.

        Raises:
            WorkerTaskFailed: the worker answered that the task failed.
            WorkerLost: no answer in time, or the connection is lost. The worker may have done the task.
        """

    @property
    def alive(self) -> bool:
        """Whether the connection stands, as far as is known."""

    def close(self) -> None:
        """Disconnect; never raises."""


class WorkerHub(Protocol):
    """Makes connections."""

    def start(
        self,
        connected: Callable[[WorkerLink], None],
        disconnected: Callable[[WorkerLink], None],
        left: Callable[[WorkerLink], None] | None = None,
    ) -> None:
        """Listen. ``connected`` is called with each worker that announced itself and was connected, ``disconnected``
        with each one whose connection broke, ``left`` with each one that said that it ends. Any thread may call them.
        """

    def connect(self, name: str, role: str, host: str, port: int) -> WorkerLink:
        """Connect to a worker at a known address; raises :class:`WorkerLost`."""

    def close(self) -> None:
        """Stop listening and drop all connections."""


class RunBuffers(Protocol):
    """The replay buffers of a run, as sessions use them. Each method may be called by any thread."""

    @property
    def rows_taken(self) -> int:
        """Number of rows that were pushed since the start of the run."""

    def take(self, task_id: str, buffer_id: str, holder: Holder, refs: Sequence[Mapping[str, Any]]) -> int:
        """Take chunks, each exactly once; returns the number (``seq``) up to which the worker may forget them."""

    def sample(
        self, buffer_id: str, demand: Sequence[Mapping[str, int]], wait_s: float, closing: threading.Event
    ) -> list[dict[str, Any]]:
        """Return batches, as many of ``demand`` as there are within ``wait_s``."""

    def grant(
        self, task: Mapping[str, Any], holder: Holder, wait_s: float, closing: threading.Event
    ) -> dict[str, Any] | None:
        """Return what the collector of an on-policy run may do, ``{'id', 'version', 'steps'}``, or ``{}`` when that is
        nothing within ``wait_s``; ``None``: nothing holds this collector back.
        """

    def leave(self, task: Mapping[str, Any], holder: Holder) -> None:
        """The collector of this task has no more to send."""

    def loaded(self, buffer_id: str, batch: int, broken: Sequence[str]) -> None:
        """The learner has read all batches up to a number, and could not read the chunks ``broken``."""

    def discard(self, chunks: Sequence[str]) -> object:
        """Delete those of these chunks that no buffer has."""

    def wait_for_data(self, timeout_s: float) -> object:
        """Wait up to ``timeout_s`` seconds for data that a learner may sample."""


class CoordinatorCallbacks(Protocol):
    """What a ``CommCoordinator`` reports, and what it asks for while it attends to the workers.

    Each method may be called by any thread, and by several at once.
    """

    @property
    def buffers(self) -> RunBuffers:
        """Where chunks go to and batches come from."""

    # Collectors.

    def deal_with_collector_send_data(self, task_id: str, buffer_id: str, data_id: str, data: dict[str, Any]) -> None:
        """Take the metadata of one trajectory segment (the form of DI-engine)."""

    def deal_with_collector_judge_finish(self, task_id: str, data: dict[str, Any]) -> bool:
        """Whether a collector that reports ``data`` is done."""

    def deal_with_collector_finish_task(self, task_id: str, finished_task: dict[str, Any]) -> None:
        """A collector ended its task."""

    def deal_with_increase_collector(self) -> None:
        """One collector more."""

    def deal_with_decrease_collector(self) -> None:
        """One collector less."""

    def newest_policy(self, task: Mapping[str, Any]) -> dict[str, int]:
        """Newest versions of the policies that the collector of ``task`` plays."""

    # Learners.

    def deal_with_learner_get_data(
        self, task_id: str, buffer_id: str, batch_size: int, cur_learner_iter: int
    ) -> list[Any] | None:
        """A batch as a list of metadata (the form of DI-engine); ``None`` when there is too little."""

    def deal_with_learner_send_info(self, task_id: str, buffer_id: str, info: dict[str, Any]) -> None:
        """What one train iteration brought."""

    def deal_with_learner_judge_finish(self, task_id: str, info: dict[str, Any]) -> bool:
        """Whether a learner that reports ``info`` is done."""

    def deal_with_learner_finish_task(self, task_id: str, finished_task: dict[str, Any]) -> None:
        """A learner ended its task."""

    def deal_with_policy_version(self, task: Mapping[str, Any], version: int) -> None:
        """A learner published a version of its policy."""

    # All workers.

    def workers_changed(self) -> None:
        """A worker was connected or disconnected, or ended its task."""

    def broken(self, error: Exception) -> None:
        """The own side failed (its commander, its journal), which no worker can mend."""


class _NoBuffers:
    """Stands for the buffers of callbacks that keep their data elsewhere: in the functions of DI-engine."""

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
    """The callbacks as functions by name; those that DI-engine does not know have a default."""

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
    """``callbacks``: an object with the methods, or a mapping of their names to functions."""
    if isinstance(callbacks, Mapping):
        return cast("CoordinatorCallbacks", _Functions(callbacks))
    return callbacks
