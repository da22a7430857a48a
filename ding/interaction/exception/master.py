"""What a master answers when it refuses."""

from __future__ import annotations

from enum import IntEnum, unique

from ding.interaction.exception.protocol import ProtocolResponseException
from ding.interaction.exception.response import ErrorWithResponse, ResponseException, exception_of
from ding.interaction.values import ResponseValues


@unique
class MasterErrorCode(IntEnum):
    """Codes in the answers of a master."""

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
    """The connection is unknown: it was never made, or it is over."""


class MasterTaskDataInvalid(MasterResponseException, code=MasterErrorCode.TASK_DATA_INVALID):
    """The message about a task is not of the right shape."""


def get_master_exception_by_error(error: ErrorWithResponse | ResponseValues) -> ResponseException:
    """The exception for an error answer of a master, by the code in it."""
    return exception_of(error, MasterResponseException, ProtocolResponseException)
