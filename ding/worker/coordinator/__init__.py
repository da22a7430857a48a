"""The coordinator of the parallel mode, and commanders, which decide what the other workers do next."""

from typing import TYPE_CHECKING, Any

from ding.worker._lazy import load_export
from ding.worker.coordinator.base_serial_commander import BaseSerialCommander

if TYPE_CHECKING:
    from ding.worker.coordinator.base_parallel_commander import (
        BaseCommander,
        NaiveCommander,
        create_parallel_commander,
        get_parallel_commander_cls,
    )
    from ding.worker.coordinator.comm_coordinator import CommCoordinator
    from ding.worker.coordinator.coordinator import Coordinator, TaskState
    from ding.worker.coordinator.one_vs_one_parallel_commander import OneVsOneCommander
    from ding.worker.coordinator.operator_server import OperatorServer
    from ding.worker.coordinator.resource_manager import NaiveResourceManager
    from ding.worker.coordinator.solo_parallel_commander import SoloCommander

__all__ = [
    "BaseCommander",
    "BaseSerialCommander",
    "CommCoordinator",
    "Coordinator",
    "NaiveCommander",
    "NaiveResourceManager",
    "OneVsOneCommander",
    "OperatorServer",
    "SoloCommander",
    "TaskState",
    "create_parallel_commander",
    "get_parallel_commander_cls",
]

_MODULES = {
    "BaseCommander": "base_parallel_commander",
    "NaiveCommander": "base_parallel_commander",
    "create_parallel_commander": "base_parallel_commander",
    "get_parallel_commander_cls": "base_parallel_commander",
    "CommCoordinator": "comm_coordinator",
    "Coordinator": "coordinator",
    "TaskState": "coordinator",
    "OneVsOneCommander": "one_vs_one_parallel_commander",
    "OperatorServer": "operator_server",
    "NaiveResourceManager": "resource_manager",
    "SoloCommander": "solo_parallel_commander",
}


def __getattr__(name: str) -> Any:
    return load_export(__name__, _MODULES, name, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
