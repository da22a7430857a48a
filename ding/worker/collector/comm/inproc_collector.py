"""The comm collector within one process: for tests, debugging and notebooks."""

from typing import Any, ClassVar

from ding.utils import COMM_COLLECTOR_REGISTRY
from ding.worker.collector.comm._plane_collector import PLANE_CONFIG, PlaneCollector


@COMM_COLLECTOR_REGISTRY.register("inproc")
class InprocCollector(PlaneCollector):
    """Tasks, chunks and policies through this process's memory.

    ``path_data`` and ``path_policy`` are only names, which all workers of the run share. ``transport`` is the network
    within the process (default: the only one).
    """

    config: ClassVar[dict[str, Any]] = {**PLANE_CONFIG, "planes": "inproc", "transport": "inproc"}
