"""What the processes of a parallel run do: coordinate, learn, collect.

The payload of each role is the compiled config of the run (`ding.config.compile_config_parallel`) with folders instead
of ``'auto'``, so that all of them build their part from the same facts. The coordinator announces its address; the
workers enrol there, whatever port they got.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from easydict import EasyDict

from ding.entry._launcher import LAUNCHER
from ding.entry._role import PermanentRoleError, RestartRule, Role
from ding.utils import import_module

if TYPE_CHECKING:
    from ding.entry._role_child import RoleContext

logger = logging.getLogger("ding.entry")

COORDINATOR = "coordinator"
JOURNAL = "coordinator.sqlite"
STATUS_EVERY_S = 0.5
PEER_TIMEOUT_S = 120.0
COLLECTOR_NICENESS = 10
_LOOK_EVERY_S = 0.5
# So many answers to the coordinator show that a worker works: one that breaks at its first step gives two or three.
_PROOF_TASKS = 10


def make_roles(cfg: EasyDict, limits: Mapping[str, int]) -> list[Role]:
    """Return the roles of a run: the coordinator, then the workers.

    Args:
        cfg: Compiled config with real folders.
        limits: ``train_iter`` and ``env_step`` at which the run ends.
    """
    from ding.entry._learner_group import make_group

    payload = {"cfg": cfg, "limits": dict(limits)}
    roles = [Role(COORDINATOR, coordinate, payload, ends_run=True, stop_phase=0)]
    for name in cfg.system.coordinator.learner:
        several = cfg.system[name].get("multi_gpu", False)
        roles += make_group(name, payload) if several else [Role(name, learn, payload, RestartRule())]
    collectors = cfg.system.coordinator.collector
    return roles + [Role(name, collect_beside_others, payload, RestartRule()) for name in collectors]


def coordinate(context: RoleContext) -> dict[str, Any] | None:
    """Run the coordinator until the run is over; returns its last status, or None when it was asked to stop.

    Raises:
        PermanentRoleError: The port is taken, or a task failed too often.
    """
    from ding.interaction import TlsConfig
    from ding.interaction.exception import PortTakenError, UnsafeBindError
    from ding.worker.coordinator import Coordinator
    from ding.worker.coordinator._master_hub import MasterHub

    cfg = context.payload["cfg"]
    prepare(cfg, threads=1)
    began_s = time.monotonic()
    own = cfg.system.coordinator
    former = context.peers().get(COORDINATOR)
    if former is not None:
        # The workers look for it where it was.
        own.port = former["port"]
    own.journal = os.path.join(context.run_dir, JOURNAL)
    # They announce themselves, also after the coordinator was away.
    own.update(learner={}, collector={})

    def status() -> dict[str, Any]:
        elapsed_s = round(time.monotonic() - began_s, 1)
        return {
            **run_status(coordinator.status(), elapsed_s),
            "messages": vars(hub.statistics()),
            "processes": context.peers().get(LAUNCHER, {}),
        }

    tls = TlsConfig(**cfg.system.tls) if cfg.system.get("tls") else None
    hub = MasterHub({**own, "status": status, "tls": tls})
    coordinator = Coordinator(cfg, hub=hub)
    try:
        coordinator.start()
        context.announce({"address": hub.my_address, "port": hub.port})
        context.on_peer(_ProcessWatch(coordinator).look)
        over = _supervise(context, coordinator, status)
        final = status()
    except (PortTakenError, UnsafeBindError) as error:
        raise PermanentRoleError(f"system_config.coordinator: {error}") from error
    finally:
        coordinator.close()
    if coordinator.exception is not None:
        raise PermanentRoleError(str(coordinator.exception)) from coordinator.exception
    return {**final, "solved": coordinator.system_shutdown_flag} if over else None


def run_status(status: Mapping[str, Any], elapsed_s: float) -> dict[str, Any]:
    """Return the coordinator's status with the figures of the run under the names of the serial mode.

    ``env_step`` counts the steps of finished collector tasks, or those that the samples that came must stem from when
    they are more; ``return`` is the mean return of the last evaluation.
    """
    rows = int((status.get("buffers") or {}).get("rows", 0)) // int(status.get("samples_per_step", 1))
    last = status.get("last_evaluation") or {}
    return {
        **status,
        "env_step": max(int(status.get("envstep", 0)), rows),
        "return": last.get("reward_mean"),
        "elapsed_s": elapsed_s,
    }


def _supervise(context: RoleContext, coordinator: Any, status: Any) -> bool:
    """Report until the run is over (True) or this process is asked to stop (False)."""
    limits = context.payload["limits"]
    while not context.stop.wait(STATUS_EVERY_S):
        now = status()
        context.status(now)
        if now["train_iter"] > 0:
            context.progress()
        if coordinator.system_shutdown_flag:
            return True
        if any(now.get(key, 0) >= limit for key, limit in limits.items()):
            return True
    return False


class _ProcessWatch:
    """Tells the coordinator at once that the process of a worker ended, which it would notice by silence only."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._pids: dict[str, int | None] = {}

    def look(self, name: str, pictures: Any) -> None:
        """Compare with what the launcher said before."""
        if name != LAUNCHER:
            return
        for role, picture in pictures.items():
            pid, before = picture["pid"], self._pids.get(role)
            self._pids[role] = pid
            kind = role.rstrip("0123456789")
            if before is not None and pid != before and kind in ("learner", "collector"):
                # Elsewhere: to take leave of a dead process may take a while.
                error = picture.get("last_error")
                reason = "its process ended" + (f": {error}" if error else "")
                threading.Thread(target=self._drop, args=(role, kind, reason), name=f"drop-{role}", daemon=True).start()

    def _drop(self, name: str, kind: str, reason: str) -> None:
        self._coordinator.drop_worker(name, kind, reason)


def collect(context: RoleContext) -> None:
    """Run a collector until asked to stop."""
    from ding.worker.collector.comm import create_comm_collector

    _work_alone(context, "collector", create_comm_collector)


def collect_beside_others(context: RoleContext) -> None:
    """Run a collector in a process of its own on the machine of the learners.

    With fewer cores than processes, the learners and the coordinator go first: samples beyond those that the learners
    can use are of no worth, a learner that waits for a core is.
    """
    system = context.payload["cfg"].system.coordinator
    if hasattr(os, "nice") and 1 + len(system.learner) + len(system.collector) > _cores():
        os.nice(COLLECTOR_NICENESS)
    collect(context)


def learn(context: RoleContext) -> None:
    """Run a learner until asked to stop; it leaves a checkpoint."""
    from ding.worker.learner.comm import create_comm_learner

    _work_alone(context, "learner", create_comm_learner)


def _work_alone(context: RoleContext, kind: str, create: Any) -> None:
    cfg = context.payload["cfg"]
    names = prepare(cfg, threads_for(cfg, kind))
    work(context, kind, create, names, dict(cfg.system[context.name]), COORDINATOR)


def work(
    context: RoleContext, kind: str, create: Any, import_names: list[str], section: dict[str, Any], master: str
) -> bool:
    """Run a comm worker until asked to stop; returns whether it ended because its master was gone for too long.

    Args:
        create: Makes the worker from its config.
        section: Its section of the system config.
        master: The role at which it enrols.

    Raises:
        PermanentRoleError: Its port is taken.
        BaseException: Why it cannot go on.
    """
    from ding.interaction.exception import PortTakenError, UnsafeBindError

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
    try:
        worker.start()
        # When the coordinator moved, too: another process in this place is quicker than a change of the master.
        outlasted = serve(worker, context, over)
    except (PortTakenError, UnsafeBindError) as error:
        raise PermanentRoleError(f"system_config.{context.name}: {error}") from error
    finally:
        worker.close()
    if not context.stop.is_set() and getattr(worker, "group_error", None) is not None:
        raise worker.group_error
    return outlasted


def serve(worker: Any, context: RoleContext, over: threading.Event) -> bool:
    """Wait until it is over; with a ``patience_s`` in the payload, also until no master was there for so long, which
    is what is returned.
    """
    patience_s = context.payload.get("patience_s")
    seen_s, proven = time.monotonic(), False
    # Never without a timeout: handlers of signals run in this thread only, and a signal that came to another one, or
    # just before the wait, does not end the wait.
    while not over.wait(_LOOK_EVERY_S):
        if not proven and worker.slave.statistics().tasks_completed >= _PROOF_TASKS:
            proven = True
            context.progress()
        if worker.slave.is_connected:
            seen_s = time.monotonic()
        elif patience_s is not None and time.monotonic() - seen_s > patience_s:
            logger.info("no coordinator for %.0f s: the run is over", patience_s)
            return True
    return False


def worker_config(section: Mapping[str, Any], name: str, import_names: list[str], address: str | None) -> EasyDict:
    """Return what a comm worker is built from.

    Args:
        section: ``system.learner0`` and the like.
        name: The worker's name, unique in the run.
        import_names: Modules that the own config names; a task can use what they register.
        address: Where the coordinator listens; None when it connects by itself.
    """
    own = {**section, "name": name, "coordinator_address": address}
    own["import_names"] = [*section.get("import_names", []), *import_names]
    return EasyDict(own)


def prepare(cfg: EasyDict, threads: int, seed_offset: int = 0) -> list[str]:
    """Import the modules that the config names, seed, and bound the threads; returns the names of the modules."""
    import torch

    from ding.utils import set_pkg_seed

    names = sorted(set(import_names_of(cfg)))
    import_module(names)
    torch.set_num_threads(threads)
    set_pkg_seed(cfg.seed + seed_offset, use_cuda=bool(cfg.main.policy.get("cuda", False)))
    return names


def import_names_of(node: Any) -> Iterator[str]:
    """Yield every entry of ``import_names`` anywhere in a config."""
    if isinstance(node, Mapping):
        names = node.get("import_names") or []
        yield from names if isinstance(names, (list, tuple)) else [names]
        for child in node.values():
            yield from import_names_of(child)
    elif isinstance(node, (list, tuple)):
        for child in node:
            yield from import_names_of(child)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_for(cfg: EasyDict, kind: str) -> int:
    """Torch threads: collectors play small batches on one; the learners share the cores that are left."""
    if kind == "collector":
        return 1
    system = cfg.system.coordinator
    left = _cores() - len(system.collector)
    processes = sum(max(1, int(cfg.system.get(name, {}).get("gpu_num", 1))) for name in system.learner)
    return max(1, left // max(1, processes))
