"""The comm learner of the original API: tasks over HTTP, data and policies through folders."""

from typing import Any, ClassVar

from ding.utils import COMM_LEARNER_REGISTRY
from ding.worker._comm_slave import LearnerSlave
from ding.worker.learner.comm._comm_hooks import SendLearnInfoHook, SendPolicyHook
from ding.worker.learner.comm._plane_learner import PLANE_CONFIG, PlaneLearner

__all__ = ["FlaskFileSystemLearner", "LearnerSlave", "SendLearnInfoHook", "SendPolicyHook"]


@COMM_LEARNER_REGISTRY.register("flask_fs")
class FlaskFileSystemLearner(PlaneLearner):
    """Tasks over HTTP, chunks and policies in folders.

    Args:
        cfg: :attr:`config`. ``port`` may be a list with one entry per rank; one number is the port of rank 0, and the
            other ranks take those that follow.
    """

    config: ClassVar[dict[str, Any]] = {**PLANE_CONFIG, "planes": "file"}
