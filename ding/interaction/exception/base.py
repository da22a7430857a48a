"""What can go wrong on the control plane.

Exceptions::

    Exception
    └── InteractionError
        ├── ResponseException              the peer answered with an error; has status_code, code, message, data
        │   ├── MasterResponseException    ... one class per MasterErrorCode (exception/master.py)
        │   ├── SlaveResponseException     ... one class per SlaveErrorCode (exception/slave.py)
        │   └── ProtocolResponseException  ... one class per ProtocolErrorCode (exception/protocol.py)
        ├── UnreachableError               no answer: refused, reset, timed out (also a requests ConnectionError)
        ├── ConnectionLost                 the connection to a slave is over (also a ConnectionError)
        ├── ServiceClosed                  the service was shut down (also a RuntimeError)
        ├── TaskTimeout                    a task is not over in time (also a TimeoutError)
        ├── ConnectTimeout                 no master connected in time (also a TimeoutError)
        ├── PortTakenError                 the port to listen on is in use (also an OSError)
        ├── UnsafeBindError                would listen to other hosts without a token (also a ValueError)
        ├── TokenFileError                 a token file that others may read, or without a token (also a ValueError)
        ├── WireError                      a value that is no JSON, or too deep (also a ValueError)
        └── SchemaError                    a message of the wrong shape (also a ValueError)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import requests

from ding.interaction.values import ResponseValues, get_values_from_response


class InteractionError(Exception):
    """Anything that goes wrong on the control plane."""


def values_of(error: requests.HTTPError | ResponseValues) -> ResponseValues:
    """The values of the answer behind an error.

    Raises:
        ValueError: the error carries no response, or one that is no answer of the protocol.
    """
    if isinstance(error, ResponseValues):
        return error
    if error.response is None:
        raise ValueError("an HTTPError without a response says nothing about the peer's answer")
    return get_values_from_response(error.response)


class ResponseException(InteractionError):
    """The peer answered with an error.

    Made from the ``requests.HTTPError`` of the response, or from the five values of one
    (``ResponseValues``), which is how a transport that is not HTTP makes it.
    """

    def __init__(self, error: requests.HTTPError | ResponseValues) -> None:
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
        """The number of the error, a value of one of the error enums."""
        return self._values.code

    @property
    def message(self) -> str:
        """One sentence."""
        return self._values.message

    @property
    def data(self) -> Mapping[str, Any]:
        """What the peer adds to the sentence; an empty dict when nothing."""
        return self._values.data or {}


class UnreachableError(InteractionError, requests.exceptions.ConnectionError):
    """The peer gave no answer: connection refused or reset, a timeout, or an answer that is no JSON."""


class ConnectionLost(InteractionError, ConnectionError):
    """The connection to a slave is over; its tasks have failed."""


class ServiceClosed(InteractionError, RuntimeError):
    """The service was shut down, or was never started."""


class TaskTimeout(InteractionError, TimeoutError):
    """A task is not over within the time given."""


class ConnectTimeout(InteractionError, TimeoutError):
    """No master connected within the time given."""


class PortTakenError(InteractionError, OSError):
    """The port to listen on is in use; the message names it."""


class UnsafeBindError(InteractionError, ValueError):
    """The address can be reached from other hosts, and there is no run token."""


class TokenFileError(InteractionError, ValueError):
    """A token file that others may read, or that holds no token."""


class WireError(InteractionError, ValueError):
    """A value that cannot be sent as JSON, or a body that is no JSON."""


class SchemaError(InteractionError, ValueError):
    """A message of the wrong shape; the message says where and what was expected."""
