"""Errors that a master and a slave share, and that the original protocol does not know."""

from __future__ import annotations

from enum import IntEnum, unique

from ding.interaction.exception.base import ResponseException
from ding.interaction.values import ResponseValues


@unique
class ProtocolErrorCode(IntEnum):
    """Codes beside those of ``MasterErrorCode`` and ``SlaveErrorCode``; the HTTP status stands beside each."""

    RUN_TOKEN_NOT_GIVEN = 701  # 401
    RUN_TOKEN_INVALID = 702  # 403
    REQUEST_INVALID = 801  # 400
    BODY_INVALID = 802  # 400
    BODY_TOO_LARGE = 803  # 413
    ROUTE_NOT_FOUND = 804  # 404
    METHOD_NOT_ALLOWED = 805  # 405
    REQUEST_TIMED_OUT = 806  # 408
    HEADERS_TOO_LARGE = 807  # 431
    ENROL_REFUSED = 901  # 403
    INCARNATION_FENCED = 902  # 409
    INTERNAL_ERROR = 1001  # 500, a fault of a hook, never of a request


class ProtocolResponseException(ResponseException):
    """An error of the protocol itself."""


class RunTokenNotGiven(ProtocolResponseException):
    """The request has no run token."""


class RunTokenInvalid(ProtocolResponseException):
    """The run token is that of another run, or wrong."""


class RequestInvalid(ProtocolResponseException):
    """The request is no well-formed HTTP."""


class BodyInvalid(ProtocolResponseException):
    """The body is no JSON, or has the wrong shape."""


class BodyTooLarge(ProtocolResponseException):
    """The body is larger than the server takes."""


class RouteNotFound(ProtocolResponseException):
    """There is no such path."""


class MethodNotAllowed(ProtocolResponseException):
    """The path does not know the method."""


class RequestTimedOut(ProtocolResponseException):
    """The request came too slowly."""


class HeadersTooLarge(ProtocolResponseException):
    """The headers are larger than the server takes."""


class EnrolRefused(ProtocolResponseException):
    """The master does not want this worker."""


class IncarnationFenced(ProtocolResponseException):
    """A newer process has taken the place of this one."""


class InternalError(ProtocolResponseException):
    """A hook of the peer raised."""


_CLASSES: dict[int, type[ProtocolResponseException]] = {
    ProtocolErrorCode.RUN_TOKEN_NOT_GIVEN: RunTokenNotGiven,
    ProtocolErrorCode.RUN_TOKEN_INVALID: RunTokenInvalid,
    ProtocolErrorCode.REQUEST_INVALID: RequestInvalid,
    ProtocolErrorCode.BODY_INVALID: BodyInvalid,
    ProtocolErrorCode.BODY_TOO_LARGE: BodyTooLarge,
    ProtocolErrorCode.ROUTE_NOT_FOUND: RouteNotFound,
    ProtocolErrorCode.METHOD_NOT_ALLOWED: MethodNotAllowed,
    ProtocolErrorCode.REQUEST_TIMED_OUT: RequestTimedOut,
    ProtocolErrorCode.HEADERS_TOO_LARGE: HeadersTooLarge,
    ProtocolErrorCode.ENROL_REFUSED: EnrolRefused,
    ProtocolErrorCode.INCARNATION_FENCED: IncarnationFenced,
    ProtocolErrorCode.INTERNAL_ERROR: InternalError,
}


def find_class(
    values: ResponseValues, own: dict[int, type[ResponseException]], base: type[ResponseException]
) -> type[ResponseException]:
    """The class for the code of an answer: one of ``own``, one of this module, or ``base``."""
    return own.get(values.code) or _CLASSES.get(values.code) or base
