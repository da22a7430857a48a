"""What a master answers when it refuses."""

from __future__ import annotations

from enum import IntEnum, unique

import requests

from ding.interaction.exception.base import ResponseException, values_of
from ding.interaction.exception.protocol import find_class
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


class MasterSuccess(MasterResponseException):
    """No error; the class completes the table."""


class MasterSystemShuttingDown(MasterResponseException):
    """The master is shutting down."""


class MasterChannelNotGiven(MasterResponseException):
    """The request has no channel."""


class MasterChannelInvalid(MasterResponseException):
    """The master listens on another channel."""


class MasterMasterTokenNotGiven(MasterResponseException):
    """The request has no token of the master."""


class MasterMasterTokenInvalid(MasterResponseException):
    """The token of the master is wrong."""


class MasterSelfTokenNotGiven(MasterResponseException):
    """A request that only the master itself may make has no token."""


class MasterSelfTokenInvalid(MasterResponseException):
    """A request that only the master itself may make has a wrong token."""


class MasterSlaveTokenNotGiven(MasterResponseException):
    """The request has no connection token."""


class MasterSlaveTokenInvalid(MasterResponseException):
    """The connection is unknown: it was never made, or it is over."""


class MasterTaskDataInvalid(MasterResponseException):
    """The message about a task is not of the right shape."""


_CLASSES: dict[int, type[ResponseException]] = {
    MasterErrorCode.SUCCESS: MasterSuccess,
    MasterErrorCode.SYSTEM_SHUTTING_DOWN: MasterSystemShuttingDown,
    MasterErrorCode.CHANNEL_NOT_GIVEN: MasterChannelNotGiven,
    MasterErrorCode.CHANNEL_INVALID: MasterChannelInvalid,
    MasterErrorCode.MASTER_TOKEN_NOT_GIVEN: MasterMasterTokenNotGiven,
    MasterErrorCode.MASTER_TOKEN_INVALID: MasterMasterTokenInvalid,
    MasterErrorCode.SELF_TOKEN_NOT_GIVEN: MasterSelfTokenNotGiven,
    MasterErrorCode.SELF_TOKEN_INVALID: MasterSelfTokenInvalid,
    MasterErrorCode.SLAVE_TOKEN_NOT_GIVEN: MasterSlaveTokenNotGiven,
    MasterErrorCode.SLAVE_TOKEN_INVALID: MasterSlaveTokenInvalid,
    MasterErrorCode.TASK_DATA_INVALID: MasterTaskDataInvalid,
}


def get_master_exception_by_error(error: requests.HTTPError | ResponseValues) -> ResponseException:
    """The exception for an error answer of a master, by the code in it."""
    values = values_of(error)
    return find_class(values, _CLASSES, MasterResponseException)(values)
