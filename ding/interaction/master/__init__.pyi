from ding.interaction.master.connection import Connection as Connection
from ding.interaction.master.connection import ConnectionHooks as ConnectionHooks
from ding.interaction.master.connection import Task as Task
from ding.interaction.master.connection import TaskStatus as TaskStatus
from ding.interaction.master.master import EnrolRefuse as EnrolRefuse
from ding.interaction.master.master import Master as Master
from ding.interaction.master.master import MasterStatistics as MasterStatistics
