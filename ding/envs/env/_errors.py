"""What can be wrong with the ``env`` section of a config; a branch of the tree in `ding.config.errors`."""

from ding.config import ConfigError


class EnvConfigError(ConfigError, KeyError, ValueError):
    """A key of the env config is missing, or names an env that is not there.

    The built-in bases are what DI-engine raises in the same places.
    """
