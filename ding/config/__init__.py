"""Reading, compiling, checking and saving configs (floor 3). The errors are drawn in `ding.config.errors`."""

from typing import Any

from ding.config.compile import compile_buffer_config, compile_config
from ding.config.config import (
    Config,
    read_config,
    read_config_directly,
    read_config_with_system,
    read_config_yaml,
    save_config,
    save_config_py,
    save_config_yaml,
)
from ding.config.errors import (
    ConfigError,
    ConfigFileError,
    ConfigImportError,
    ConfigNotFoundError,
    ConfigNotSerializableError,
    ConfigRunError,
    ConfigSuffixError,
    ConfigSyntaxError,
    ConfigValueError,
    MissingConfigError,
    UnknownKeyError,
    UnknownTypeError,
)

__all__ = [
    "Config",
    "ConfigError",
    "ConfigFileError",
    "ConfigImportError",
    "ConfigNotFoundError",
    "ConfigNotSerializableError",
    "ConfigRunError",
    "ConfigSuffixError",
    "ConfigSyntaxError",
    "ConfigValueError",
    "MissingConfigError",
    "UnknownKeyError",
    "UnknownTypeError",
    "compile_buffer_config",
    "compile_config",
    "read_config",
    "read_config_directly",
    "read_config_with_system",
    "read_config_yaml",
    "save_config",
    "save_config_py",
    "save_config_yaml",
]

_PARALLEL_MODE = (
    "compile_config_parallel",
    "parallel_transform",
    "parallel_transform_k8s",
    "parallel_transform_slurm",
    "set_host_port",
    "set_system_cfg",
)


def __getattr__(name: str) -> Any:
    if name in _PARALLEL_MODE:
        raise ImportError(
            f"ding.config.{name} belongs to the parallel mode, which this version does not have", name=name
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
