"""The comm learner within one process: for tests, debugging and notebooks."""

from typing import Any

from ding.data.exchange import DataPlane, InprocDataPlane, InprocWeightPlane, WeightPlane
from ding.utils import COMM_LEARNER_REGISTRY
from ding.worker.learner.comm.flask_fs_learner import FlaskFileSystemLearner, LearnerSlave


@COMM_LEARNER_REGISTRY.register("inproc")
class InprocLearner(FlaskFileSystemLearner):
    """As :class:`FlaskFileSystemLearner`, with the network and the folders of this process's memory.

    ``path_data`` and ``path_policy`` are then only names, which all workers of the run share. ``transport`` is the
    in-process network (default: the one of the process).
    """

    config = {**FlaskFileSystemLearner.config, "transport": "inproc"}

    def _make_data_plane(self) -> DataPlane:
        return InprocDataPlane(self._cfg.path_data)

    def _make_weight_plane(self, policy_id: str) -> WeightPlane:
        return InprocWeightPlane(self._cfg.path_policy, policy_id)

    def _make_slave(self, **kwargs: Any) -> LearnerSlave:
        return super()._make_slave(transport=self._cfg.transport, **kwargs)
