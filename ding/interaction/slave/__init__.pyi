from ding.interaction.slave.action import ConnectionRefuse as ConnectionRefuse
from ding.interaction.slave.action import DisconnectionRefuse as DisconnectionRefuse
from ding.interaction.slave.action import TaskFail as TaskFail
from ding.interaction.slave.action import TaskInvalid as TaskInvalid
from ding.interaction.slave.action import TaskRefuse as TaskRefuse
from ding.interaction.slave.slave import Slave as Slave
from ding.interaction.slave.slave import SlaveStatistics as SlaveStatistics
