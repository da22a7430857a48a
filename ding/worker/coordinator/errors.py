"""Exceptions of a coordinator.

::

    CoordinatorError (Exception)
    ├── TaskStateError (ValueError)       operation that is invalid in the phase of a task
    ├── TaskGaveUp                        task that failed too often; holds the traceback of the worker
    ├── WorkerLost                        worker that does not answer, or was replaced by another process
    ├── WorkerTaskFailed                  worker that reported the failure of a task
    ├── WorkersMissing                    too few workers connected in time
    ├── JournalError                      journal that cannot be read or written, or has another version
    └── OperatorError                     operator server that cannot be reached, or refused a request
"""


class CoordinatorError(Exception):
    """Base class of all coordinator errors."""


class TaskStateError(CoordinatorError, ValueError):
    """The operation is invalid in the phase of the task: an error of the caller."""


class TaskGaveUp(CoordinatorError):
    """A task failed too often.

    Args:
        task_id: Id of the task.
        failures: Number of failures without progress in between.
        detail: Report of the last worker, usually a traceback.
    """

    def __init__(self, task_id: str, failures: int, detail: str) -> None:
        super().__init__(f"task {task_id!r} failed {failures} times in a row; the last time:\n{detail}")
        self.task_id = task_id
        self.failures = failures
        self.detail = detail


class WorkerLost(CoordinatorError):
    """A worker does not answer in time, its connection is lost, or another process took its name."""


class WorkerTaskFailed(CoordinatorError):
    """A worker reported that a task failed; ``result`` is the result it sent."""

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


class WorkersMissing(CoordinatorError):
    """Too few workers connected before the deadline; the message names the missing ones."""


class JournalError(CoordinatorError):
    """The journal cannot be opened, or was written by another version."""


class OperatorError(CoordinatorError):
    """The operator server cannot be reached, or refused a request."""
