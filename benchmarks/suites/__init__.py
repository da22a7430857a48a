"""The suites: each module has a ``TITLE`` and ``measurements()``."""

from __future__ import annotations

import importlib
from types import ModuleType

SUITES = (
    "vector_envs",
    "collector",
    "buffers",
    "learner",
    "end_to_end",
    "control",
    "startup",
    "scaling",
    "parallel",
    "algorithms",
    "compiled",
    "world_model",
    "vs_reference",
)
# vs_reference picks from the others; running it beside them would measure the same twice.
DEFAULT_SUITES = SUITES[:-1]


def load(name: str) -> ModuleType:
    """The module of a suite.

    Raises:
        KeyError: there is no such suite.
    """
    if name not in SUITES:
        raise KeyError(f"unknown suite {name!r}; there are {', '.join(SUITES)}")
    return importlib.import_module(f"benchmarks.suites.{name}")
