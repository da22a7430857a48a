"""Errors that a master and a slave share, and that the original protocol does not know."""

from __future__ import annotations

from enum import IntEnum, unique

from ding.interaction.exception.response import ResponseException


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


class RunTokenNotGiven(ProtocolResponseException, code=ProtocolErrorCode.RUN_TOKEN_NOT_GIVEN):
    """The request has no run token."""


class RunTokenInvalid(ProtocolResponseException, code=ProtocolErrorCode.RUN_TOKEN_INVALID):
    """The run token is that of another run, or wrong."""


class RequestInvalid(ProtocolResponseException, code=ProtocolErrorCode.REQUEST_INVALID):
    """The request is no well-formed HTTP."""


class BodyInvalid(ProtocolResponseException, code=ProtocolErrorCode.BODY_INVALID):
    """The body is no JSON, or has the wrong shape."""


class BodyTooLarge(ProtocolResponseException, code=ProtocolErrorCode.BODY_TOO_LARGE):
    """The body is larger than the server takes."""


class RouteNotFound(ProtocolResponseException, code=ProtocolErrorCode.ROUTE_NOT_FOUND):
    """There is no such path."""


class MethodNotAllowed(ProtocolResponseException, code=ProtocolErrorCode.METHOD_NOT_ALLOWED):
    """The path does not know the method."""


class RequestTimedOut(ProtocolResponseException, code=ProtocolErrorCode.REQUEST_TIMED_OUT):
    """The request came too slowly."""


class HeadersTooLarge(ProtocolResponseException, code=ProtocolErrorCode.HEADERS_TOO_LARGE):
    """The headers are larger than the server takes."""


class EnrolRefused(ProtocolResponseException, code=ProtocolErrorCode.ENROL_REFUSED):
    """The master does not want this worker."""


class IncarnationFenced(ProtocolResponseException, code=ProtocolErrorCode.INCARNATION_FENCED):
    """A newer process has taken the place of this one."""


class InternalError(ProtocolResponseException, code=ProtocolErrorCode.INTERNAL_ERROR):
    """A hook of the peer raised."""
