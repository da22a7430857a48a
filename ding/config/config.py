"""Reading and saving config files.

A config file is a Python module with ``main_config`` and ``create_config`` (and, for the parallel mode,
``system_config``). It is executed in place, so imports of neighbouring modules and, inside a package, relative imports
work. Executing a file is running a program: read only configs that you trust.

``save_config`` writes such a module: ``read_config`` can read it, and it runs the same experiment.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from easydict import EasyDict

from ding.config.errors import (
    ConfigError,
    ConfigNotFoundError,
    ConfigRunError,
    ConfigSuffixError,
    ConfigSyntaxError,
    ConfigValueError,
    MissingConfigError,
)
from ding.config.source import config_to_source, to_plain
from ding.utils import did_you_mean, registries
from ding.utils.file_helper import write_text
from ding.utils.import_helper import import_yaml
from ding.utils.own_code import OwnModule, execute, note_own_code


def save_config_formatted(config_: Mapping[str, Any], path: str = "formatted_total_config.py") -> None:
    """Alias of :func:`save_config_py`, whose files are always formatted."""
    save_config_py(config_, path)


class Config:
    """Public variables of a config, with their source.

    Args:
        cfg_dict: Variables by name.
        cfg_text: Source text; by default read from ``filename``.
        filename: Path of the config file.
    """

    def __init__(
        self, cfg_dict: dict[str, Any] | None = None, cfg_text: str | None = None, filename: str | None = None
    ) -> None:
        if cfg_dict is not None and not isinstance(cfg_dict, dict):
            raise TypeError(f"cfg_dict must be a dict, got {type(cfg_dict).__name__}")
        self.cfg_dict: dict[str, Any] = {} if cfg_dict is None else cfg_dict
        if cfg_text is None and filename is not None:
            cfg_text = Path(filename).read_text(encoding="utf-8")
        self.text = "" if cfg_text is None else cfg_text
        self.filename = filename

    @staticmethod
    def file_to_dict(filename: str) -> "Config":
        """Execute the ``.py`` file and return its public variables as a ``Config``.

        Raises:
            ConfigFileError: The file does not exist, or its suffix, syntax or code is invalid.
        """
        return Config(_execute(Path(filename)), filename=str(filename))


def read_config_directly(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return every public module-level variable of the config file.

    Raises:
        ConfigFileError: See ``Config.file_to_dict``.
    """
    return Config.file_to_dict(str(path)).cfg_dict


def read_config(path: str | os.PathLike[str]) -> tuple[EasyDict, EasyDict]:
    """Return ``(main_config, create_config)`` of the config file.

    Raises:
        ConfigFileError: See ``Config.file_to_dict``; a missing variable is a ``MissingConfigError``.
    """
    main, create = _read_variables(path, ("main_config", "create_config"))
    return main, create


def read_config_with_system(path: str | os.PathLike[str]) -> tuple[EasyDict, EasyDict, EasyDict]:
    """Return ``(main_config, create_config, system_config)`` of the config file.

    Raises:
        ConfigFileError: See ``Config.file_to_dict``; a missing variable is a ``MissingConfigError``.
    """
    main, create, system = _read_variables(path, ("main_config", "create_config", "system_config"))
    return main, create, system


def _read_variables(path: str | os.PathLike[str], names: tuple[str, ...]) -> list[EasyDict]:
    variables = read_config_directly(path)
    found = []
    for name in names:
        if name not in variables:
            hint = did_you_mean(name, [key for key, value in variables.items() if isinstance(value, dict)])
            if name == "system_config":
                hint = " A config without it is one of the serial mode: run it with ding -m serial (serial_pipeline)."
            raise MissingConfigError(f"{path}: the file defines no `{name}`.{hint}")
        if not isinstance(variables[name], dict):
            raise MissingConfigError(f"{path}: `{name}` must be a dict, got {type(variables[name]).__name__}")
        found.append(variables[name] if isinstance(variables[name], EasyDict) else EasyDict(variables[name]))
    return found


class _UncachedLoader(SourceFileLoader):
    """Recompiles the file each time: cached bytecode would hide an edit within the clock's resolution."""

    def get_code(self, fullname: str) -> CodeType:
        source_path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(source_path), source_path)


def _execute(path: Path) -> dict[str, Any]:
    if path.suffix != ".py":
        raise ConfigSuffixError(f"{path}: a config file ends in .py, got {path.suffix or 'no suffix'!r}")
    if not path.is_file():
        raise ConfigNotFoundError(f"{path}: there is no such config file")
    root, name = _dotted_name(path.resolve())
    known = _registrations()
    with _search_path(root, path.resolve().parent):
        module = _run_module(path, name)
    if _registrations() > known:
        # Child processes need the registrations of the file.
        note_own_code(OwnModule(path.stem, str(path.resolve()), by_path=True))
    return {k: v for k, v in vars(module).items() if not k.startswith("_")}


def _registrations() -> int:
    """Return the number of names registered with the library, and of envs registered with Gymnasium."""
    gymnasium = sys.modules.get("gymnasium")
    return sum(map(len, registries.values())) + (0 if gymnasium is None else len(gymnasium.registry))


def _dotted_name(path: Path) -> tuple[Path, str]:
    """Return the folder above the outermost package that holds ``path`` and the module name below it."""
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


@contextmanager
def _search_path(*folders: Path) -> Iterator[None]:
    # At the end of the path: a config next to a file named like an installed package must not shadow that package.
    added = [str(folder) for folder in dict.fromkeys(folders) if str(folder) not in sys.path]
    sys.path.extend(added)
    try:
        yield
    finally:
        for entry in added:
            if entry in sys.path:
                sys.path.remove(entry)


def _run_module(path: Path, name: str) -> ModuleType:
    loader = _UncachedLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise ConfigRunError(f"{path}: the file cannot be loaded as a module")
    module = importlib.util.module_from_spec(spec)
    try:
        if "." in name:
            importlib.import_module(name.rpartition(".")[0])
        execute(path, module, loader.exec_module)
    except SyntaxError as error:
        raise ConfigSyntaxError(f"{error.filename or path}:{error.lineno}: syntax error: {error.msg}") from error
    except ConfigError:
        raise
    except Exception as error:  # any error of the user's code
        where = _last_line_in(path, error)
        raise ConfigRunError(f"{path}{where}: {type(error).__name__}: {error}") from error
    return module


def _last_line_in(path: Path, error: BaseException) -> str:
    line, frame = None, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == str(path):
            line = frame.tb_lineno
        frame = frame.tb_next
    return "" if line is None else f":{line}"


def save_config(
    config_: Mapping[str, Any],
    path: str | os.PathLike[str],
    type_: str = "py",
    save_formatted: bool = False,
    create_cfg: Mapping[str, Any] | None = None,
    strict: bool = True,
) -> None:
    """Write a compiled config.

    Args:
        config_: Config to write.
        path: Target file, replaced atomically.
        type_: ``'py'`` or ``'yaml'``.
        save_formatted: Also write ``formatted_<name>`` next to it, a config file that is also a script (``'py'`` only).
        create_cfg: Create config; by default derived from the types in ``config_``.
        strict: Raise for a value without faithful source text; otherwise the file contains a call that raises, with the
            key and the reason, when the file is read.

    Raises:
        ConfigValueError: ``type_`` is unknown.
        ConfigNotSerializableError: ``strict`` and a value (a lambda, an open file, ...) cannot be written.
    """
    if type_ == "yaml":
        save_config_yaml(config_, path)
    elif type_ == "py":
        write_text(path, config_to_source(config_, create_cfg, strict=strict, script=False))
        if save_formatted:
            formatted = Path(path).with_name(f"formatted_{Path(path).name}")
            write_text(formatted, config_to_source(config_, create_cfg, strict=strict, script=True))
    else:
        raise ConfigValueError(f"save_config: type_ must be 'py' or 'yaml', got {type_!r}")


def save_config_py(config_: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write ``config_`` as a Python config file.

    Raises:
        ConfigNotSerializableError: A value cannot be written as source text.
    """
    save_config(config_, path)


def read_config_yaml(path: str | os.PathLike[str]) -> EasyDict:
    """Read a yaml config with the safe loader (plain data only).

    Raises:
        ImportError: PyYAML is not installed.
        ConfigFileError: The file does not exist, is not valid YAML, or is not a mapping.
    """
    yaml = import_yaml()
    if not Path(path).is_file():
        raise ConfigNotFoundError(f"{path}: there is no such config file")
    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigSyntaxError(f"{path}: not valid yaml: {' '.join(str(error).split())}") from error
    if not isinstance(data, dict):
        raise MissingConfigError(f"{path}: the file must hold a mapping, got {type(data).__name__}")
    return EasyDict(data)


def save_config_yaml(config_: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write plain data (numbers, strings, lists, dicts) as YAML; tuples become lists, as YAML has no tuples.

    Raises:
        ImportError: PyYAML is not installed.
        ConfigNotSerializableError: A value has no plain form.
    """
    yaml = import_yaml()
    write_text(path, yaml.safe_dump(to_plain(config_), sort_keys=False))
