"""What a slave answers when it refuses."""

from __future__ import annotations

from enum import IntEnum, unique

import requests

from ding.interaction.exception.base import ResponseException, values_of
from ding.interaction.exception.protocol import find_class
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


class SlaveSuccess(SlaveResponseException):
    """No error; the class completes the table."""


class SlaveSystemShuttingDown(SlaveResponseException):
    """The slave is shutting down."""


class SlaveChannelNotFound(SlaveResponseException):
    """The request has no channel."""


class SlaveChannelInvalid(SlaveResponseException):
    """The slave listens on another channel."""


class SlaveMasterTokenNotFound(SlaveResponseException):
    """The request has no connection token."""


class SlaveMasterTokenInvalid(SlaveResponseException):
    """The connection token is not that of the connected master."""


class SlaveSelfTokenNotFound(SlaveResponseException):
    """A request that only the slave itself may make has no token."""


class SlaveSelfTokenInvalid(SlaveResponseException):
    """A request that only the slave itself may make has a wrong token."""


class SlaveSlaveAlreadyConnected(SlaveResponseException):
    """Another connection holds the slave."""


class SlaveSlaveNotConnected(SlaveResponseException):
    """No master is connected."""


class SlaveSlaveConnectionRefused(SlaveResponseException):
    """The slave raised ``ConnectionRefuse``."""


class SlaveSlaveDisconnectionRefused(SlaveResponseException):
    """The slave raised ``DisconnectionRefuse``."""


class SlaveTaskAlreadyExist(SlaveResponseException):
    """The slave runs as many tasks as it may."""


class SlaveTaskRefused(SlaveResponseException):
    """The slave raised ``TaskRefuse``."""


_CLASSES: dict[int, type[ResponseException]] = {
    SlaveErrorCode.SUCCESS: SlaveSuccess,
    SlaveErrorCode.SYSTEM_SHUTTING_DOWN: SlaveSystemShuttingDown,
    SlaveErrorCode.CHANNEL_NOT_FOUND: SlaveChannelNotFound,
    SlaveErrorCode.CHANNEL_INVALID: SlaveChannelInvalid,
    SlaveErrorCode.MASTER_TOKEN_NOT_FOUND: SlaveMasterTokenNotFound,
    SlaveErrorCode.MASTER_TOKEN_INVALID: SlaveMasterTokenInvalid,
    SlaveErrorCode.SELF_TOKEN_NOT_FOUND: SlaveSelfTokenNotFound,
    SlaveErrorCode.SELF_TOKEN_INVALID: SlaveSelfTokenInvalid,
    SlaveErrorCode.SLAVE_ALREADY_CONNECTED: SlaveSlaveAlreadyConnected,
    SlaveErrorCode.SLAVE_NOT_CONNECTED: SlaveSlaveNotConnected,
    SlaveErrorCode.SLAVE_CONNECTION_REFUSED: SlaveSlaveConnectionRefused,
    SlaveErrorCode.SLAVE_DISCONNECTION_REFUSED: SlaveSlaveDisconnectionRefused,
    SlaveErrorCode.TASK_ALREADY_EXIST: SlaveTaskAlreadyExist,
    SlaveErrorCode.TASK_REFUSED: SlaveTaskRefused,
}


def get_slave_exception_by_error(error: requests.HTTPError | ResponseValues) -> ResponseException:
    """The exception for an error answer of a slave, by the code in it."""
    values = values_of(error)
    return find_class(values, _CLASSES, SlaveResponseException)(values)
