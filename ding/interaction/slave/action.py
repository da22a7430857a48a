"""What the methods of a slave raise to say no."""

import traceback
from typing import Any, ClassVar

from ding.interaction.errors import InteractionError


class _Refusal(InteractionError):
    """A no, with ``data`` (JSON) that says more."""

    _sentence: ClassVar[str]

    def __init__(self, data: object = None, message: str | None = None) -> None:
        super().__init__(message or self._sentence)
        self.message = str(self)
        self.data = data


class ConnectionRefuse(_Refusal):
    """Raised in ``_before_connection``: the master may not connect (code 503). ``data`` (JSON) says more."""

    _sentence = "The slave refuses the connection."


class DisconnectionRefuse(_Refusal):
    """Raised in ``_before_disconnection``: the master may not disconnect (code 504). ``data`` (JSON) says more."""

    _sentence = "The slave refuses the disconnection."


class TaskRefuse(_Refusal):
    """Raised in ``_before_task``: the slave does not take the task (code 602, status 403), and ``data`` (JSON) says
    more.
    """

    _sentence = "The slave refuses the task."
    status_code = 403


class TaskInvalid(TaskRefuse):
    """Raised in ``_before_task``: the data of the task is malformed, or names the unknown (code 602, status 400)."""

    status_code = 400


class TaskFail(InteractionError):
    """Raised in ``_process_task``: the task has failed, with a result (any JSON value) and a sentence."""

    def __init__(self, result: object = None, message: str | None = None) -> None:
        super().__init__(message or "The task failed.")
        self.result = result
        self.message = str(self)


def failure_report(error: BaseException) -> dict[str, Any]:
    """Return a failure as JSON: ``{"message", "exception": {"type", "message", "traceback"}}``."""
    return {
        "message": f"{type(error).__name__}: {error}",
        "exception": {
            "type": type(error).__name__,
            "message": str(error),
            "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
        },
    }
