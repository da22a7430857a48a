"""The options of the actors of a run: what each needs, and on which nodes it may be."""

import re
from collections.abc import Mapping
from typing import Any

from ding.parallel.ray_cluster import require_ray

DRIVER = "driver"
"""The scheduling strategy of an actor on the node of the driver."""

_DEFAULTS: dict[str, dict[str, Any]] = {
    # They share the folder of the run, with the journal in it, with the driver.
    "coordinator": {"num_cpus": 0, "scheduling_strategy": DRIVER},
    "store": {"num_cpus": 0, "scheduling_strategy": DRIVER},
    "learner": {"num_cpus": 1},
    "collector": {"num_cpus": 1, "scheduling_strategy": "SPREAD"},
}


class ActorOptions:
    """Returns the options of the actor of a role, by its name.

    Args:
        section: `system_config.ray`; what it has for a kind of role (``learner``: {"num_gpus": 0.5}) goes to
            ``actor.options`` as it is, except the scheduling strategy ``'driver'``.
        learner_gpus: of a learner, where ``section`` says nothing.
        one_node: learners have several processes, which find each other in the folder of the run.
    """

    def __init__(self, section: Mapping[str, Any], learner_gpus: int, one_node: bool = False) -> None:
        own: dict[str, dict[str, Any]] = {"learner": {"num_gpus": learner_gpus}}
        if one_node:
            own["learner"]["scheduling_strategy"] = DRIVER
        self._options = {
            kind: {**defaults, **own.get(kind, {}), **section.get(kind, {})} for kind, defaults in _DEFAULTS.items()
        }
        self._node_id: str = require_ray().get_runtime_context().get_node_id()

    def __call__(self, role: str) -> dict[str, Any]:
        kind = re.sub(r"[0-9].*", "", role)
        options = dict(self._options.get(kind, {}))
        if options.get("scheduling_strategy") == DRIVER:
            strategies: Any = require_ray().util.scheduling_strategies
            options["scheduling_strategy"] = strategies.NodeAffinitySchedulingStrategy(self._node_id, soft=False)
        return options
