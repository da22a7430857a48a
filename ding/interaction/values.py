"""The five values in which every answer of the control plane consists."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from ding.interaction.messages import AnswerBody, convert
from ding.interaction.wire import loads


class Response(Protocol):
    """An HTTP answer: of ``HttpEngine``, of ``requests``, or of another client."""

    status_code: Any
    content: Any


class ResponseValues(NamedTuple):
    """``(status_code, success, code, message, data)``; ``code`` is 0 exactly when ``success``."""

    status_code: int
    success: bool
    code: int
    message: str
    data: Any

    @classmethod
    def from_body(cls, status_code: int, body: bytes) -> ResponseValues:
        """From a body ``{"success", "code", "message", "data"}``.

        Raises:
            ValueError: the body is not the JSON object that the protocol asks for.
        """
        answer = convert(loads(body), AnswerBody, "answer")
        return cls(status_code, answer.success and status_code < 400, answer.code, answer.message or "", answer.data)


def get_values_from_response(response: Any) -> ResponseValues:
    """The values of an answer of an HTTP client, or of a Flask test client.

    Raises:
        ValueError: the body is not the JSON object that the protocol asks for.
    """
    body = response.content if hasattr(response, "content") else response.get_data()
    return ResponseValues.from_body(int(response.status_code), body)
