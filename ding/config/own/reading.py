"""Configs, modules and networks of runs to be loaded."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from easydict import EasyDict

from ding.config.config import read_config_directly
from ding.config.errors import ConfigTrustError, ConfigValueError, MissingConfigError
from ding.config.experiment_dir import OWN_CODE_FILE
from ding.config.own.needs import foreign_imports
from ding.config.own.record import RunCode, arguments_of, config_as_data, read_run_code, refusal_of
from ding.utils.own_code import OwnModule, import_own_code, is_loaded, loaded

if TYPE_CHECKING:
    from torch import nn


def read_run_config(
    path: Path, names: Sequence[str] = ("main_config", "create_config"), trust: bool = False
) -> list[EasyDict]:
    """Return variables of the config in an experiment folder, after importing the modules that the run needs.

    Args:
        path: Config file in its experiment folder.
        names: Names of the variables.
        trust: Run code named in the folder, even if the run is not the user's own.

    Raises:
        ConfigTrustError: Code is needed, but the run is not the user's own and ``trust`` is not set.
        ConfigFileError: The file is not a config.
        OwnCodeError: A module is missing, or raises an error.
    """
    code = read_run_code(path.parent)
    trusted = trust or (code.is_own and code.config == path.name)
    missing = [module.name for module in code.modules if not is_loaded(module)]
    if missing and not trusted:
        raise refusal_of(path, f"needs the module {', '.join(missing)}")
    import_run_code(path.parent, code)
    try:
        configs = [config_as_data(path, name) for name in names]
        foreign = sorted(set(foreign_imports(configs)))
        if foreign and not trusted:
            raise refusal_of(path, f"wants to import {', '.join(foreign)}")
    except ConfigTrustError:
        if not trusted:
            raise
        variables = read_config_directly(path)
        absent = [name for name in names if name not in variables]
        if absent:
            raise MissingConfigError(f"{path}: the file defines no `{absent[0]}`") from None
        configs = [EasyDict(variables[name]) for name in names]
    return configs


def import_run_code(exp_dir: str | os.PathLike[str], code: RunCode) -> None:
    """Import the modules of a record from their original location or, for a moved folder, from here.

    Raises:
        OwnCodeError: A module is missing, or raises an error.
    """
    import_own_code(module._replace(file=_located(module, code, Path(exp_dir))) for module in code.modules)


def import_if_own(config: str | os.PathLike[str]) -> None:
    """Import the modules needed by a config that is about to be run, if the run is the user's own."""
    folder = Path(config).parent
    if (folder / OWN_CODE_FILE).is_file():
        code = read_run_code(folder)
        if code.is_own:
            import_run_code(folder, code)


def build_network(exp_dir: str | os.PathLike[str], model_cfg: Mapping[str, Any]) -> "nn.Module | None":
    """Create the network of a run with ``model=`` from ``policy.model``; return ``None`` for a run without it.

    Args:
        exp_dir: Experiment folder; its modules were imported by :func:`read_run_config`.
        model_cfg: ``policy.model`` of its config.

    Raises:
        ConfigValueError: The class is not found, or ``policy.model`` does not create the same network.
    """
    code = read_run_code(exp_dir)
    network = code.network
    if network is None:
        return None
    module = next((one for one in code.modules if one.name == network.module), OwnModule(network.module))
    cls: Any = loaded(module._replace(file=_located(module, code, Path(exp_dir))))
    for part in network.name.split("."):
        cls = getattr(cls, part, None)
    where = f"{exp_dir}: the network {network.name} of {network.module}"
    advice = "hand it in: ding.load(exp_dir, model=...)"
    if cls is None:
        raise ConfigValueError(f"{where}, which was handed in as model=, is not found; {advice}")
    arguments = arguments_of(cls, model_cfg)
    if arguments is None:
        raise ConfigValueError(
            f"{where} was handed in as model=, and policy.model does not say how to make it; {advice}"
        )
    made: nn.Module = cls(**arguments)
    if hashlib.sha256(repr(made).encode()).hexdigest() != network.digest:
        raise ConfigValueError(f"{where} has other layers when it is made from policy.model than in the run; {advice}")
    return made


def _located(module: OwnModule, code: RunCode, exp_dir: Path) -> str:
    """Return the current path of a module's file; a folder of another machine is resolved below the current folder."""
    if code.is_own or not module.file or os.path.exists(module.file):
        return module.file
    inside = os.path.relpath(module.file, code.folder)
    places = (Path.cwd() / inside, exp_dir.absolute().parent / inside)
    return str(next((place for place in places if place.exists()), module.file))
