"""DI-engine's comm collector: tasks over HTTP, data and policies in shared folders."""

from typing import Any, ClassVar

from ding.utils import COMM_COLLECTOR_REGISTRY
from ding.worker._comm_slave import CollectorSlave
from ding.worker._component import Absent
from ding.worker.collector.comm._plane_collector import PLANE_CONFIG, PlaneCollector

__all__ = ["CollectorSlave", "FlaskFileSystemCollector"]


@COMM_COLLECTOR_REGISTRY.register("flask_fs")
class FlaskFileSystemCollector(PlaneCollector):
    """Comm collector with tasks over HTTP, and chunks and policies in folders.

    Args:
        cfg: See :attr:`config`; port 0 or ``'auto'`` selects a free one.
    """

    config: ClassVar[dict[str, Any]] = {**PLANE_CONFIG, "planes": "file"}

    _metadata_queue = Absent("metadata is sent in the background; override send_metadata(metadata)")
