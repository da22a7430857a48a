"""Argument errors that ``except`` clauses written for DI-engine also catch.

Each derives from the appropriate built-in exception and from the type that DI-engine raises in the same place::

    ValueError
    ├── InvalidArgumentError    also AssertionError
    └── MismatchError           also RuntimeError
    KeyError
    ├── MissingKeyError         also AssertionError
    └── UnknownKeyError         also RuntimeError
    NotImplementedError
    └── UnknownNormError        also KeyError

:class:`UserMistake` marks the errors of every package that a user can fix.
"""


class UserMistake(Exception):
    """Base class of errors that the user can fix in a config, an option or an argument. The command line prints their
    message without a traceback.
    """


class InvalidArgumentError(ValueError, AssertionError):
    """The value of an argument is not allowed."""


class MismatchError(ValueError, RuntimeError):
    """Arguments are inconsistent, or none of several alternatives is given."""


class MissingKeyError(KeyError, AssertionError):
    """A key is missing and has no default."""


class UnknownKeyError(KeyError, RuntimeError):
    """An unknown key where only known ones are allowed."""


class UnknownNormError(NotImplementedError, KeyError):
    """The normalisation is unknown."""
