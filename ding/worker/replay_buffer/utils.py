"""The parts of replay buffers that are named by configs and tests."""

from ding.worker.replay_buffer._monitors import PeriodicThruputMonitor, SampledDataAttrMonitor
from ding.worker.replay_buffer._throughput import ThruputController
from ding.worker.replay_buffer._used_data import UsedDataRemover

__all__ = [
    "PeriodicThruputMonitor",
    "SampledDataAttrMonitor",
    "ThruputController",
    "UsedDataRemover",
    "generate_id",
]


def generate_id(name: str, data_id: int) -> str:
    """The unique id of an element: ``<name>_<data_id>``."""
    return f"{name}_{data_id}"
