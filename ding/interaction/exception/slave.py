"""What a slave answers when it refuses."""

from __future__ import annotations

from enum import IntEnum, unique

from ding.interaction.exception.protocol import ProtocolResponseException
from ding.interaction.exception.response import ErrorWithResponse, ResponseException, exception_of
from ding.interaction.values import ResponseValues


@unique
class SlaveErrorCode(IntEnum):
    """Codes in the answers of a slave."""

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
    """The slave runs as many tasks as it may."""


class SlaveTaskRefused(SlaveResponseException, code=SlaveErrorCode.TASK_REFUSED):
    """The slave raised ``TaskRefuse``."""


def get_slave_exception_by_error(error: ErrorWithResponse | ResponseValues) -> ResponseException:
    """The exception for an error answer of a slave, by the code in it."""
    return exception_of(error, SlaveResponseException, ProtocolResponseException)
