"""The five values in which every answer of the control plane consists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class ResponseValues(NamedTuple):
    """``(status_code, success, code, message, data)``; ``code`` is 0 exactly when ``success``."""

    status_code: int
    success: bool
    code: int
    message: str
    data: Any

    @classmethod
    def from_payload(cls, status_code: int, payload: Any) -> ResponseValues:
        """From a decoded body ``{"success", "code", "message", "data"}``.

        Raises:
            ValueError: the payload is no such object.
        """
        if not isinstance(payload, Mapping):
            raise ValueError(f"an answer must be an object, got {type(payload).__name__}")
        code = payload.get("code", 0 if status_code < 400 else -1)
        message = payload.get("message")
        if isinstance(code, bool) or not isinstance(code, int):
            raise ValueError(f"the code of an answer must be an integer, got {type(code).__name__}")
        success = bool(payload.get("success", status_code < 400))
        return cls(status_code, success, code, "" if message is None else str(message), payload.get("data"))


def get_values_from_response(response: Any) -> ResponseValues:
    """The values of an answer of ``requests`` or of a Flask test client.

    Raises:
        ValueError: the body is not the JSON object that the protocol asks for.
    """
    from ding.interaction.wire import loads  # wire needs the errors, and they need this module

    body = response.content if hasattr(response, "content") else response.get_data()
    return ResponseValues.from_payload(int(response.status_code), loads(body))
