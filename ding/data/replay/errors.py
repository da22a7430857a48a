"""Errors of the replay buffers.

::

    ReplayBufferError ├── BufferArgumentError (ValueError)        invalid sizes, ranges or priorities │   └──
    BufferConfigError (AssertionError)  a config value out of its range ├── BufferClosedError (RuntimeError)        the
    buffer or limiter was closed └── RateLimitTimeout (TimeoutError)         a wait for the rate limiter reached its
    deadline

Rows that do not match the stored ones raise :class:`ding.data.SchemaError`, broken files
:class:`ding.data.safe_file.SafeFileError`; both are ``ValueError`` too.
"""

from ding.utils.errors import UserMistake


class ReplayBufferError(Exception):
    """Base class of the errors of :mod:`ding.data.replay` and :mod:`ding.worker.replay_buffer`."""


class BufferArgumentError(ReplayBufferError, ValueError):
    """A size, range, priority or config value that makes no sense; the message names it."""


class BufferConfigError(BufferArgumentError, AssertionError, UserMistake):
    """A config value out of its range (an ``AssertionError`` too, as in DI-engine)."""


class BufferClosedError(ReplayBufferError, RuntimeError):
    """The buffer was closed."""


class RateLimitTimeout(ReplayBufferError, TimeoutError):
    """A wait for the rate limiter reached its deadline."""
