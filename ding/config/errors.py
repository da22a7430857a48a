"""Config errors as one tree.

::

    ConfigError
    |-- ConfigFileError                      a config file cannot be used
    |   |-- ConfigSuffixError (KeyError)     neither .py nor, for the YAML readers, .yaml
    |   |-- ConfigNotFoundError (FileNotFoundError)
    |   |-- ConfigSyntaxError                the file is not valid Python
    |   |-- ConfigRunError                   the file is valid but raises an error
    |   `-- MissingConfigError (AssertionError)   main_config, create_config or system_config is missing
    |-- UnknownTypeError (KeyError)          a ``type`` is not registered
    |-- ConfigImportError (ImportError)      an entry of ``import_names`` cannot be imported
    |-- UnknownKeyError                      a key is misspelt or unused: in strict mode, in an override, or a whole
    |                                        section
    |-- ConfigTrustError                     another user's run needs code, which only --trust imports
    |-- ConfigValueError (AssertionError)    a key is missing or has an invalid value
    |   `-- ModelConfigError (ValueError)    arguments do not fit a network
    |-- ExperimentDirError (OSError)         the experiment folder cannot be created
    `-- ConfigNotSerializableError (TypeError)    a value has no faithful source text

    The built-in base class is the one that DI-engine raises in the same place, so scripts that catch it keep working.
    Every message names the key or the file, and the closest known name.
"""

from collections.abc import Sequence

from ding.utils.errors import UserMistake


class ConfigError(UserMistake):
    """Base class of all config errors; ``str(error)`` is the message for the user."""

    def __str__(self) -> str:
        # KeyError, an additional base of some classes, would show the repr of the message.
        return " ".join(str(arg) for arg in self.args)


class ConfigFileError(ConfigError):
    """A config file cannot be used."""


class ConfigSuffixError(ConfigFileError, KeyError):
    """The file has a suffix that no reader handles."""


class ConfigNotFoundError(ConfigFileError, FileNotFoundError):
    """The file does not exist."""


class ConfigSyntaxError(ConfigFileError):
    """The file is not valid Python."""


class ConfigRunError(ConfigFileError):
    """The file raised while it was executed; the original exception is the ``__cause__``."""


class MissingConfigError(ConfigFileError, AssertionError):
    """A required variable is missing in the file, or is not a dict."""


class UnknownTypeError(ConfigError, KeyError):
    """A ``type`` is not registered."""


class ConfigImportError(ConfigError, ImportError):
    """A module named by ``import_names`` cannot be imported."""


class UnknownKeyError(ConfigError):
    """A key is misspelt or unused. ``texts`` has one sentence per key."""

    def __init__(self, message: str, texts: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.texts = texts or (message,)


class ConfigTrustError(ConfigError):
    """Loading an experiment folder requires code, and the run is not the user's own."""


class ConfigValueError(ConfigError, AssertionError):
    """A key is missing, or has an invalid value."""


class ModelConfigError(ConfigValueError, ValueError):
    """Arguments do not fit a built-in network (the network's error is the ``__cause__``)."""


class ExperimentDirError(ConfigError, OSError):
    """The experiment folder cannot be created (the original error is the ``__cause__``), or a run is active there."""


class ConfigNotSerializableError(ConfigError, TypeError):
    """A value cannot be written as source text without loss."""
