"""Role of the coordinator."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ding.entry.parallel.best_policy import BestPolicy
from ding.entry.parallel.reports import with_run_figures
from ding.entry.parallel.shards import connector
from ding.entry.parallel.snapshots import JOURNAL, KeptPlanes, SnapshotTaker
from ding.entry.parallel.watchdog import Watchdog
from ding.entry.parallel.workers import COORDINATOR, bind_mistakes, prepare, wait_for_port
from ding.entry.snapshot_clock import SnapshotClock
from ding.interaction import TlsConfig
from ding.parallel.launch import LAUNCHER, PermanentRoleError, RoleContext
from ding.utils.credentials import own_token
from ding.worker.coordinator import Coordinator
from ding.worker.coordinator.master_hub import MasterHub

STATUS_EVERY_S = 0.5


def coordinate(context: RoleContext) -> dict[str, Any] | None:
    """Run the coordinator until the run ends; return its last status, or ``None`` if it was asked to stop.

    Raises:
        ConfigValueError: The port is in use.
        PermanentRoleError: A task failed too often, or the run is stalled (``RunStalled``).
    """
    cfg = context.payload["cfg"]
    prepare(context, threads=1)
    began_s = time.monotonic()
    own = cfg.system.coordinator
    former = context.peers().get(COORDINATOR)
    if former is not None:
        # The workers look for it at its previous port.
        own.port = former["port"]
    own.journal = os.path.join(context.run_dir, JOURNAL)
    if os.path.exists(own.journal):
        wait_for_port(context, own.get("host"), own.port)
    # They enrol by themselves, also after an absence of the coordinator.
    own.update(learner={}, collector={})

    spans = {**Coordinator.default_config(), **own}
    watchdog = Watchdog(spans["stall_alarm_s"], spans["stall_end_s"])
    rows_are_steps = cfg.main.policy.collect.get("unroll_len", 1) == 1

    def status() -> dict[str, Any]:
        return {
            **with_run_figures(coordinator.status(), round(time.monotonic() - began_s, 1), rows_are_steps),
            "messages": vars(hub.statistics()),
            "processes": context.peers().get(LAUNCHER, {}),
            "alarm": watchdog.alarm,
        }

    def scale(collectors: int) -> dict[str, int]:
        return coordinator.scale(collectors)

    tls = TlsConfig(**cfg.system.tls) if cfg.system.get("tls") else None
    hub = MasterHub({**own, "status": status, "tls": tls, "scale": scale})
    kept = KeptPlanes.of_run(cfg, own_token())
    best = BestPolicy(cfg.main.exp_name, kept)
    coordinator = Coordinator(cfg, hub=hub, shards=connector(context), evaluated=best.note)
    clock = SnapshotClock(cfg.main.policy.learn)
    taker = SnapshotTaker(cfg.main.exp_name, context.run_dir, kept, clock, coordinator.buffers.files_held)
    try:
        with bind_mistakes("system_config.coordinator"):
            coordinator.start()
        context.announce({"address": hub.my_address, "port": hub.port})
        context.on_peer(_ProcessWatch(coordinator).look)
        over = _supervise(context, coordinator, status, watchdog, taker)
        final = status()
    finally:
        taker.close()
        coordinator.close()
    if coordinator.exception is not None:
        raise PermanentRoleError(str(coordinator.exception)) from coordinator.exception
    return {**final, "solved": coordinator.system_shutdown_flag} if over else None


def _supervise(
    context: RoleContext,
    coordinator: Coordinator,
    status: Callable[[], dict[str, Any]],
    watchdog: Watchdog,
    taker: SnapshotTaker,
) -> bool:
    """Report until the run ends (``True``) or this process is asked to stop (``False``)."""
    limits = context.payload["limits"]
    while not context.stop.wait(STATUS_EVERY_S):
        now = status()
        context.status({**now, "alarm": watchdog.look(now)})
        if now["train_iter"] > 0:
            context.progress()
        taker.look(now["train_iter"])
        if coordinator.system_shutdown_flag or any(now.get(key, 0) >= limit for key, limit in limits.items()):
            return True
    return False


class _ProcessWatch:
    """Reports the end of a worker's process to the coordinator at once, instead of after its lease."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._pids: dict[str, int | None] = {}

    def look(self, name: str, processes: Mapping[str, Mapping[str, Any]]) -> None:
        """Compare the processes with the launcher's previous report."""
        if name != LAUNCHER:
            return
        gone = {role: {"pid": None} for role in self._pids.keys() - processes.keys()}
        for role, process in {**processes, **gone}.items():
            pid, before = process["pid"], self._pids.get(role)
            self._pids[role] = pid
            kind = role.rstrip("0123456789")
            if before is not None and pid != before and kind in ("learner", "collector"):
                # In a thread: dropping a dead process may take a while.
                error = process.get("last_error")
                reason = "its process ended" + (f": {error}" if error else "")
                drop = self._coordinator.drop_worker
                threading.Thread(target=drop, args=(role, kind, reason), name=f"drop-{role}", daemon=True).start()
        for role in gone:
            del self._pids[role]
