"""The figures that the serial pipeline is held to: collector, learner, pipeline, DQN."""

from __future__ import annotations

from benchmarks._plan import Measurement
from benchmarks.suites import collector, end_to_end, learner

TITLE = "Serial pipeline against DI-engine and peers"


def measurements() -> list[Measurement]:
    """Every measurement that has a target of the serial pipeline."""
    found = [*collector.measurements(), *learner.measurements(), *end_to_end.measurements()]
    return [one for one in found if any(op.targets for op in one.ops)]
