"""Exceptions that the hooks of a slave raise to refuse or fail."""

import traceback
from typing import Any, ClassVar

from ding.interaction.errors import InteractionError


class _Refusal(InteractionError):
    """A refusal, with details in ``data`` (JSON)."""

    _sentence: ClassVar[str]

    def __init__(self, data: object = None, message: str | None = None) -> None:
        super().__init__(message or self._sentence)
        self.message = str(self)
        self.data = data


class ConnectionRefuse(_Refusal):
    """Raise in ``_before_connection`` to refuse the connection (code 503), with details in ``data`` (JSON)."""

    _sentence = "The slave refuses the connection."


class DisconnectionRefuse(_Refusal):
    """Raise in ``_before_disconnection`` to refuse the disconnection (code 504), with details in ``data`` (JSON)."""

    _sentence = "The slave refuses the disconnection."


class TaskRefuse(_Refusal):
    """Raise in ``_before_task`` to refuse the task (code 602, status 403), with details in ``data`` (JSON)."""

    _sentence = "The slave refuses the task."
    status_code = 403


class TaskInvalid(TaskRefuse):
    """Raise in ``_before_task`` if the data is malformed or refers to unknown names (code 602, status 400)."""

    status_code = 400


class TaskFail(InteractionError):
    """Raise in ``_process_task`` to fail the task with a result (any JSON value) and a sentence."""

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
