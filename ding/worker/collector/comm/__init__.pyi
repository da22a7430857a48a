from ding.worker.collector.comm.base_comm_collector import BaseCommCollector as BaseCommCollector
from ding.worker.collector.comm.base_comm_collector import create_comm_collector as create_comm_collector
from ding.worker.collector.comm.flask_fs_collector import CollectorSlave as CollectorSlave
from ding.worker.collector.comm.flask_fs_collector import FlaskFileSystemCollector as FlaskFileSystemCollector
from ding.worker.collector.comm.inproc_collector import InprocCollector as InprocCollector
from ding.worker.collector.comm.utils import NaiveCollector as NaiveCollector
