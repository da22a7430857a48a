"""The options of the actors of a run: what each needs, and on which nodes it may be."""

import re
from collections.abc import Mapping
from typing import Any

from ding.parallel.ray_cluster import require_ray

DRIVER = "driver"
"""The scheduling strategy of an actor on the node of the driver."""

# They share the folder of the run, with the journal in it, with the driver.
_AT_DRIVER = {"num_cpus": 0, "scheduling_strategy": DRIVER}


class ActorOptions:
    """Returns the options of the actor of a role, by its name.

    Args:
        section: ``system_config.ray``; what it has for a kind of role (``learner``: {"num_gpus": 0.5}) goes to
            ``actor.options`` as it is, except the scheduling strategy ``'driver'``. Workers on a cluster that has an
            ``address`` count a CPU each; on one that was started for the run they share what there is.
        gpus: of a learner, where ``section`` says nothing.
        one_node: learners have several processes, which find each other in the folder of the run.
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
