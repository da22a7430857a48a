"""Errors of the buffers.

::

    DataError
    └── SampleError (ValueError)                 a buffer cannot return or store what a call wants
        ├── NotEnoughDataError                   fewer records or groups than were asked for
        │   └── EmptyBufferError (AssertionError)    a draw by priority from an empty buffer
        ├── UnknownIndexError (KeyError)         an index that no record among the candidates has
        └── SampleArgumentError (AssertionError) arguments that are missing, out of range, or exclude each other

All of them are ``ValueError``, so that who waits for data needs to catch one type only.
"""

from ding.data.columns import DataError


class SampleError(DataError, ValueError):
    """A buffer cannot return or store what a call wants."""


class NotEnoughDataError(SampleError):
    """There are fewer records or groups than requested; the message has both numbers."""


class EmptyBufferError(NotEnoughDataError, AssertionError):
    """A draw by priority from an empty buffer."""


class UnknownIndexError(SampleError, KeyError):
    """An index that no record among the candidates has. ``str()`` is the plain message."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SampleArgumentError(SampleError, AssertionError):
    """Arguments that are missing, out of range, or exclude each other (an ``AssertionError`` by public contract)."""
