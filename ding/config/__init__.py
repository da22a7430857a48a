"""Reading, compiling, checking and saving configs (floor 3). The errors are drawn in `ding.config.errors`."""

from ding.config.compile import compile_buffer_config, compile_config
from ding.config.compile_parallel import compile_config_parallel
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
from ding.config.utils import (
    parallel_transform,
    parallel_transform_k8s,
    parallel_transform_slurm,
    set_host_port,
    set_system_cfg,
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
    "compile_config_parallel",
    "parallel_transform",
    "parallel_transform_k8s",
    "parallel_transform_slurm",
    "read_config",
    "read_config_directly",
    "read_config_with_system",
    "read_config_yaml",
    "save_config",
    "save_config_py",
    "save_config_yaml",
    "set_host_port",
    "set_system_cfg",
]
