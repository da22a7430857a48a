"""In-process comm collector for tests, debugging and notebooks."""

from typing import Any, ClassVar

from ding.utils import COMM_COLLECTOR_REGISTRY
from ding.worker.collector.comm._plane_collector import PLANE_CONFIG, PlaneCollector


@COMM_COLLECTOR_REGISTRY.register("inproc")
class InprocCollector(PlaneCollector):
    """Comm collector with tasks, chunks and policies in the memory of this process.

    ``path_data`` and ``path_policy`` are names shared by all workers of the run. ``transport`` is the in-process
    network (default: the global one).
    """

    config: ClassVar[dict[str, Any]] = {**PLANE_CONFIG, "planes": "inproc", "transport": "inproc"}
