"""The comm learner within one process: for tests, debugging and notebooks."""

from typing import Any, ClassVar

from ding.utils import COMM_LEARNER_REGISTRY
from ding.worker.learner.comm._plane_learner import PLANE_CONFIG, PlaneLearner


@COMM_LEARNER_REGISTRY.register("inproc")
class InprocLearner(PlaneLearner):
    """Tasks, chunks and policies through this process's memory.

    ``path_data`` and ``path_policy`` are only names, which all workers of the run share. ``transport`` is the network
    within the process (default: the only one).
    """

    config: ClassVar[dict[str, Any]] = {**PLANE_CONFIG, "planes": "inproc", "transport": "inproc"}
