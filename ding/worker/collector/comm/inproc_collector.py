"""The comm collector within one process: for tests, debugging and notebooks."""

from typing import Any

from ding.data.exchange import DataPlane, InprocDataPlane, InprocWeightPlane, WeightPlane
from ding.utils import COMM_COLLECTOR_REGISTRY
from ding.worker.collector.comm._policy_source import PolicySource
from ding.worker.collector.comm.flask_fs_collector import CollectorSlave, FlaskFileSystemCollector


@COMM_COLLECTOR_REGISTRY.register("inproc")
class InprocCollector(FlaskFileSystemCollector):
    """As :class:`FlaskFileSystemCollector`, with the network and the folders of this process's memory.

    ``path_data`` and ``path_policy`` are then only names, which all workers of the run share. ``transport`` is the
    in-process network (default: the one of the process).
    """

    config = {**FlaskFileSystemCollector.config, "transport": "inproc"}

    def _make_data_plane(self) -> DataPlane:
        return InprocDataPlane(self._cfg.path_data, self.incarnation, max_bytes=self._cfg.max_data_bytes)

    def _make_weight_plane(self, policy_id: str) -> WeightPlane:
        return InprocWeightPlane(self._cfg.path_policy, policy_id)

    def _make_policy_source(self) -> PolicySource:
        return PolicySource(None, self._make_weight_plane)

    def _make_slave(self, **kwargs: Any) -> CollectorSlave:
        return super()._make_slave(transport=self._cfg.transport, **kwargs)
