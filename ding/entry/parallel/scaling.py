"""Collectors that join and leave during a run: the launcher follows the target number reported by the coordinator."""

import logging
import re

from easydict import EasyDict

from ding.config.per_collector import collector_section
from ding.config.utils import worker_names
from ding.entry.parallel.roles import collector_role
from ding.entry.parallel.workers import COORDINATOR
from ding.parallel.launch import Launcher

logger = logging.getLogger("ding.entry")

_COLLECTOR = re.compile(r"collector(\d+)")


class CollectorCount:
    """Starts and retires collectors to reach the target number.

    New collectors get names that this launcher has not used before, so that leases and logs of former ones are never
    confused with theirs. The newest leave first. Each is asked to stop as at the end of a run: it signs off, and its
    task goes to another one.

    Args:
        cfg: Compiled config of the run; sections of collectors are added and removed.
        limits: See ``ding.entry.parallel.roles.make_roles``.
    """

    def __init__(self, cfg: EasyDict, limits: dict[str, int]) -> None:
        self._cfg = cfg
        self._limits = limits
        self._next = 0

    def follow(self, launcher: Launcher) -> None:
        """Compare the coordinator's last report with the existing roles."""
        wanted = (launcher.roles[COORDINATOR].status or {}).get("collectors_wanted")
        if wanted is None or launcher.stopping:
            return
        numbers = sorted(
            int(match[1])
            for match in map(_COLLECTOR.fullmatch, launcher.roles.keys() - set(launcher.leaving))
            if match is not None
        )
        self._next = max(self._next, *(number + 1 for number in numbers), 0)
        for _ in range(wanted - len(numbers)):
            self._add(launcher, self._next)
            self._next += 1
        for number in numbers[wanted:]:
            self._retire(launcher, f"collector{number}")

    def _add(self, launcher: Launcher, number: int) -> None:
        name, system = f"collector{number}", self._cfg.system
        system[name] = collector_section(self._cfg, worker_names(system, "collector")[0], number)
        system.coordinator.collector[name] = [name, system[name].host, system[name].port]
        launcher.add(collector_role(self._cfg, self._limits, name))
        logger.info("%s joins the run", name)

    def _retire(self, launcher: Launcher, name: str) -> None:
        launcher.retire(name)
        del self._cfg.system[name]
        self._cfg.system.coordinator.collector.pop(name, None)
        logger.info("%s leaves the run", name)
