"""Roles of single-process learners and collectors, and shared code of all worker roles."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import torch
from easydict import EasyDict

from ding.config import ConfigValueError
from ding.config.resolve import import_names_of
from ding.interaction.config import LOCAL_HOST
from ding.interaction.exception import (
    PortTakenError,
    ResponseException,
    RunTokenInvalid,
    RunTokenNotGiven,
    UnsafeBindError,
)
from ding.parallel.launch import PermanentRoleError, RoleContext
from ding.parallel.ray_cluster import node_address
from ding.utils import SeedTree, import_module
from ding.utils.system_helper import is_port_free
from ding.worker.collector.comm import create_comm_collector
from ding.worker.learner.comm import create_comm_learner

logger = logging.getLogger("ding.entry")

COORDINATOR = "coordinator"
NODE_HOST = "node"
"""Host of a role that listens on an address of its node that other nodes can reach."""
PEER_TIMEOUT_S = 120.0
COLLECTOR_NICENESS = 10
# Seconds to wait for the port of the previous process, which may still be ending.
_PORT_PATIENCE_S = 20.0
_PORT_PAUSE_S = 0.1
LOOK_EVERY_S = 0.5
# Number of answers to the coordinator that prove a worker functional: one that fails at its first step gives 2 or 3.
_PROOF_TASKS = 10


class WorkerRefused(RuntimeError):
    """The coordinator rejects this worker: another process has its name, or it is quarantined."""


class WrongToken(PermanentRoleError):
    """The token of this worker does not belong to the run."""


class CoordinatorUnreachable(PermanentRoleError):
    """A worker could not reach its coordinator since its start."""


class _Endpoint(Protocol):
    """Worker's end of the connection to its master."""

    @property
    def is_connected(self) -> bool: ...

    @property
    def refusal(self) -> ResponseException | None: ...

    def statistics(self) -> Any: ...


class CommWorker(Protocol):
    """Worker of a role: a comm learner, a comm collector, or an aggregator."""

    @property
    def slave(self) -> _Endpoint: ...

    def start(self) -> object: ...

    def close(self) -> object: ...


def collect(context: RoleContext) -> None:
    """Run a collector until asked to stop."""
    _work_alone(context, "collector", create_comm_collector)


def collect_beside_others(context: RoleContext) -> None:
    """Run a collector in a separate process on the machine of the learners.

    With fewer cores than processes, learners and coordinator have priority: surplus samples are worthless, whereas a
    learner that waits for a core delays the run.
    """
    backend, system = context.payload["cfg"].system.get("backend"), context.payload["cfg"].system.coordinator
    if backend != "inproc" and hasattr(os, "nice") and 1 + len(system.learner) + len(system.collector) > cores():
        os.nice(COLLECTOR_NICENESS)
    collect(context)


def learn(context: RoleContext) -> None:
    """Run a learner until asked to stop; it saves a checkpoint."""
    _work_alone(context, "learner", create_comm_learner)


def _work_alone(context: RoleContext, kind: str, create: Callable[[EasyDict], Any]) -> None:
    cfg = context.payload["cfg"]
    names = prepare(context, threads_for(cfg, kind))
    section = dict(cfg.system[context.name])
    if kind == "collector":
        own, (name, life) = section.get("env") or {}, _place(context)
        # Several collectors may share an entry of env.per_collector.
        seeds = SeedTree(int(own["seed"])) if "seed" in own else _seeds(cfg)
        section["env"] = {**own, "seed": seeds.derived(name, process=life)}
    work(context, create, names, section, COORDINATOR)


def work(
    context: RoleContext,
    create: Callable[[EasyDict], Any],
    import_names: list[str],
    section: dict[str, Any],
    master: str,
) -> bool:
    """Run a comm worker until asked to stop; return whether it ended because its master was absent for too long.

    Args:
        create: Creates the worker from its config.
        import_names: Modules of the own config; a task can use their registrations.
        section: Section of the worker in the system config.
        master: Role at which it enrols.

    Raises:
        ConfigValueError: Its port is in use.
        BaseException: The error that ended the worker.
    """
    cfg = context.payload["cfg"]
    found = context.wait_for_peer(master, PEER_TIMEOUT_S)
    if found is None:
        return False
    section["tls"] = dict(cfg.system.tls) if cfg.system.get("tls") else None
    worker = create(worker_config(section, context.name, import_names, found["address"]))
    over = threading.Event()
    context.on_peer(lambda name, data: over.set() if name == master and data != found else None)
    context.stop.on_set(over.set)
    if hasattr(worker, "on_broken"):
        worker.on_broken = over.set
    if context.incarnation > 0:
        wait_for_port(context, section.get("host"), section.get("port"))
    try:
        with bind_mistakes(f"system_config.{context.name}"):
            worker.start()
        # Also if the coordinator has moved: a replacement process is faster than a change of the master.
        outlasted = serve(worker, context, over)
    finally:
        worker.close()
    if not context.stop.is_set() and getattr(worker, "group_error", None) is not None:
        raise worker.group_error
    return outlasted


def wait_for_port(context: RoleContext, host: str | None, port: int | str | None) -> None:
    """Wait until the previous process has released the configured port."""
    deadline_s = time.monotonic() + _PORT_PATIENCE_S
    if isinstance(port, int) and port:
        while not is_port_free(host or LOCAL_HOST, port) and time.monotonic() < deadline_s:
            if context.stop.wait(_PORT_PAUSE_S):
                return


@contextlib.contextmanager
def bind_mistakes(where: str) -> Iterator[None]:
    """Convert an error to bind an address to a config error, because a restart would not help."""
    try:
        yield
    except (PortTakenError, UnsafeBindError) as error:
        raise ConfigValueError(f"{where}: {error}") from error


def serve(worker: CommWorker, context: RoleContext, over: threading.Event) -> bool:
    """Wait until the worker ends; with ``patience_s`` in the payload, also until its master is absent for that time,
    and return whether that was the case.

    Raises:
        CoordinatorUnreachable: No master appeared within ``first_contact_s`` (default ``patience_s``).
        WorkerRefused, WrongToken: The master rejects this worker.
    """
    patience_s = context.payload.get("patience_s")
    first_contact_s = context.payload.get("first_contact_s") or patience_s
    seen_s, proven, reached = time.monotonic(), False, False
    # Always with a time-out: signal handlers run only in this thread, and a signal delivered to another thread, or just
    # before the wait, does not end the wait.
    while not over.wait(LOOK_EVERY_S):
        if not proven and worker.slave.statistics().tasks_completed >= _PROOF_TASKS:
            proven = True
            context.progress()
        if worker.slave.refusal is not None:
            raise _refused(context.name, worker.slave.refusal)
        if worker.slave.is_connected:
            seen_s, reached = time.monotonic(), True
        elif not reached and first_contact_s is not None and time.monotonic() - seen_s > first_contact_s:
            raise CoordinatorUnreachable(f"{context.name}: no coordinator was there within {first_contact_s:.0f} s")
        elif reached and patience_s is not None and time.monotonic() - seen_s > patience_s:
            logger.info("no coordinator for %.0f s: the run is over", patience_s)
            return True
    return False


def _refused(name: str, error: ResponseException) -> Exception:
    if isinstance(error, (RunTokenInvalid, RunTokenNotGiven)):
        return WrongToken(f"{name}: {error}")
    return WorkerRefused(f"{name} is not taken, or no more: {error}")


def worker_config(section: Mapping[str, Any], name: str, import_names: list[str], address: str | None) -> EasyDict:
    """Return the config of a comm worker.

    Args:
        section: Section such as ``system.learner0``.
        name: Unique name of the worker in the run.
        import_names: Modules of the own config; a task can use their registrations.
        address: Address of the coordinator; ``None`` if the coordinator connects by itself.
    """
    own = {**section, "name": name, "coordinator_address": address}
    own["import_names"] = [*section.get("import_names", []), *import_names]
    return EasyDict(own)


def prepare(context: RoleContext, threads: int) -> list[str]:
    """Import the modules of the config, seed, and limit the threads; return the names of the modules.

    Hosts equal to ``NODE_HOST`` are replaced by the address of this node in the payload's ``cfg``.
    """
    cfg = context.payload["cfg"]
    for section in cfg.system.values():
        if isinstance(section, dict) and section.get("host") == NODE_HOST:
            section.update(host=node_address())
    names = sorted(set(import_names_of(cfg)))
    import_module(names)
    torch.set_num_threads(threads)
    if cfg.system.get("backend") != "inproc":  # its roles share the generators of one process
        name, life = _place(context)
        _seeds(cfg).seed_process(name, process=life, use_cuda=bool(cfg.main.policy.get("cuda", False)))
    return names


def _seeds(cfg: EasyDict) -> SeedTree:
    """Return the seed tree of a run's processes; a resumed run does not repeat the initial random numbers."""
    tree, resumed_at = SeedTree(cfg.seed), cfg.get("resumed_at")
    return tree if resumed_at is None else SeedTree(tree.derived("resumed run", index=resumed_at))


def _place(context: RoleContext) -> tuple[str, int]:
    """Return the place of this process in the seed tree: its name, e.g. ``collector3``, and its number of restarts."""
    return context.payload.get("unique_name") or context.name, context.incarnation


def cores() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_for(cfg: EasyDict, kind: str) -> int:
    """Return the number of torch threads: one for collectors with small batches, the remaining cores for learners."""
    if kind == "collector":
        return 1
    system = cfg.system.coordinator
    left = cores() - len(system.collector)
    processes = sum(max(1, int(cfg.system.get(name, {}).get("gpu_num", 1))) for name in system.learner)
    return max(1, left // max(1, processes))
