"""The roles of a parallel run one by one, for several machines that share a folder.

Every machine has the same config file. The coordinator listens at a fixed address; workers announce themselves there.
All of them know the run's token, from a file that only its owner may read. `docs/parallel.md` has an example.

A port is taken from the argument, else from the environment (``COORDINATOR_PORT``, ``LEARNER_PORT``,
``COLLECTOR_PORT``), else from the config. What `dist_prepare_config` writes is JSON: which file, which seed and which
addresses; it can be given in the place of the config file.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from easydict import EasyDict

from ding.config import ConfigValueError, compile_config_parallel, read_config_with_system
from ding.entry import _roles
from ding.entry._parallel_view import Picture, make_parallel_view
from ding.entry._progress import UNBOUNDED, console_lines
from ding.entry._role_child import TOKEN_VARIABLE
from ding.entry._role_local import LocalContext
from ding.entry._signals import RunInterrupted
from ding.entry.parallel_entry import describe_result, set_folder, write_result
from ding.utils.file_helper import atomic_write

PREPARED_SUFFIX = ".dist.json"
PATIENCE_S = 60.0
_ADDRESS_KEYS = ("coordinator_host", "learner_host", "collector_host")
_PORT_KEYS = ("coordinator_port", "learner_port", "collector_port")


def dist_prepare_config(
    filename: str,
    seed: int = 0,
    platform: str = "local",
    coordinator_host: str | None = None,
    learner_host: Any = None,
    collector_host: Any = None,
    coordinator_port: int | None = None,
    learner_port: int | None = None,
    collector_port: int | None = None,
) -> str:
    """Check a config and write down where its processes will be; returns the path of that file.

    Raises:
        ConfigError: The config is wrong.
    """
    settings = {
        "seed": seed,
        "platform": platform,
        "coordinator_host": coordinator_host,
        "learner_host": learner_host,
        "collector_host": collector_host,
        "coordinator_port": coordinator_port,
        "learner_port": learner_port,
        "collector_port": collector_port,
    }
    _compile(filename, settings, save=False)
    path = filename + PREPARED_SUFFIX
    with atomic_write(path) as file:
        file.write(json.dumps({"config": os.path.basename(filename), **settings}, indent=2).encode())
    return path


def dist_launch_coordinator(
    filename: str,
    seed: int = 0,
    coordinator_port: int | None = None,
    disable_flask_log: bool = True,
    enable_total_log: bool = False,
    *,
    coordinator_host: str | None = None,
    token_file: str | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    quiet: bool = False,
) -> dict[str, Any] | None:
    """Run the coordinator here until the run is over; returns the result.

    Killed, it goes on with the run when it is started again: its journal lies in ``<exp_name>/run``.

    Args:
        coordinator_port: Port to listen on.
        coordinator_host: Address to listen on; one that other machines reach needs a token.
        token_file: File with the run's token; made when it is not there. None: environment ``DING_RUN_TOKEN``.

    Raises:
        ConfigError: The config is wrong.
        RunInterrupted: A signal stopped the coordinator (a `SystemExit`).
    """
    cfg = _load(filename, seed, coordinator_host=coordinator_host, coordinator_port=coordinator_port, save=True)
    limits = {"train_iter": max_train_iter, "env_step": max_env_step}
    payload = {"cfg": cfg, "limits": {key: limit for key, limit in limits.items() if limit < UNBOUNDED}}
    run_dir = os.path.join(cfg.main.exp_name, "run")
    os.makedirs(run_dir, exist_ok=True)
    picture, view = Picture(), make_parallel_view(quiet)

    def show(status: Any) -> None:
        view.update(picture, picture.take(status, {}))

    context = LocalContext(_roles.COORDINATOR, payload, run_dir, _token(token_file, make=True), {}, show)
    sentence, ok = "ended by an error", False
    with console_lines():
        view.start(cfg.main.exp_name)
        try:
            result = _run(context, _roles.coordinate)
            if result is None:
                sentence = "stopped; start it again to go on"
                raise RunInterrupted(context.signum or 0)
            final = write_result(result, cfg.main.exp_name)
            _tidy(cfg, run_dir)
            sentence, ok = describe_result(final), True
            return final
        finally:
            view.finish(sentence, ok)


def _tidy(cfg: EasyDict, run_dir: str) -> None:
    """The run is over: its journal goes, and the folders that nobody asked for by name."""
    shutil.rmtree(run_dir, ignore_errors=True)
    for key, folder in _auto_folders(cfg).items():
        if os.path.abspath(cfg.system.collector0[key]) == os.path.abspath(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _auto_folders(cfg: EasyDict) -> dict[str, str]:
    """Where data and policies lie when the config leaves it open: all machines must find them."""
    return {key: os.path.join(cfg.main.exp_name, key.removeprefix("path_")) for key in ("path_data", "path_policy")}


def dist_launch_learner(
    filename: str,
    seed: int = 0,
    learner_port: int | None = None,
    name: str | None = None,
    disable_flask_log: bool = True,
    enable_total_log: bool = False,
    **options: Any,
) -> None:
    """Run a learner here; see `dist_launch_collector`."""
    _launch_worker("learner", _roles.learn, filename, seed, learner_port, name, **options)


def dist_launch_collector(
    filename: str,
    seed: int = 0,
    collector_port: int | None = None,
    name: str | None = None,
    disable_flask_log: bool = True,
    enable_total_log: bool = False,
    **options: Any,
) -> None:
    """Run a collector here until the coordinator has been gone for a minute, or a signal comes.

    Args:
        collector_port: Port to listen on; any free one when neither this nor the config names one.
        name: Unique in the run; ``collector0`` when not given.
        options: ``coordinator_host``, ``coordinator_port`` (where the coordinator is), ``collector_host`` or
            ``learner_host`` (address to listen on, which the coordinator must reach), ``token_file``.

    Raises:
        ConfigError: The config is wrong, or nobody says where the coordinator is.
    """
    _launch_worker("collector", _roles.collect, filename, seed, collector_port, name, **options)


def _launch_worker(
    kind: str,
    target: Callable[..., Any],
    filename: str,
    seed: int,
    port: int | None,
    name: str | None,
    coordinator_host: str | None = None,
    coordinator_port: int | None = None,
    host: str | None = None,
    token_file: str | None = None,
    patience_s: float = PATIENCE_S,
) -> None:
    cfg = _load(filename, seed, coordinator_host=coordinator_host, coordinator_port=coordinator_port, save=False)
    coordinator = cfg.system.coordinator
    if not coordinator.port:
        raise ConfigValueError("where is the coordinator? give its port (-cdp), or system_config.coordinator.port")
    scheme = "https" if cfg.system.get("tls") else "http"
    address = {"address": f"{scheme}://{coordinator.host}:{coordinator.port}", "port": coordinator.port}
    name = name or f"{kind}0"
    section = EasyDict(cfg.system.get(name, cfg.system[f"{kind}0"]))
    section.host = host or section.host
    section.port = port if port is not None else _env_port(f"{kind.upper()}_PORT") or section.port
    cfg.system[name] = section
    payload = {"cfg": cfg, "limits": {}, "patience_s": patience_s}
    context = LocalContext(name, payload, "", _token(token_file), {_roles.COORDINATOR: address})
    with console_lines():
        _run(context, target)
    if context.signum is not None:
        raise RunInterrupted(context.signum)


def _run(context: LocalContext, target: Callable[..., Any]) -> Any:
    with context.running():
        return target(context)


def _load(filename: str, seed: int, save: bool, **addresses: Any) -> EasyDict:
    """Compile the config file, or the one that a prepared file names; arguments go before what was prepared."""
    path = Path(filename)
    settings: dict[str, Any] = {"seed": seed}
    if filename.endswith(PREPARED_SUFFIX):
        try:
            settings = json.loads(path.read_text(encoding="utf-8"))
            path = path.parent / settings.pop("config")
        except (OSError, ValueError, KeyError) as error:
            raise ConfigValueError(f"{filename}: not what dist_prepare_config writes: {error}") from error
    settings.update({key: value for key, value in addresses.items() if value is not None})
    if settings.get("coordinator_port") is None:
        settings["coordinator_port"] = _env_port("COORDINATOR_PORT")
    cfg = _compile(str(path), settings, save)
    for key, folder in _auto_folders(cfg).items():
        set_folder(cfg, key, folder)
    return cfg


def _compile(filename: str, settings: dict[str, Any], save: bool) -> EasyDict:
    known = {key: settings.get(key) for key in ("seed", "platform", *_ADDRESS_KEYS, *_PORT_KEYS)}
    given = {key: value for key, value in known.items() if value is not None}
    # The same folder on every machine and after every restart.
    return compile_config_parallel(*read_config_with_system(filename), save_cfg=save, renew_dir=False, **given)


def _env_port(variable: str) -> int | None:
    text = os.environ.get(variable)
    if text is None:
        return None
    if not text.isdigit():
        raise ConfigValueError(f"the environment variable {variable} must be a port number, got {text!r}")
    return int(text)


def _token(token_file: str | None, make: bool = False) -> str:
    from ding.interaction import read_run_token, write_run_token

    if token_file is None:
        token = os.environ.get(TOKEN_VARIABLE)
        if not token and make:
            # Good for workers of this machine's user that are given it by hand, and for a coordinator alone.
            return secrets.token_hex(32)
        if not token:
            raise ConfigValueError(f"the run's token is missing: give --token-file, or set {TOKEN_VARIABLE}")
        return token
    if make and not os.path.exists(token_file):
        write_run_token(token_file, secrets.token_hex(32))
    try:
        return read_run_token(token_file)
    except (OSError, ValueError) as error:
        raise ConfigValueError(f"--token-file: {error}") from error
