"""Pipelines and the command line (floor 9). What a pipeline needs is imported when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# At once: the module of that name would hide the command otherwise.
from ding.entry.cli import cli

if TYPE_CHECKING:
    from ding.entry._plot import plot
    from ding.entry._signals import RunInterrupted
    from ding.entry.application_entry import eval
    from ding.entry.serial_entry import serial_pipeline
    from ding.entry.utils import mark_not_expert, mark_warm_up, random_collect

__all__ = [
    "RunInterrupted",
    "cli",
    "eval",
    "mark_not_expert",
    "mark_warm_up",
    "plot",
    "random_collect",
    "serial_pipeline",
]

_HOMES = {
    "RunInterrupted": "ding.entry._signals",
    "eval": "ding.entry.application_entry",
    "mark_not_expert": "ding.entry.utils",
    "mark_warm_up": "ding.entry.utils",
    "plot": "ding.entry._plot",
    "random_collect": "ding.entry.utils",
    "serial_pipeline": "ding.entry.serial_entry",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name.startswith(("serial_pipeline", "parallel_pipeline", "collect_", "trex_", "episode_to_")):
        raise ImportError(f"ding.entry.{name}: this version does not have that entry", name=name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
