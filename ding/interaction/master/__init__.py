"""The side that gives tasks."""

from ding.interaction.master.base import EnrolRefuse, MasterHooks
from ding.interaction.master.connection import Connection
from ding.interaction.master.master import Master, MasterStatistics
from ding.interaction.master.task import Task, TaskStatus

__all__ = ["Connection", "EnrolRefuse", "Master", "MasterHooks", "MasterStatistics", "Task", "TaskStatus"]
