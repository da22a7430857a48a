"""Errors of the buffers.

::

    DataError └── SampleError (ValueError)                 a buffer cannot serve the request
        ├── NotEnoughDataError                   fewer records or groups than requested │   └── EmptyBufferError
        (AssertionError)    a draw by priority from an empty buffer ├── UnknownIndexError (KeyError)         no
        candidate has the index └── SampleArgumentError (AssertionError) arguments missing, out of range or mutually
        exclusive

All derive from ``ValueError``, so code that waits for data needs to catch only one type.
"""

from ding.data.columns import DataError


class SampleError(DataError, ValueError):
    """A buffer cannot serve the request."""


class NotEnoughDataError(SampleError):
    """There are fewer records or groups than requested; the message has both numbers."""


class EmptyBufferError(NotEnoughDataError, AssertionError):
    """A draw by priority from an empty buffer."""


class UnknownIndexError(SampleError, KeyError):
    """No candidate has the index. ``str()`` is the plain message."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SampleArgumentError(SampleError, AssertionError):
    """Arguments are missing, out of range or mutually exclusive. Also an ``AssertionError`` by public contract."""
