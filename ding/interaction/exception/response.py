"""Error answers of masters and slaves: codes, and the exceptions that clients raise for them."""

from collections.abc import Mapping
from enum import IntEnum, unique
from typing import Any, ClassVar, Protocol

from ding.interaction.errors import InteractionError
from ding.interaction.messages import Response, ResponseValues, get_values_from_response


class ErrorWithResponse(Protocol):
    """An exception that carries an answer: ``requests.HTTPError``, or that of another HTTP client."""

    @property
    def response(self) -> Response | None:
        """The answer."""


def values_of(error: ErrorWithResponse | ResponseValues) -> ResponseValues:
    """Return the values of the answer behind an error.

    Raises:
        ValueError: The error carries no response, or one that does not follow the protocol.
    """
    if isinstance(error, ResponseValues):
        return error
    if error.response is None:
        raise ValueError("an HTTPError without a response says nothing about the peer's answer")
    return get_values_from_response(error.response)


class ResponseException(InteractionError):
    """The peer answered with an error.

    Created from an exception that carries the response, or from the five values of the answer (``ResponseValues``).
    Subclasses with a ``code`` are looked up by it; a class without one is the root of one side's codes.
    """

    _by_code: "ClassVar[dict[int, type[ResponseException]]]" = {}

    def __init_subclass__(cls, code: int | None = None) -> None:
        if code is None:
            cls._by_code = {}
        else:
            cls._by_code[int(code)] = cls

    def __init__(self, error: ErrorWithResponse | ResponseValues) -> None:
        self._values = values_of(error)
        super().__init__(f"{self.message} (code {self.code}, status {self.status_code})")

    @property
    def status_code(self) -> int:
        """HTTP status."""
        return self._values.status_code

    @property
    def success(self) -> bool:
        """Always False in a well-formed error answer."""
        return self._values.success

    @property
    def code(self) -> int:
        """Error code, a value of one of the error enums."""
        return self._values.code

    @property
    def message(self) -> str:
        """One sentence."""
        return self._values.message

    @property
    def data(self) -> Mapping[str, Any]:
        """Additional data from the peer; an empty dict if there is none."""
        return self._values.data or {}


def exception_of(error: ErrorWithResponse | ResponseValues, *sides: type[ResponseException]) -> ResponseException:
    """Return the exception for an error answer: the class of its code on the first side that defines it."""
    values = values_of(error)
    found = (side._by_code.get(values.code) for side in sides)
    return next((cls for cls in found if cls is not None), sides[0])(values)


def _class_of(error_code: int, side: type[ResponseException]) -> type[ResponseException]:
    if error_code not in side._by_code:
        raise KeyError(f"no {side.__name__} has the code {error_code}; known are {sorted(side._by_code)}")
    return side._by_code[error_code]


@unique
class ProtocolErrorCode(IntEnum):
    """Error codes in addition to ``MasterErrorCode`` and ``SlaveErrorCode``, each with its HTTP status."""

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
    ENROL_LATER = 903  # 429
    INTERNAL_ERROR = 1001  # 500, a failing hook, never a faulty request


class ProtocolResponseException(ResponseException):
    """An error of the protocol itself."""


class RunTokenNotGiven(ProtocolResponseException, code=ProtocolErrorCode.RUN_TOKEN_NOT_GIVEN):
    """The request has no run token."""


class RunTokenInvalid(ProtocolResponseException, code=ProtocolErrorCode.RUN_TOKEN_INVALID):
    """The run token is wrong or belongs to another run."""


class RequestInvalid(ProtocolResponseException, code=ProtocolErrorCode.REQUEST_INVALID):
    """The request is not well-formed HTTP."""


class BodyInvalid(ProtocolResponseException, code=ProtocolErrorCode.BODY_INVALID):
    """The body is not JSON, or has the wrong shape."""


class BodyTooLarge(ProtocolResponseException, code=ProtocolErrorCode.BODY_TOO_LARGE):
    """The body exceeds the limit of the server."""


class RouteNotFound(ProtocolResponseException, code=ProtocolErrorCode.ROUTE_NOT_FOUND):
    """The path does not exist."""


class MethodNotAllowed(ProtocolResponseException, code=ProtocolErrorCode.METHOD_NOT_ALLOWED):
    """The path does not support the method."""


class RequestTimedOut(ProtocolResponseException, code=ProtocolErrorCode.REQUEST_TIMED_OUT):
    """The request arrived too slowly."""


class HeadersTooLarge(ProtocolResponseException, code=ProtocolErrorCode.HEADERS_TOO_LARGE):
    """The headers exceed the limit of the server."""


class EnrolRefused(ProtocolResponseException, code=ProtocolErrorCode.ENROL_REFUSED):
    """The master refuses this worker."""


class IncarnationFenced(ProtocolResponseException, code=ProtocolErrorCode.INCARNATION_FENCED):
    """A newer process has replaced this one."""


class EnrolLater(ProtocolResponseException, code=ProtocolErrorCode.ENROL_LATER):
    """Too many workers enrol at once; retry soon."""


class InternalError(ProtocolResponseException, code=ProtocolErrorCode.INTERNAL_ERROR):
    """A hook of the peer raised an error."""


@unique
class MasterErrorCode(IntEnum):
    """Error codes of a master."""

    SUCCESS = 0
    SYSTEM_SHUTTING_DOWN = 101
    CHANNEL_NOT_GIVEN = 201
    CHANNEL_INVALID = 202
    MASTER_TOKEN_NOT_GIVEN = 301
    MASTER_TOKEN_INVALID = 302
    SELF_TOKEN_NOT_GIVEN = 401
    SELF_TOKEN_INVALID = 402
    SLAVE_TOKEN_NOT_GIVEN = 501
    SLAVE_TOKEN_INVALID = 502
    TASK_DATA_INVALID = 601


class MasterResponseException(ResponseException):
    """A master answered with an error."""


class MasterSuccess(MasterResponseException, code=MasterErrorCode.SUCCESS):
    """No error; the class completes the table."""


class MasterSystemShuttingDown(MasterResponseException, code=MasterErrorCode.SYSTEM_SHUTTING_DOWN):
    """The master is shutting down."""


class MasterChannelNotGiven(MasterResponseException, code=MasterErrorCode.CHANNEL_NOT_GIVEN):
    """The request has no channel."""


class MasterChannelInvalid(MasterResponseException, code=MasterErrorCode.CHANNEL_INVALID):
    """The master listens on another channel."""


class MasterMasterTokenNotGiven(MasterResponseException, code=MasterErrorCode.MASTER_TOKEN_NOT_GIVEN):
    """The request has no token of the master."""


class MasterMasterTokenInvalid(MasterResponseException, code=MasterErrorCode.MASTER_TOKEN_INVALID):
    """The token of the master is wrong."""


class MasterSelfTokenNotGiven(MasterResponseException, code=MasterErrorCode.SELF_TOKEN_NOT_GIVEN):
    """A request that only the master itself may make has no token."""


class MasterSelfTokenInvalid(MasterResponseException, code=MasterErrorCode.SELF_TOKEN_INVALID):
    """A request that only the master itself may make has a wrong token."""


class MasterSlaveTokenNotGiven(MasterResponseException, code=MasterErrorCode.SLAVE_TOKEN_NOT_GIVEN):
    """The request has no connection token."""


class MasterSlaveTokenInvalid(MasterResponseException, code=MasterErrorCode.SLAVE_TOKEN_INVALID):
    """The connection is unknown: it was never made, or has ended."""


class MasterTaskDataInvalid(MasterResponseException, code=MasterErrorCode.TASK_DATA_INVALID):
    """The message about a task has the wrong shape."""


def get_master_exception_class_by_error_code(error_code: int) -> type[ResponseException]:
    """Return the exception class for a code of a master.

    Raises:
        KeyError: no exception has this code.
    """
    return _class_of(error_code, MasterResponseException)


def get_master_exception_by_error(error: ErrorWithResponse | ResponseValues) -> ResponseException:
    """Return the exception for an error answer of a master, by the code in it."""
    return exception_of(error, MasterResponseException, ProtocolResponseException)


@unique
class SlaveErrorCode(IntEnum):
    """Error codes of a slave."""

    SUCCESS = 0
    SYSTEM_SHUTTING_DOWN = 101
    CHANNEL_NOT_FOUND = 201
    CHANNEL_INVALID = 202
    MASTER_TOKEN_NOT_FOUND = 301
    MASTER_TOKEN_INVALID = 302
    SELF_TOKEN_NOT_FOUND = 401
    SELF_TOKEN_INVALID = 402
    SLAVE_ALREADY_CONNECTED = 501
    SLAVE_NOT_CONNECTED = 502
    SLAVE_CONNECTION_REFUSED = 503
    SLAVE_DISCONNECTION_REFUSED = 504
    TASK_ALREADY_EXIST = 601
    TASK_REFUSED = 602


class SlaveResponseException(ResponseException):
    """A slave answered with an error."""


class SlaveSuccess(SlaveResponseException, code=SlaveErrorCode.SUCCESS):
    """No error; the class completes the table."""


class SlaveSystemShuttingDown(SlaveResponseException, code=SlaveErrorCode.SYSTEM_SHUTTING_DOWN):
    """The slave is shutting down."""


class SlaveChannelNotFound(SlaveResponseException, code=SlaveErrorCode.CHANNEL_NOT_FOUND):
    """The request has no channel."""


class SlaveChannelInvalid(SlaveResponseException, code=SlaveErrorCode.CHANNEL_INVALID):
    """The slave listens on another channel."""


class SlaveMasterTokenNotFound(SlaveResponseException, code=SlaveErrorCode.MASTER_TOKEN_NOT_FOUND):
    """The request has no connection token."""


class SlaveMasterTokenInvalid(SlaveResponseException, code=SlaveErrorCode.MASTER_TOKEN_INVALID):
    """The connection token is not that of the connected master."""


class SlaveSelfTokenNotFound(SlaveResponseException, code=SlaveErrorCode.SELF_TOKEN_NOT_FOUND):
    """A request that only the slave itself may make has no token."""


class SlaveSelfTokenInvalid(SlaveResponseException, code=SlaveErrorCode.SELF_TOKEN_INVALID):
    """A request that only the slave itself may make has a wrong token."""


class SlaveSlaveAlreadyConnected(SlaveResponseException, code=SlaveErrorCode.SLAVE_ALREADY_CONNECTED):
    """Another connection holds the slave."""


class SlaveSlaveNotConnected(SlaveResponseException, code=SlaveErrorCode.SLAVE_NOT_CONNECTED):
    """No master is connected."""


class SlaveSlaveConnectionRefused(SlaveResponseException, code=SlaveErrorCode.SLAVE_CONNECTION_REFUSED):
    """The slave raised ``ConnectionRefuse``."""


class SlaveSlaveDisconnectionRefused(SlaveResponseException, code=SlaveErrorCode.SLAVE_DISCONNECTION_REFUSED):
    """The slave raised ``DisconnectionRefuse``."""


class SlaveTaskAlreadyExist(SlaveResponseException, code=SlaveErrorCode.TASK_ALREADY_EXIST):
    """The slave already runs its maximum number of tasks."""


class SlaveTaskRefused(SlaveResponseException, code=SlaveErrorCode.TASK_REFUSED):
    """The slave raised ``TaskRefuse``."""


def get_slave_exception_class_by_error_code(error_code: int) -> type[ResponseException]:
    """Return the exception class for a code of a slave.

    Raises:
        KeyError: no exception has this code.
    """
    return _class_of(error_code, SlaveResponseException)


def get_slave_exception_by_error(error: ErrorWithResponse | ResponseValues) -> ResponseException:
    """Return the exception for an error answer of a slave, by the code in it."""
    return exception_of(error, SlaveResponseException, ProtocolResponseException)
