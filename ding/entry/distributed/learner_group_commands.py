"""Commands of a learner group (``ding.entry.parallel.learner_group``): its aggregator, or its local ranks."""

import os
import re
from typing import Any

from easydict import EasyDict

from ding.config import ConfigValueError
from ding.config.utils import env_number
from ding.entry.distributed.config import WorkerOptions, coordinator_of, run_token
from ding.entry.parallel.learner_group import (
    CONNECT_TIMEOUT_S,
    aggregate,
    aggregator_addresses,
    aggregator_config,
    make_ranks,
)
from ding.entry.parallel.roles import PRELOAD
from ding.entry.parallel.workers import COORDINATOR
from ding.entry.view.views import console_lines
from ding.parallel.launch import Launcher, Role, RunInterrupted, run_here, shared_run_dir


def dist_launch_learner_aggregator(
    filename: str | None,
    seed: int = 0,
    aggregator_host: str | None = None,
    aggregator_port: int | None = None,
    name: str | None = None,
    disable_flask_log: bool = True,
    enable_total_log: bool = False,
    **options: Any,
) -> None:
    """Run the aggregator of a learner in this process until the coordinator is absent for a minute, or a signal
    arrives.

    It waits for the processes of ``dist_launch_spawn_learner``, then enrols at the coordinator as the learner. Without
    a config file it waits for ``WORLD_SIZE`` learners (in a pod: for those of the operator) and, without an address of
    the coordinator, for the coordinator's connection.

    Args:
        aggregator_host: Address to listen on, which coordinator and learners must be able to reach.
        aggregator_port: Port for the coordinator, followed by the port for the learners; by default the environment
            variable ``AGGREGATOR_PORT``, else that of the config, else 22272.
        name: Name of the learner; default ``learner0``.
        options: See ``WorkerOptions``.

    Raises:
        ConfigError: The config is invalid, or the address of the coordinator is unknown.
        WorkersMissing: Not all learners connected.
    """
    learner, own = _learner_name(name), WorkerOptions(**options)
    if filename is None:
        fixed = aggregator_addresses(None, learner, aggregator_host, aggregator_port)
        in_pod = "KUBERNETES_SERVER_URL" in os.environ
        config = EasyDict(fixed, connect_timeout_s=CONNECT_TIMEOUT_S)
        config.slave.name, config.learner_num = learner, 0 if in_pod else env_number("WORLD_SIZE") or 1
        port = own.coordinator_port if own.coordinator_port is not None else env_number("COORDINATOR_PORT")
        address = f"http://{own.coordinator_host}:{port}" if own.coordinator_host and port else None
        payload: dict[str, Any] = {"aggregator": config, "patience_s": None if address is None else own.patience_s}
    else:
        cfg = own.load_config(filename, seed)
        fixed = aggregator_addresses(cfg, learner, aggregator_host, aggregator_port)
        _require_several(cfg, learner)
        address = coordinator_of(cfg)["address"]
        payload = {"cfg": cfg, "aggregator": aggregator_config(cfg, learner, **fixed), **own.waits(address)}
    with console_lines():
        run_here(Role(learner, aggregate, payload), run_token(own.token_file), {COORDINATOR: {"address": address}})


def dist_launch_spawn_learner(
    filename: str,
    seed: int = 0,
    learner_port: int | None = None,
    name: str | None = None,
    disable_flask_log: bool = True,
    enable_total_log: bool = False,
    *,
    aggregator_host: str | None = None,
    aggregator_port: int | None = None,
    **options: Any,
) -> None:
    """Run the local processes of a learner until their aggregator is absent for a minute, or a signal arrives.

    If one of them ends, all local processes are restarted; three consecutive failures end them.

    The environment selects the ranks: ``LOCAL_WORLD_SIZE`` of them (default: all ``system_config.learner_gpu_num``)
        from
    ``START_RANK`` (default 0) on. If others run elsewhere, they must be able to reach rank 0 at
    ``MASTER_ADDR:MASTER_PORT``.

    Args:
        learner_port: Port of rank 0, followed by those of the other ranks; by default that of the config, or free ones.
        name: Name of the learner; default ``learner0``.
        aggregator_host, aggregator_port: Those of ``dist_launch_learner_aggregator``.
        options: See ``WorkerOptions``; ``host`` is for the aggregator.

    Raises:
        ConfigError: The config or the environment is invalid.
        RoleFailed: A process failed too often in a row; the message contains its traceback.
        RunInterrupted: A signal stopped it (a ``SystemExit``).
    """
    learner, own = _learner_name(name), WorkerOptions(**options)
    cfg = own.load_config(filename, seed)
    world_size = _require_several(cfg, learner)
    ranks = _local_ranks(world_size)
    _place(cfg.system[learner], own.host, learner_port if learner_port is not None else env_number("LEARNER_PORT"))
    fixed = aggregator_addresses(cfg, learner, aggregator_host, aggregator_port)["master"]
    scheme = "https" if cfg.system.get("tls") else "http"
    peers = {learner: {"address": f"{scheme}://{fixed['host']}:{fixed['port']}"}}
    payload = {"cfg": cfg, "limits": {}, **own.waits(peers[learner]["address"])}
    payload["rendezvous_by_env"] = "MASTER_ADDR" in os.environ or len(ranks) < world_size
    roles = make_ranks(learner, payload, ranks, world_size, ends_run=True)
    exp_name, token = cfg.main.exp_name, run_token(own.token_file)
    with console_lines(), shared_run_dir(os.path.join(exp_name, "run")) as run_dir:
        log_dir = os.path.join(exp_name, "log")
        outcome = Launcher(roles, str(run_dir), log_dir, token, peers=peers, preload=PRELOAD).run()
    if outcome.signum is not None:
        raise RunInterrupted(outcome.signum)


def _learner_name(name: str | None) -> str:
    """Return ``learner3`` for ``learner3`` and ``learner_aggregator3``; ``learner0`` without a number."""
    found = re.search(r"[0-9]+$", name or "")
    return f"learner{found.group() if found else 0}"


def _require_several(cfg: EasyDict, learner: str) -> int:
    section = cfg.system.get(learner)
    if section is None:
        raise ConfigValueError(
            f"--module-name: the config has no {learner}; see main: policy.learn.learner.learner_num"
        )
    if not section.get("multi_gpu"):
        raise ConfigValueError(
            f"{learner} is one process: start it with -M learner, or set system_config.learner_gpu_num to the number "
            "of its processes"
        )
    return int(section.gpu_num)


def _local_ranks(world_size: int) -> range:
    total = env_number("WORLD_SIZE")
    if total not in (None, world_size):
        raise ConfigValueError(f"WORLD_SIZE is {total}, but system_config.learner_gpu_num is {world_size}")
    start, count = env_number("START_RANK") or 0, env_number("LOCAL_WORLD_SIZE")
    count = world_size - start if count is None else count
    if count < 1 or start + count > world_size:
        raise ConfigValueError(
            f"START_RANK {start} and LOCAL_WORLD_SIZE {count} do not fit: the learner has {world_size} processes"
        )
    if count < world_size and "MASTER_ADDR" not in os.environ:
        raise ConfigValueError(
            f"{count} of {world_size} processes run here: set MASTER_ADDR and MASTER_PORT, where the others find rank 0"
        )
    return range(start, start + count)


def _place(section: EasyDict, host: str | None, port: int | None) -> None:
    section.host = host or section.host
    if port is not None:
        section.port = [port + rank if port else 0 for rank in range(section.gpu_num)]
