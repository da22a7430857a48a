"""How a coordinator reaches its workers: two small protocols, and their implementation over ``ding.interaction``."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ding.worker.coordinator._task_machine import Holder

LONGEST_ERROR = 4000


class WorkerLink(Protocol):
    """A connection to one life of a worker. ``call`` may be used by several threads."""

    name: str
    role: str
    holder: Holder

    def call(self, data: Mapping[str, Any], timeout_s: float) -> Any:
        """Send a task and wait for its result.

        Raises:
            WorkerTaskFailed: the worker answered that the task failed.
            WorkerLost: no answer in time, or the connection is gone. The worker may have done the task.
        """

    @property
    def alive(self) -> bool:
        """Whether the connection stands, as far as is known."""

    def close(self) -> None:
        """Disconnect; never raises."""


class WorkerHub(Protocol):
    """Makes connections."""

    def start(self, came: Callable[[WorkerLink], None], lost: Callable[[WorkerLink], None]) -> None:
        """Listen. ``came`` is called with each worker that announces itself and was connected, ``lost`` with each one
        whose connection broke. Both may be called by any thread."""

    def connect(self, name: str, role: str, host: str, port: int) -> WorkerLink:
        """Connect to a worker at a known address; raises :class:`WorkerLost`."""

    def close(self) -> None:
        """Stop listening and drop all connections."""


def describe_failure(result: Any, message: str) -> str:
    """What a worker said of a failure: its traceback if there is one."""
    if isinstance(result, Mapping):
        exception = result.get("exception")
        if isinstance(exception, Mapping) and exception.get("traceback"):
            return str(exception["traceback"])[-LONGEST_ERROR:]
        for key in ("traceback", "message"):
            if result.get(key):
                return str(result[key])[-LONGEST_ERROR:]
    return message or "the worker gave no reason"
