"""The learner, which runs a policy's update on batches of samples, and its hooks."""

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

__all__ = [
    "BaseLearner",
    "Hook",
    "LearnerHook",
    "TickMonitor",
    "add_learner_hook",
    "build_learner_hook_by_cfg",
    "create_learner",
    "get_simple_monitor_type",
    "merge_hooks",
    "register_learner_hook",
    "show_hooks",
]
