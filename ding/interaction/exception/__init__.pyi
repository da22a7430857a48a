from requests import HTTPError as HTTPError

from ding.interaction.errors import ConnectionLost as ConnectionLost
from ding.interaction.errors import ConnectTimeout as ConnectTimeout
from ding.interaction.errors import InteractionError as InteractionError
from ding.interaction.errors import PortTakenError as PortTakenError
from ding.interaction.errors import SchemaError as SchemaError
from ding.interaction.errors import ServiceClosed as ServiceClosed
from ding.interaction.errors import TaskTimeout as TaskTimeout
from ding.interaction.errors import TokenFileError as TokenFileError
from ding.interaction.errors import UnreachableError as UnreachableError
from ding.interaction.errors import UnsafeBindError as UnsafeBindError
from ding.interaction.errors import WireError as WireError
from ding.interaction.exception.response import BodyInvalid as BodyInvalid
from ding.interaction.exception.response import BodyTooLarge as BodyTooLarge
from ding.interaction.exception.response import EnrolLater as EnrolLater
from ding.interaction.exception.response import EnrolRefused as EnrolRefused
from ding.interaction.exception.response import HeadersTooLarge as HeadersTooLarge
from ding.interaction.exception.response import IncarnationFenced as IncarnationFenced
from ding.interaction.exception.response import InternalError as InternalError
from ding.interaction.exception.response import MasterChannelInvalid as MasterChannelInvalid
from ding.interaction.exception.response import MasterChannelNotGiven as MasterChannelNotGiven
from ding.interaction.exception.response import MasterErrorCode as MasterErrorCode
from ding.interaction.exception.response import MasterMasterTokenInvalid as MasterMasterTokenInvalid
from ding.interaction.exception.response import MasterMasterTokenNotGiven as MasterMasterTokenNotGiven
from ding.interaction.exception.response import MasterResponseException as MasterResponseException
from ding.interaction.exception.response import MasterSelfTokenInvalid as MasterSelfTokenInvalid
from ding.interaction.exception.response import MasterSelfTokenNotGiven as MasterSelfTokenNotGiven
from ding.interaction.exception.response import MasterSlaveTokenInvalid as MasterSlaveTokenInvalid
from ding.interaction.exception.response import MasterSlaveTokenNotGiven as MasterSlaveTokenNotGiven
from ding.interaction.exception.response import MasterSuccess as MasterSuccess
from ding.interaction.exception.response import MasterSystemShuttingDown as MasterSystemShuttingDown
from ding.interaction.exception.response import MasterTaskDataInvalid as MasterTaskDataInvalid
from ding.interaction.exception.response import MethodNotAllowed as MethodNotAllowed
from ding.interaction.exception.response import ProtocolErrorCode as ProtocolErrorCode
from ding.interaction.exception.response import ProtocolResponseException as ProtocolResponseException
from ding.interaction.exception.response import RequestInvalid as RequestInvalid
from ding.interaction.exception.response import RequestTimedOut as RequestTimedOut
from ding.interaction.exception.response import ResponseException as ResponseException
from ding.interaction.exception.response import RouteNotFound as RouteNotFound
from ding.interaction.exception.response import RunTokenInvalid as RunTokenInvalid
from ding.interaction.exception.response import RunTokenNotGiven as RunTokenNotGiven
from ding.interaction.exception.response import SlaveChannelInvalid as SlaveChannelInvalid
from ding.interaction.exception.response import SlaveChannelNotFound as SlaveChannelNotFound
from ding.interaction.exception.response import SlaveErrorCode as SlaveErrorCode
from ding.interaction.exception.response import SlaveMasterTokenInvalid as SlaveMasterTokenInvalid
from ding.interaction.exception.response import SlaveMasterTokenNotFound as SlaveMasterTokenNotFound
from ding.interaction.exception.response import SlaveResponseException as SlaveResponseException
from ding.interaction.exception.response import SlaveSelfTokenInvalid as SlaveSelfTokenInvalid
from ding.interaction.exception.response import SlaveSelfTokenNotFound as SlaveSelfTokenNotFound
from ding.interaction.exception.response import SlaveSlaveAlreadyConnected as SlaveSlaveAlreadyConnected
from ding.interaction.exception.response import SlaveSlaveConnectionRefused as SlaveSlaveConnectionRefused
from ding.interaction.exception.response import SlaveSlaveDisconnectionRefused as SlaveSlaveDisconnectionRefused
from ding.interaction.exception.response import SlaveSlaveNotConnected as SlaveSlaveNotConnected
from ding.interaction.exception.response import SlaveSuccess as SlaveSuccess
from ding.interaction.exception.response import SlaveSystemShuttingDown as SlaveSystemShuttingDown
from ding.interaction.exception.response import SlaveTaskAlreadyExist as SlaveTaskAlreadyExist
from ding.interaction.exception.response import SlaveTaskRefused as SlaveTaskRefused
from ding.interaction.exception.response import get_master_exception_by_error as get_master_exception_by_error
from ding.interaction.exception.response import (
    get_master_exception_class_by_error_code as get_master_exception_class_by_error_code,
)
from ding.interaction.exception.response import get_slave_exception_by_error as get_slave_exception_by_error
from ding.interaction.exception.response import (
    get_slave_exception_class_by_error_code as get_slave_exception_class_by_error_code,
)
