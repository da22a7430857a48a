"""What goes wrong at a coordinator.

::

    CoordinatorError (Exception)
    ├── TaskStateError (ValueError)       a task cannot go where it is sent
    ├── TaskGaveUp                        a task failed too often; holds the traceback of the worker
    ├── WorkerLost                        a worker does not answer, or is not the one it was
    ├── WorkerTaskFailed                  a worker answered that a task failed
    ├── WorkersMissing                    too few workers came in time
    ├── JournalError                      the journal cannot be read or written, or belongs to another version
    └── OperatorError                     the operator server cannot be reached, or refused
"""


class CoordinatorError(Exception):
    """Root of this tree."""


class TaskStateError(CoordinatorError, ValueError):
    """What is asked for does not fit the phase of the task: a mistake of the caller."""


class TaskGaveUp(CoordinatorError):
    """A task failed too often.

    Args:
        task_id: the task.
        failures: how often it failed without progress in between.
        detail: what the last worker said, usually a traceback.
    """

    def __init__(self, task_id: str, failures: int, detail: str) -> None:
        super().__init__(f"task {task_id!r} failed {failures} times in a row; the last time:\n{detail}")
        self.task_id = task_id
        self.failures = failures
        self.detail = detail


class WorkerLost(CoordinatorError):
    """A worker does not answer in time, its connection is lost, or another process took its name."""


class WorkerTaskFailed(CoordinatorError):
    """A worker answered that a task failed; ``result`` is what it sent along."""

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


class WorkersMissing(CoordinatorError):
    """Too few workers were there before the deadline; the message names those that are missing."""


class JournalError(CoordinatorError):
    """The journal cannot be opened, or was written by another version."""


class OperatorError(CoordinatorError):
    """The operator server cannot be reached, or refused what was asked."""
