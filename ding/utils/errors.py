"""Errors of arguments that ``except`` clauses written for DI-engine catch, too.

Each is what Python calls the mistake and also the type that DI-engine raises in the same place::

    ValueError
    ├── InvalidArgumentError    also AssertionError
    └── MismatchError           also RuntimeError
    KeyError
    ├── MissingKeyError         also AssertionError
    └── UnknownKeyError         also RuntimeError
    NotImplementedError
    └── UnknownNormError        also KeyError

:class:`UserMistake` marks the errors of every package that a user can put right.
"""


class UserMistake(Exception):
    """A base of errors that the user can put right in a config, an option or an argument: their sentence is enough, and
    the command line shows no traceback.
    """


class InvalidArgumentError(ValueError, AssertionError):
    """The value of an argument is not one that is allowed."""


class MismatchError(ValueError, RuntimeError):
    """Arguments do not fit each other, or none of those is given of which one is needed."""


class MissingKeyError(KeyError, AssertionError):
    """A key is missing and has no default."""


class UnknownKeyError(KeyError, RuntimeError):
    """A key is new where only known ones are allowed."""


class UnknownNormError(NotImplementedError, KeyError):
    """No normalisation has this name."""
