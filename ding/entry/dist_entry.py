"""Roles of a parallel run started individually, for several machines with a shared folder.

All machines use the same config file. The coordinator listens at a fixed address, where the workers enrol. All of them
share the run's token, from a file that only its owner may read. ``docs/parallel.md`` has an example.

A port is taken from the argument, else from the environment (``COORDINATOR_PORT``, ``LEARNER_PORT``,
``COLLECTOR_PORT``), else from the config. ``dist_prepare_config`` writes a JSON file with the config file, seed and
addresses, which can be passed instead of the config file.
"""

import os
import shutil
import socket
from collections.abc import Callable, Sequence
from typing import Any

from easydict import EasyDict

from ding.config import ConfigValueError
from ding.config.experiment_dir import ExperimentLock
from ding.config.utils import Hosts, env_number
from ding.entry.distributed.config import (
    WorkerOptions,
    auto_folders,
    coordinator_of,
    load_config,
    read_given,
    run_token,
    section_of,
    write_prepared,
)
from ding.entry.distributed.learner_group_commands import (
    dist_launch_learner_aggregator as dist_launch_learner_aggregator,
)
from ding.entry.distributed.learner_group_commands import dist_launch_spawn_learner as dist_launch_spawn_learner
from ding.entry.distributed.replicas import dist_add_replicas as dist_add_replicas
from ding.entry.distributed.replicas import dist_delete_replicas as dist_delete_replicas
from ding.entry.distributed.replicas import dist_restart_replicas as dist_restart_replicas
from ding.entry.parallel.coordinator import coordinate
from ding.entry.parallel.final_evaluation import finish_evaluated
from ding.entry.parallel.reports import ReportReader
from ding.entry.parallel.workers import COORDINATOR, collect, learn
from ding.entry.view.access_file import AccessFile
from ding.entry.view.status import bounded
from ding.entry.view.status_file import StatusFile
from ding.entry.view.views import console_lines, make_view
from ding.parallel.launch import Role, RoleContext, RunInterrupted, run_here


def dist_prepare_config(
    filename: str,
    seed: int = 0,
    platform: str = "local",
    coordinator_host: str | None = None,
    learner_host: Hosts = None,
    collector_host: Hosts = None,
    coordinator_port: int | None = None,
    learner_port: int | None = None,
    collector_port: int | None = None,
    *,
    overrides: Sequence[str] = (),
) -> str:
    """Check a config and write the addresses of its processes to a file; return its path.

    Args:
        overrides: Entries ``KEY=VALUE`` for all processes, like ``-o`` of the command line.

    Raises:
        ConfigError: The config is invalid.
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
        "overrides": list(overrides),
    }
    return write_prepared(filename, settings)


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
    """Run the coordinator in this process until the run ends; return the result.

    A coordinator that was killed continues the run when restarted, from its journal in ``<exp_name>/run``.

    Args:
        coordinator_port: Port to listen on.
        coordinator_host: Address to listen on; one that other machines can reach requires a token.
        token_file: File with the run's token, created if missing. ``None``: environment variable ``DING_RUN_TOKEN``.

    Raises:
        ConfigError: The config is invalid, or another run is active in its experiment folder.
        RunInterrupted: A signal stopped the coordinator (a ``SystemExit``).
    """
    where = {"coordinator_host": coordinator_host, "coordinator_port": coordinator_port}
    with ExperimentLock() as lock:
        cfg = load_config(filename, seed, save=True, lock=lock, **where)
        limits = bounded(train_iter=max_train_iter, env_step=max_env_step)
        return _coordinate(cfg, read_given(filename), limits, run_token(token_file, make=True), quiet)


def _coordinate(
    cfg: EasyDict, configs: tuple[EasyDict, EasyDict], limits: dict[str, int], token: str, quiet: bool
) -> dict[str, Any] | None:
    exp_name = cfg.main.exp_name
    run_dir = os.path.join(exp_name, "run")
    os.makedirs(run_dir, exist_ok=True)
    reader, view = ReportReader(exp_name, limits, cfg.main.env.stop_value), StatusFile(make_view(quiet))
    role = Role(COORDINATOR, coordinate, {"cfg": cfg, "limits": limits})
    access = AccessFile(exp_name, token, cfg.system.get("tls"))
    sentence, ok = "ended by an error", False
    with console_lines():
        view.start(reader.read())
        try:
            report = run_here(role, token, {}, run_dir, lambda report: view.update(reader.read(report)), access.update)
            _, result, sentence = finish_evaluated(reader.read(report), configs, cfg.seed)
            _tidy(cfg, run_dir)
            ok = True
            return result
        except RunInterrupted:
            sentence = "stopped; start it again to go on"
            raise
        finally:
            access.remove()
            view.finish(sentence, ok)


def _tidy(cfg: EasyDict, run_dir: str) -> None:
    """Remove the journal of the ended run, and the folders that were not requested by name."""
    shutil.rmtree(run_dir, ignore_errors=True)
    for key, folder in auto_folders(cfg).items():
        if os.path.abspath(section_of(cfg, "collector")[key]) == os.path.abspath(folder):
            shutil.rmtree(folder, ignore_errors=True)


def dist_launch_learner(
    filename: str,
    seed: int = 0,
    learner_port: int | None = None,
    name: str | None = None,
    disable_flask_log: bool = True,
    enable_total_log: bool = False,
    **options: Any,
) -> None:
    """Run a learner in this process; see ``dist_launch_collector``."""
    _launch_worker("learner", learn, filename, seed, learner_port, name, WorkerOptions(**options))


def dist_launch_collector(
    filename: str,
    seed: int = 0,
    collector_port: int | None = None,
    name: str | None = None,
    disable_flask_log: bool = True,
    enable_total_log: bool = False,
    **options: Any,
) -> None:
    """Run a collector in this process until the coordinator is absent for a minute, or a signal arrives.

    Args:
        collector_port: Port to listen on; by default that of the config, or a free one.
        name: Unique name in the run; default ``collector0``.
        options: See ``WorkerOptions``.

    Raises:
        ConfigError: The config is invalid, or the address of the coordinator is unknown.
    """
    _launch_worker("collector", collect, filename, seed, collector_port, name, WorkerOptions(**options))


def _launch_worker(
    kind: str,
    target: Callable[[RoleContext], None],
    filename: str,
    seed: int,
    port: int | None,
    name: str | None,
    own: WorkerOptions,
) -> None:
    cfg = own.load_config(filename, seed)
    # With platform='k8s' the operator reports the workers to the coordinator: they need not enrol.
    address = {"address": None} if kind in cfg.system else coordinator_of(cfg)
    unique_name = name
    name = name or f"{kind}0"
    section = EasyDict(section_of(cfg, kind, name))
    if section.get("multi_gpu"):
        raise ConfigValueError(
            f"{name} has {section.gpu_num} processes (system_config.learner_gpu_num): start -M learner_aggregator, and "
            "the processes with -M spawn_learner"
        )
    section.host = own.host or section.host
    section.port = port if port is not None else env_number(f"{kind.upper()}_PORT") or section.port
    cfg.system[name] = section
    if kind in cfg.system and unique_name is None:
        # All pods are started in the same way.
        unique_name = os.environ.get("KUBERNETES_POD_NAME") or f"{socket.gethostname()}:{section.port}"
    payload = {"cfg": cfg, "limits": {}, "unique_name": unique_name, **own.waits(address["address"])}
    with console_lines():
        run_here(Role(name, target, payload), run_token(own.token_file), {COORDINATOR: address})
