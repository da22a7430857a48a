"""Floor 6: the control plane of the parallel mode.

A `Master` gives tasks to `Slave`s; JSON over HTTP in both directions, never data. `docs/architecture.md` shows where it
stands, ``ding.interaction.exception.base`` draws the tree of errors, ``ding.interaction.inproc`` is the same within one
process.

Flask and waitress are imported when a service starts to listen over HTTP.
"""

from ding.interaction.base import TlsConfig, read_run_token, write_run_token
from ding.interaction.exception import InteractionError
from ding.interaction.inproc import InprocTransport
from ding.interaction.master import Connection, EnrolRefuse, Master, MasterStatistics, Task, TaskStatus
from ding.interaction.slave import (
    ConnectionRefuse,
    DisconnectionRefuse,
    Slave,
    SlaveStatistics,
    TaskFail,
    TaskInvalid,
    TaskRefuse,
)
from ding.interaction.status import fetch_status

__all__ = [
    "Connection",
    "ConnectionRefuse",
    "DisconnectionRefuse",
    "EnrolRefuse",
    "InprocTransport",
    "InteractionError",
    "Master",
    "MasterStatistics",
    "Slave",
    "SlaveStatistics",
    "Task",
    "TaskFail",
    "TaskInvalid",
    "TaskRefuse",
    "TaskStatus",
    "TlsConfig",
    "fetch_status",
    "read_run_token",
    "write_run_token",
]
