from ding.interaction.base import TlsConfig as TlsConfig
from ding.interaction.base import read_run_token as read_run_token
from ding.interaction.base import write_run_token as write_run_token
from ding.interaction.base.inproc import InprocTransport as InprocTransport
from ding.interaction.errors import InteractionError as InteractionError
from ding.interaction.master import Connection as Connection
from ding.interaction.master import EnrolRefuse as EnrolRefuse
from ding.interaction.master import Master as Master
from ding.interaction.master import MasterStatistics as MasterStatistics
from ding.interaction.master import Task as Task
from ding.interaction.master import TaskStatus as TaskStatus
from ding.interaction.scale import request_scale as request_scale
from ding.interaction.slave import *
from ding.interaction.status import fetch_status as fetch_status
