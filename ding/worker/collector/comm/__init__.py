"""What connects parallel collectors with a coordinator. Names are imported when they are first used."""

from typing import TYPE_CHECKING, Any

from ding.worker._lazy import load_export

if TYPE_CHECKING:
    from ding.worker.collector.comm.base_comm_collector import BaseCommCollector, create_comm_collector
    from ding.worker.collector.comm.flask_fs_collector import CollectorSlave, FlaskFileSystemCollector
    from ding.worker.collector.comm.inproc_collector import InprocCollector
    from ding.worker.collector.comm.utils import NaiveCollector

__all__ = [
    "BaseCommCollector",
    "CollectorSlave",
    "FlaskFileSystemCollector",
    "InprocCollector",
    "NaiveCollector",
    "create_comm_collector",
]

_MODULES = {
    "BaseCommCollector": "base_comm_collector",
    "CollectorSlave": "flask_fs_collector",
    "FlaskFileSystemCollector": "flask_fs_collector",
    "InprocCollector": "inproc_collector",
    "NaiveCollector": "utils",
    "create_comm_collector": "base_comm_collector",
}


def __getattr__(name: str) -> Any:
    return load_export(__name__, _MODULES, name, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
