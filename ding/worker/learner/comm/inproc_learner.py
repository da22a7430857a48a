"""In-process comm learner for tests, debugging and notebooks."""

from typing import Any, ClassVar

from ding.utils import COMM_LEARNER_REGISTRY
from ding.worker.learner.comm._plane_learner import PLANE_CONFIG, PlaneLearner


@COMM_LEARNER_REGISTRY.register("inproc")
class InprocLearner(PlaneLearner):
    """Comm learner with tasks, chunks and policies in the memory of this process.

    ``path_data`` and ``path_policy`` are names shared by all workers of the run. ``transport`` is the in-process
    network (default: the global one).
    """

    config: ClassVar[dict[str, Any]] = {**PLANE_CONFIG, "planes": "inproc", "transport": "inproc"}
