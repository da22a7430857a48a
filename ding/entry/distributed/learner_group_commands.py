"""The commands of a learner group (``ding.entry.parallel.learner_group``): its aggregator, or its ranks here."""

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
    """Run the aggregator of a learner here until the coordinator has been away for a minute, or a signal comes.

    It waits for the processes of ``dist_launch_spawn_learner``, then announces itself at the coordinator in the place
    of the learner. Without a config file it waits for ``WORLD_SIZE`` learners (in a pod: for those of the operator)
    and, without an address of the coordinator, to be connected to.

    Args:
        aggregator_host: address to listen on, which coordinator and learners must reach.
        aggregator_port: port for the coordinator, and the next one for the learners; else ``AGGREGATOR_PORT`` of the
            environment, else that of the config, else 22272.
        name: which learner it stands for; ``learner0`` when not given.
        options: see ``WorkerOptions``.

    Raises:
        ConfigError: the config is wrong, or nothing says where the coordinator is.
        WorkersMissing: not all learners came.
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
    """Run the processes of a learner that belong on this machine, until their aggregator has been away for a minute,
    or a signal comes. When one of them ends, all of this machine are started again; three failures in a row end them.

    The environment says which ones: ``LOCAL_WORLD_SIZE`` of them (default: all ``system_config.learner_gpu_num``) with
    the ranks from ``START_RANK`` (default 0). When others run elsewhere, rank 0 must be reached by them at
    ``MASTER_ADDR:MASTER_PORT``.

    Args:
        learner_port: port of rank 0, the others take those that follow; any free ones when neither this nor the config
            names one.
        name: which learner; ``learner0`` when not given.
        aggregator_host, aggregator_port: those of ``dist_launch_learner_aggregator``.
        options: see ``WorkerOptions``; ``host`` is for the aggregator.

    Raises:
        ConfigError: the config or the environment is wrong.
        RoleFailed: a process failed too often in a row; the message has its traceback.
        RunInterrupted: a signal stopped it (a ``SystemExit``).
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
    """``learner3`` for ``learner3`` and ``learner_aggregator3``; ``learner0`` for what has no number."""
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
