"""DI-engine's comm learner: tasks over HTTP, data and policies in shared folders."""

import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ding.parallel.planes import FileDataPlane
from ding.utils import COMM_LEARNER_REGISTRY
from ding.worker._comm_slave import LearnerSlave
from ding.worker._component import Absent
from ding.worker.learner.comm._comm_hooks import SendLearnInfoHook, SendPolicyHook
from ding.worker.learner.comm._plane_learner import PLANE_CONFIG, PlaneLearner

__all__ = ["FlaskFileSystemLearner", "LearnerSlave", "SendLearnInfoHook", "SendPolicyHook"]


@COMM_LEARNER_REGISTRY.register("flask_fs")
class FlaskFileSystemLearner(PlaneLearner):
    """Comm learner with tasks over HTTP, and chunks and policies in folders.

    Args:
        cfg: See :attr:`config`. ``port`` may be a list with one entry per rank; a single number is the port of rank 0,
            and the other ranks use the following ports.
    """

    config: ClassVar[dict[str, Any]] = {**PLANE_CONFIG, "planes": "file"}

    _data_demand_queue = Absent("batches are read ahead; override get_data(batch_size)")
    _data_result_queue = Absent("batches are read ahead; override get_data(batch_size)")
    _learn_info_queue = Absent("news are collected until they are asked for; override send_learn_info(learn_info)")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "load_data_fn" in vars(cls):
            raise TypeError(
                f"{cls.__name__}.load_data_fn would never be called: batches are cut from the columns of whole chunks; "
                "override get_data, which may change what super().get_data(batch_size) returns"
            )

    @staticmethod
    def load_data_fn(
        path: str, meta: Mapping[str, Any], decompressor: Callable[[bytes], bytes] | None = None
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """Read samples that a collector stored. For scripts: the learner itself cuts batches from whole chunks.

        Args:
            path: Path of the chunk in ``path_data``, with or without its suffix.
            meta: Merged into each sample. ``unroll_split_begin`` and ``unroll_len`` select rows; by default all.
            decompressor: Ignored: chunks are not compressed.

        Returns:
            A transition if there is one row, otherwise a list of transitions.

        Raises:
            ChunkMissing: The chunk does not exist.
            ChunkBroken: Its bytes have changed; it was quarantined.
        """
        folder, name = os.path.split(path)
        rows = FileDataPlane(folder).get(name.removesuffix(".chunk")).rows()
        begin = int(meta.get("unroll_split_begin", 0))
        taken = [{**row, **meta} for row in rows[begin : begin + int(meta.get("unroll_len", len(rows)))]]
        return taken[0] if len(taken) == 1 else taken
