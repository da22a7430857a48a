"""Record of user code in an experiment folder."""

import ast
import hashlib
import hmac
import inspect
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from easydict import EasyDict

from ding.config.errors import ConfigError, ConfigFileError, ConfigTrustError, ConfigValueError, MissingConfigError
from ding.config.experiment_dir import OWN_CODE_FILE
from ding.config.own.needs import modules_of
from ding.config.own.signing import mac_of
from ding.config.resolve import import_names_of
from ding.config.source import raise_not_saved
from ding.utils.file_helper import write_text
from ding.utils.literals import assignments, literal_value
from ding.utils.own_code import OwnModule, module_named


@dataclass(frozen=True)
class Network:
    """Class of a network passed as ``model=``.

    Attributes:
        module: Module that defines it.
        name: Qualified name in the module.
        digest: SHA-256 of its ``repr``, which shows its layers.
        fits_config: Whether the constructor accepts the keys of ``policy.model`` as arguments.
    """

    module: str
    name: str
    digest: str
    fits_config: bool


@dataclass(frozen=True)
class RunCode:
    """User code that a run needs.

    Attributes:
        folder: Current folder of the run.
        config: Name of the config file of the record.
        modules: Modules to import, in order.
        network: Network of a run with ``model=``.
        is_own: Whether this user made the record, and neither it nor the config has changed since.
    """

    folder: str = ""
    config: str = ""
    modules: tuple[OwnModule, ...] = ()
    network: Network | None = None
    is_own: bool = False

    @property
    def command_option(self) -> str:
        """Return the option for loading the run on the command line: empty, or `` --trust``."""
        return " --trust" if self.config and not self.is_own else ""


def record_run_code(exp_dir: str | os.PathLike[str], config_name: str, configs: Sequence[Mapping[str, Any]]) -> None:
    """Record the user code that the run needs; without any, nothing is written.

    Args:
        exp_dir: Experiment folder.
        config_name: Existing config file in the folder.
        configs: The compiled config, and the others.
    """
    modules = tuple(dict.fromkeys(module for config in configs for module in modules_of(config)))
    imports = (name.partition(".")[0] for config in configs for name in import_names_of(config))
    if modules or any(root != "ding" for root in imports) or not _is_data(Path(exp_dir) / config_name):
        _write(Path(exp_dir), RunCode(os.getcwd(), config_name, modules))


def record_network(
    exp_dir: str | os.PathLike[str], config_name: str, model: object, model_cfg: Mapping[str, Any]
) -> None:
    """Add the class of a user-defined network to the record of a run; built-in networks need no record."""
    cls = type(model)
    if cls.__module__.partition(".")[0] in ("ding", "torch"):
        return
    found = module_named(cls.__module__)
    digest = hashlib.sha256(repr(model).encode()).hexdigest()
    network = Network(found.name, cls.__qualname__, digest, arguments_of(cls, model_cfg) is not None)
    modules = tuple(dict.fromkeys([*read_run_code(exp_dir).modules, found]))
    _write(Path(exp_dir), RunCode(os.getcwd(), config_name, modules, network))


def read_run_code(exp_dir: str | os.PathLike[str]) -> RunCode:
    """Return the record of a run; an empty one if there is none.

    Raises:
        ConfigValueError: The file was not written by this package.
    """
    path = Path(exp_dir) / OWN_CODE_FILE
    if not path.is_file():
        return RunCode()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        network = None if data["network"] is None else Network(**data["network"])
        modules = tuple(OwnModule(**one) for one in data["modules"])
        config, mac = os.path.basename(data["config"]), data.pop("mac")
        is_own = hmac.compare_digest(mac, mac_of(data, Path(exp_dir) / config, make_key=False))
        return RunCode(data["folder"], config, modules, network, is_own)
    except (ValueError, LookupError, TypeError, AttributeError, OSError) as error:
        raise ConfigValueError(f"{path} is damaged: {error}") from error


def config_as_data(path: Path, name: str) -> EasyDict:
    """Return a dict of a config file without executing the file.

    Raises:
        ConfigFileError: The file is not Python, or has no such dict.
        ConfigTrustError: The dict, or a value in it, is code.
    """
    try:
        assigned = assignments(path)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ConfigFileError(f"{path} is no config file: {error}") from error
    node = assigned.get(name)
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.Name):
        node = assigned.get(node.id)
    if node is None:
        raise MissingConfigError(f"{path}: the file defines no `{name}`")
    if not isinstance(node, ast.Dict):
        raise refusal_of(path, f"has no {name} that can be read as data")

    def refuse(part: ast.expr, where: str) -> None:
        if isinstance(part, ast.Call) and ast.unparse(part.func).endswith(f".{raise_not_saved.__name__}"):
            raise_not_saved(*map(ast.literal_eval, part.args))
        raise refusal_of(path, f"cannot be read as data: {where} is code")

    return EasyDict(literal_value(node, refuse, name))


def _is_data(path: Path) -> bool:
    """Return whether a config file contains no code."""
    try:
        return all(config_as_data(path, name) is not None for name in ("main_config", "create_config"))
    except ConfigError:
        return False


def refusal_of(path: Path, what: str) -> ConfigTrustError:
    return ConfigTrustError(
        f"{path} {what}; with trust_config=True (--trust) that is run. The run is not your own, which is one of this "
        "user on this machine, with a config that has not changed since"
    )


def arguments_of(cls: type, model_cfg: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the keys of ``policy.model`` that the constructor accepts; ``None`` if it cannot be called with them."""
    signature = inspect.signature(cls)
    takes_all = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
    kept = {key: value for key, value in model_cfg.items() if takes_all or key in signature.parameters}
    try:
        signature.bind(**kept)
    except TypeError:
        return None
    return kept


def _write(exp_dir: Path, code: RunCode) -> None:
    data = {
        "folder": code.folder,
        "config": code.config,
        "modules": [module._asdict() for module in code.modules],
        "network": None if code.network is None else asdict(code.network),
    }
    data["mac"] = mac_of(data, exp_dir / code.config, make_key=True)
    write_text(exp_dir / OWN_CODE_FILE, json.dumps(data, indent=2) + "\n")
