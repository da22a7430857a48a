"""Adapters between the workers of the parallel mode."""

from typing import TYPE_CHECKING, Any

from ding.worker._lazy import load_export

if TYPE_CHECKING:
    from ding.worker.adapter.learner_aggregator import LearnerAggregator, LearnerAggregatorSlave, WorkersMissing

__all__ = ["LearnerAggregator", "LearnerAggregatorSlave", "WorkersMissing"]

_MODULES = dict.fromkeys(__all__, "learner_aggregator")


def __getattr__(name: str) -> Any:
    return load_export(__name__, _MODULES, name, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
