"""What can be wrong with a config, as one tree.

::

    ConfigError
    |-- ConfigFileError                      a config file cannot be used
    |   |-- ConfigSuffixError (KeyError)     neither .py nor, for the yaml readers, .yaml
    |   |-- ConfigNotFoundError (FileNotFoundError)
    |   |-- ConfigSyntaxError                the file is not valid Python
    |   |-- ConfigRunError                   the file is valid but fails while it runs
    |   `-- MissingConfigError (AssertionError)   main_config, create_config or system_config is not there
    |-- UnknownTypeError (KeyError)          a ``type`` that no registry knows
    |-- ConfigImportError (ImportError)      an entry of ``import_names`` cannot be imported
    |-- UnknownKeyError                      a misspelt key, or one that nobody reads: in strict mode, of an override,
    |                                        or of a whole section
    |-- ConfigTrustError                     a run of others needs code that only --trust imports
    |-- ConfigValueError (AssertionError)    a key is missing or holds what it cannot hold
    |   `-- ModelConfigError (ValueError)    arguments of a network that do not fit
    |-- ExperimentDirError (OSError)         the experiment folder cannot be made
    `-- ConfigNotSerializableError (TypeError)    a value that has no faithful source text

The built-in base beside a class is what DI-engine raises in the same place; scripts that catch it go on working.
Every message names the key or the file, and the nearest known name.
"""

from collections.abc import Sequence

from ding.utils.errors import UserMistake


class ConfigError(UserMistake):
    """Base of everything that is wrong with a config; ``str(error)`` is the message for the user."""

    def __str__(self) -> str:
        # KeyError, an additional base of some, would show the repr of the message.
        return " ".join(str(arg) for arg in self.args)


class ConfigFileError(ConfigError):
    """A config file cannot be used."""


class ConfigSuffixError(ConfigFileError, KeyError):
    """The file has a suffix that no reader handles."""


class ConfigNotFoundError(ConfigFileError, FileNotFoundError):
    """There is no such file."""


class ConfigSyntaxError(ConfigFileError):
    """The file is not valid Python."""


class ConfigRunError(ConfigFileError):
    """The file raised while it was executed; the original exception is the ``__cause__``."""


class MissingConfigError(ConfigFileError, AssertionError):
    """A variable that must be in the file is not there, or is not a dict."""


class UnknownTypeError(ConfigError, KeyError):
    """A ``type`` that no registry knows."""


class ConfigImportError(ConfigError, ImportError):
    """A module named by ``import_names`` cannot be imported."""


class UnknownKeyError(ConfigError):
    """A key is misspelt, or nobody reads it. ``texts`` has a sentence for each one."""

    def __init__(self, message: str, texts: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.texts = texts or (message,)


class ConfigTrustError(ConfigError):
    """An experiment folder needs code to be loaded, and is not the user's own."""


class ConfigValueError(ConfigError, AssertionError):
    """A key is missing, or holds something it cannot hold."""


class ModelConfigError(ConfigValueError, ValueError):
    """Arguments of a built-in network that do not fit (what the network raised is the ``__cause__``)."""


class ExperimentDirError(ConfigError, OSError):
    """The experiment folder cannot be made (the original exception is the ``__cause__``), or a run lasts there."""


class ConfigNotSerializableError(ConfigError, TypeError):
    """A value that cannot be written as source text without loss."""
