from ding.interaction.master.base import EnrolRefuse as EnrolRefuse
from ding.interaction.master.base import MasterHooks as MasterHooks
from ding.interaction.master.connection import Connection as Connection
from ding.interaction.master.master import Master as Master
from ding.interaction.master.master import MasterStatistics as MasterStatistics
from ding.interaction.master.task import Task as Task
from ding.interaction.master.task import TaskStatus as TaskStatus
