"""What connects a learner with a coordinator. Names are imported when they are first used."""

from typing import TYPE_CHECKING, Any

from ding.worker._lazy import load_export

if TYPE_CHECKING:
    from ding.worker.learner.comm._group import DEFAULT_GROUP_TIMEOUT_S, GroupBroken, group_backend, join_group
    from ding.worker.learner.comm.base_comm_learner import BaseCommLearner, create_comm_learner
    from ding.worker.learner.comm.flask_fs_learner import (
        FlaskFileSystemLearner,
        LearnerSlave,
        SendLearnInfoHook,
        SendPolicyHook,
    )
    from ding.worker.learner.comm.inproc_learner import InprocLearner
    from ding.worker.learner.comm.utils import NaiveLearner

__all__ = [
    "DEFAULT_GROUP_TIMEOUT_S",
    "BaseCommLearner",
    "FlaskFileSystemLearner",
    "GroupBroken",
    "InprocLearner",
    "LearnerSlave",
    "NaiveLearner",
    "SendLearnInfoHook",
    "SendPolicyHook",
    "create_comm_learner",
    "group_backend",
    "join_group",
]

_MODULES = {
    "DEFAULT_GROUP_TIMEOUT_S": "_group",
    "GroupBroken": "_group",
    "group_backend": "_group",
    "join_group": "_group",
    "BaseCommLearner": "base_comm_learner",
    "create_comm_learner": "base_comm_learner",
    "FlaskFileSystemLearner": "flask_fs_learner",
    "LearnerSlave": "flask_fs_learner",
    "SendLearnInfoHook": "flask_fs_learner",
    "SendPolicyHook": "flask_fs_learner",
    "InprocLearner": "inproc_learner",
    "NaiveLearner": "utils",
}


def __getattr__(name: str) -> Any:
    return load_export(__name__, _MODULES, name, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
