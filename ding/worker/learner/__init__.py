"""The learner, which runs a policy's update on batches of samples, and its hooks."""

from typing import TYPE_CHECKING, Any

from ding.utils import absent_name
from ding.worker._lazy import load_export
from ding.worker.learner.base_learner import BaseLearner, TickMonitor, create_learner, get_simple_monitor_type
from ding.worker.learner.learner_hook import (
    Hook,
    LearnerHook,
    add_learner_hook,
    build_learner_hook_by_cfg,
    merge_hooks,
    register_learner_hook,
    show_hooks,
)

if TYPE_CHECKING:
    from ding.worker.learner.comm import BaseCommLearner, FlaskFileSystemLearner, create_comm_learner

__all__ = [
    "BaseCommLearner",
    "BaseLearner",
    "FlaskFileSystemLearner",
    "Hook",
    "LearnerHook",
    "TickMonitor",
    "add_learner_hook",
    "build_learner_hook_by_cfg",
    "create_comm_learner",
    "create_learner",
    "get_simple_monitor_type",
    "merge_hooks",
    "register_learner_hook",
    "show_hooks",
]

_COMM = dict.fromkeys(["BaseCommLearner", "FlaskFileSystemLearner", "create_comm_learner"], "comm")


def __getattr__(name: str) -> Any:
    if name not in _COMM:
        raise absent_name(__name__, name, __all__)
    return load_export(__name__, _COMM, name, globals())
