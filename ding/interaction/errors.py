"""Errors of the control plane.

Exceptions::

    Exception
    └── InteractionError
        ├── ResponseException              the peer answered with an error; has status_code, code, message, data │   ├──
        MasterResponseException    ... one class per MasterErrorCode (exception/response.py) │   ├──
        SlaveResponseException     ... one class per SlaveErrorCode (same module) │   └── ProtocolResponseException  ...
        one class per ProtocolErrorCode (same module) ├── UnreachableError               no answer: refused, reset,
        timed out (also a ConnectionError) ├── ConnectionLost                 the connection to a slave has ended (also
        a ConnectionError) ├── ServiceClosed                  the service was shut down (also a RuntimeError) ├──
        TaskTimeout                    a task did not end in time (also a TimeoutError) ├── ConnectTimeout
        no master connected in time (also a TimeoutError) ├── PortTakenError                 the port to listen on is in
        use (also an OSError) ├── UnsafeBindError                would listen to other hosts without a token (also a
        ValueError) ├── TokenFileError                 a token file readable by others, or without a token (also a
        ValueError) ├── WireError                      a value that is not JSON, or too deep (also a ValueError) └──
        SchemaError                    a message of the wrong shape (also a ValueError)

``HttpEngine`` raises ``requests.HTTPError`` for an error answer; its ``UnreachableError`` is a
``requests.ConnectionError``, too.
"""


class InteractionError(Exception):
    """Base class of the errors of the control plane."""


class UnreachableError(InteractionError, ConnectionError):
    """The peer did not answer: connection refused or reset, a time-out, or an answer that is not JSON."""


class ConnectionLost(InteractionError, ConnectionError):
    """The connection to a slave has ended; its tasks have failed."""


class ServiceClosed(InteractionError, RuntimeError):
    """The service was shut down, or was never started."""


class TaskTimeout(InteractionError, TimeoutError):
    """A task did not end within the time given."""


class ConnectTimeout(InteractionError, TimeoutError):
    """No master connected within the time given."""


class PortTakenError(InteractionError, OSError):
    """The port to listen on is in use; the message names it."""


class UnsafeBindError(InteractionError, ValueError):
    """The address can be reached from other hosts, and there is no run token."""


class TokenFileError(InteractionError, ValueError):
    """A token file that others may read, or that contains no token."""


class WireError(InteractionError, ValueError):
    """A value cannot be sent as JSON, or a body is not JSON."""


class SchemaError(InteractionError, ValueError):
    """A message has the wrong shape; the error names the field and the expected value."""
