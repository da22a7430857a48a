"""The side that does tasks."""

from ding.interaction.slave.action import ConnectionRefuse, DisconnectionRefuse, TaskFail, TaskInvalid, TaskRefuse
from ding.interaction.slave.slave import Slave, SlaveStatistics

__all__ = [
    "ConnectionRefuse",
    "DisconnectionRefuse",
    "Slave",
    "SlaveStatistics",
    "TaskFail",
    "TaskInvalid",
    "TaskRefuse",
]
