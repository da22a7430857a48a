"""The parts of replay buffers that are named by configs and tests."""

from ding.data.replay.limits import ThruputController
from ding.data.replay.reports import PeriodicThruputMonitor, SampledDataAttrMonitor, UsedDataRemover

__all__ = [
    "PeriodicThruputMonitor",
    "SampledDataAttrMonitor",
    "ThruputController",
    "UsedDataRemover",
    "generate_id",
]


def generate_id(name: str, data_id: int) -> str:
    """Return the unique id of an element: ``<name>_<data_id>``."""
    return f"{name}_{data_id}"
