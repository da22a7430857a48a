"""Options of the actors of a run: their resources and nodes."""

import re
from collections.abc import Mapping
from typing import Any

from ding.parallel.ray_cluster import require_ray

DRIVER = "driver"
"""Scheduling strategy for an actor on the node of the driver."""

# These roles share the run folder, with the journal, with the driver.
_AT_DRIVER = {"num_cpus": 0, "scheduling_strategy": DRIVER}


class ActorOptions:
    """Returns the options of a role's actor by role name.

    Args:
        section: ``system_config.ray``. Entries by kind of role (``learner``: {"num_gpus": 0.5}) are passed to
            ``actor.options`` unchanged, except the scheduling strategy ``'driver'``. On a cluster with an ``address``,
            each worker reserves one CPU; on a cluster started for the run, workers share the CPUs.
        gpus: GPUs of a learner, unless ``section`` sets them.
        one_node: Learners have several processes, which find each other through the run folder.
    """

    def __init__(self, section: Mapping[str, Any], gpus: int, one_node: bool = False) -> None:
        cpus = 1 if section.get("address") else 0
        learner = {"num_cpus": cpus, "num_gpus": gpus, **({"scheduling_strategy": DRIVER} if one_node else {})}
        defaults: dict[str, dict[str, Any]] = {
            "coordinator": _AT_DRIVER,
            "store": _AT_DRIVER,
            "learner": learner,
            "collector": {"num_cpus": cpus, "scheduling_strategy": "SPREAD"},
        }
        self._options = {kind: {**own, **section.get(kind, {})} for kind, own in defaults.items()}
        self._node_id: str = require_ray().get_runtime_context().get_node_id()

    def __call__(self, role: str) -> dict[str, Any]:
        kind = re.sub(r"[0-9].*", "", role)
        options = dict(self._options.get(kind, {}))
        if options.get("scheduling_strategy") == DRIVER:
            strategies = require_ray().util.scheduling_strategies
            options["scheduling_strategy"] = strategies.NodeAffinitySchedulingStrategy(self._node_id, soft=False)
        return options
