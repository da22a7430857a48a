"""Pipelines and the command line (floor 9). What a pipeline needs is imported when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# At once: the module of that name would hide the command otherwise.
from ding.entry.cli import cli

if TYPE_CHECKING:
    from ding.entry._plot import plot
    from ding.entry._role import RoleFailed
    from ding.entry._signals import RunInterrupted
    from ding.entry.application_entry import eval
    from ding.entry.dist_entry import (
        dist_add_replicas,
        dist_delete_replicas,
        dist_launch_collector,
        dist_launch_coordinator,
        dist_launch_learner,
        dist_launch_learner_aggregator,
        dist_launch_spawn_learner,
        dist_prepare_config,
        dist_restart_replicas,
    )
    from ding.entry.parallel_entry import parallel_pipeline
    from ding.entry.serial_entry import serial_pipeline
    from ding.entry.utils import mark_not_expert, mark_warm_up, random_collect

__all__ = [
    "RoleFailed",
    "RunInterrupted",
    "cli",
    "dist_add_replicas",
    "dist_delete_replicas",
    "dist_launch_collector",
    "dist_launch_coordinator",
    "dist_launch_learner",
    "dist_launch_learner_aggregator",
    "dist_launch_spawn_learner",
    "dist_prepare_config",
    "dist_restart_replicas",
    "eval",
    "mark_not_expert",
    "mark_warm_up",
    "parallel_pipeline",
    "plot",
    "random_collect",
    "serial_pipeline",
]

_HOMES = {
    "RoleFailed": "ding.entry._role",
    "RunInterrupted": "ding.entry._signals",
    "dist_add_replicas": "ding.entry.dist_entry",
    "dist_delete_replicas": "ding.entry.dist_entry",
    "dist_launch_collector": "ding.entry.dist_entry",
    "dist_launch_coordinator": "ding.entry.dist_entry",
    "dist_launch_learner": "ding.entry.dist_entry",
    "dist_launch_learner_aggregator": "ding.entry.dist_entry",
    "dist_launch_spawn_learner": "ding.entry.dist_entry",
    "dist_prepare_config": "ding.entry.dist_entry",
    "dist_restart_replicas": "ding.entry.dist_entry",
    "eval": "ding.entry.application_entry",
    "mark_not_expert": "ding.entry.utils",
    "mark_warm_up": "ding.entry.utils",
    "parallel_pipeline": "ding.entry.parallel_entry",
    "plot": "ding.entry._plot",
    "random_collect": "ding.entry.utils",
    "serial_pipeline": "ding.entry.serial_entry",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name.startswith(
        (
            "serial_pipeline",
            "collect_",
            "trex_",
            "episode_to_",
        )
    ):
        raise ImportError(f"ding.entry.{name}: this version does not have that entry", name=name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
