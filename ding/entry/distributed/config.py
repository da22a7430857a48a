"""Inputs of the roles of a run over several machines: config, addresses, ports and token."""

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easydict import EasyDict

from ding.config import ConfigValueError, compile_config_parallel, read_config_with_system
from ding.config.experiment_dir import ExperimentLock
from ding.config.overrides import apply_overrides
from ding.config.utils import env_number
from ding.entry.parallel.places import set_folder
from ding.interaction import read_run_token, write_run_token
from ding.utils.credentials import RUN_TOKEN_VARIABLE, own_token
from ding.utils.file_helper import write_text

PREPARED_SUFFIX = ".dist.json"
PATIENCE_S = 60.0
FIRST_CONTACT_S = 25.0
_ADDRESS_KEYS = ("coordinator_host", "learner_host", "collector_host")
_PORT_KEYS = ("coordinator_port", "learner_port", "collector_port")


@dataclass(frozen=True)
class WorkerOptions:
    """Options of all workers of a run over several machines, besides the config.

    Attributes:
        coordinator_host, coordinator_port: Address of the coordinator; by default that of the config.
        host: Address to listen on, which the others must be able to reach.
        token_file: File with the run's token; ``None``: environment variable ``DING_RUN_TOKEN``.
        patience_s: Seconds that the worker's master may be absent.
        first_contact_s: Seconds from the start of the worker within which its master must appear.
    """

    coordinator_host: str | None = None
    coordinator_port: int | None = None
    host: str | None = None
    token_file: str | None = None
    patience_s: float = PATIENCE_S
    first_contact_s: float = FIRST_CONTACT_S

    def waits(self, address: str | None) -> dict[str, float]:
        """Return the time-out entries of the worker's payload.

        Without an address the worker waits for a connection, possibly from a master that has not started yet.
        """
        return {"patience_s": self.patience_s, **({} if address is None else {"first_contact_s": self.first_contact_s})}

    def load_config(self, filename: str, seed: int) -> EasyDict:
        """Compile the config; raises like :func:`load_config`."""
        address: dict[str, Any] = {"coordinator_host": self.coordinator_host, "coordinator_port": self.coordinator_port}
        return load_config(filename, seed, save=False, **address)


def write_prepared(filename: str, settings: dict[str, Any]) -> str:
    """Check a config and write its file, seed and addresses to a file; return the path.

    Raises:
        ConfigError: The config is invalid.
    """
    _compile(filename, settings, save=False)
    path = filename + PREPARED_SUFFIX
    write_text(path, json.dumps({"config": os.path.basename(filename), **settings}, indent=2))
    return path


def load_config(filename: str, seed: int, save: bool, lock: ExperimentLock | None = None, **addresses: Any) -> EasyDict:
    """Compile the config file, or that of a prepared file; arguments override the prepared values.

    Args:
        save: Create the experiment folder and write the config to it.
        lock: Lock to take before anything is written there.
        addresses: Arguments of ``dist_prepare_config``.

    Raises:
        ConfigError: The config or the prepared file is invalid, or ``lock`` cannot be taken because another run is
            active.
    """
    path, prepared = _prepared(filename)
    settings = prepared or {"seed": seed}
    settings.update({key: value for key, value in addresses.items() if value is not None})
    if settings.get("coordinator_port") is None:
        settings["coordinator_port"] = env_number("COORDINATOR_PORT")
    cfg = _compile(path, settings, save, lock)
    if lock is not None:
        lock.take(cfg.main.exp_name)
    for key, folder in auto_folders(cfg).items():
        set_folder(cfg, key, folder)
    return cfg


def read_given(filename: str) -> tuple[EasyDict, EasyDict]:
    """Return main and create config as written in the file, or in that of a prepared file with its overrides.

    Raises like :func:`load_config`.
    """
    configs = _read(*_prepared(filename))
    return configs["main_config"], configs["create_config"]


def _prepared(filename: str) -> tuple[str, dict[str, Any]]:
    """Return the config file and its prepared values."""
    if not filename.endswith(PREPARED_SUFFIX):
        return filename, {}
    try:
        settings = json.loads(Path(filename).read_text(encoding="utf-8"))
        return str(Path(filename).parent / settings.pop("config")), settings
    except (OSError, ValueError, KeyError) as error:
        raise ConfigValueError(f"{filename}: not what dist_prepare_config writes: {error}") from error


def _read(filename: str, settings: dict[str, Any]) -> dict[str, EasyDict]:
    main, create, system = read_config_with_system(filename)
    configs = {"main_config": main, "create_config": create, "system_config": system}
    apply_overrides(settings.get("overrides", ()), configs)
    return configs


def _compile(filename: str, settings: dict[str, Any], save: bool, lock: ExperimentLock | None = None) -> EasyDict:
    known = {key: settings.get(key) for key in ("seed", "platform", *_ADDRESS_KEYS, *_PORT_KEYS)}
    given = {key: value for key, value in known.items() if value is not None}
    # The same folder on every machine and after every restart.
    options = {"save_cfg": save, "renew_dir": False, "free_ports": False, **given}
    main, create, system = _read(filename, settings).values()
    if system.get("backend") not in (None, "flask_fs"):
        raise ConfigValueError(
            f"system_config.backend is {system.backend!r}, of which ding -m parallel starts all roles; processes that "
            "are started one by one need 'flask_fs'"
        )
    if lock is not None:
        lock.take(str(main.get("exp_name", "")))
    return compile_config_parallel(main, create, system, **options)


def auto_folders(cfg: EasyDict) -> dict[str, str]:
    """Return default folders for data and policies, which all machines can find."""
    return {key: os.path.join(cfg.main.exp_name, key.removeprefix("path_")) for key in ("path_data", "path_policy")}


def section_of(cfg: EasyDict, kind: str, name: str | None = None) -> EasyDict:
    """Return the section of a worker: its own, else that of the first of its kind, else the common one
    (``platform='k8s'``).
    """
    system = cfg.system
    return next(system[key] for key in (name or f"{kind}0", f"{kind}0", kind) if key in system)


def coordinator_of(cfg: EasyDict) -> dict[str, Any]:
    """Return ``address`` and ``port`` of the coordinator.

    Raises:
        ConfigValueError: The address is unknown.
    """
    coordinator = cfg.system.coordinator
    if not coordinator.port:
        raise ConfigValueError("where is the coordinator? give its port (-cdp), or system_config.coordinator.port")
    scheme = "https" if cfg.system.get("tls") else "http"
    return {"address": f"{scheme}://{coordinator.host}:{coordinator.port}", "port": coordinator.port}


def run_token(token_file: str | None, make: bool = False) -> str:
    """Return the run's token from its file, else from the environment; ``make`` creates a missing one.

    Raises:
        ConfigValueError: There is no token, or the file is readable by others than its owner.
    """
    if token_file is None:
        token = own_token()
        if not token and make:
            # For local workers that receive it manually, and for a coordinator alone.
            return secrets.token_hex(32)
        if not token:
            raise ConfigValueError(f"the run's token is missing: give --token-file, or set {RUN_TOKEN_VARIABLE}")
        return token
    if make and not os.path.exists(token_file):
        write_run_token(token_file, secrets.token_hex(32))
    try:
        return read_run_token(token_file)
    except (OSError, ValueError) as error:
        raise ConfigValueError(f"--token-file: {error}") from error
